"""The annotations of pods whose CPUs and memory follow the measured curves."""

import json
from typing import Any

import pytest

from gputopo.api.annotations import AnnotationError
from gputopo.api.tuning import (
    Amounts,
    ResourcesMode,
    TunedRecord,
    TuningRequest,
    format_tuning_request,
    parse_tuned_record,
    parse_tuning_request,
)

GIB = 2**30
NAME = "gputopo.io/resources"
AUTO = {"gputopo.io/resources-mode": "Auto"}
RECORD = TunedRecord(
    uid="uid-a",
    floor=Amounts(1000, GIB),
    last=Amounts(2000, GIB),
    target=Amounts(4000, 2 * GIB),
    since="2026-01-01T12:00:00Z",
    reason="8 % faster with 4 CPUs",
    most_milli_cpu=5000,
)


def record_json(**changes: Any) -> dict[str, str]:
    return {NAME: json.dumps(json.loads(RECORD.dump()) | changes)}


def test_record_is_written_and_parsed_again() -> None:
    assert parse_tuned_record({NAME: RECORD.dump()}, "uid-a") == RECORD


def test_record_has_the_names_of_the_api() -> None:
    assert json.loads(RECORD.dump()) == {
        "v": 1,
        "uid": "uid-a",
        "floor": {"milliCPU": 1000, "memory": GIB},
        "last": {"milliCPU": 2000, "memory": GIB},
        "target": {"milliCPU": 4000, "memory": 2 * GIB},
        "since": "2026-01-01T12:00:00Z",
        "reason": "8 % faster with 4 CPUs",
        "done": False,
        "rejected": False,
        "beforeMicroStepsPerSecond": 0,
        "pinned": False,
        "peakMemory": 0,
        "leastMemory": 0,
        "mostMilliCPU": 5000,
        "deferrals": 0,
    }


def test_pod_without_the_annotation_has_no_record() -> None:
    assert parse_tuned_record({}, "uid-a") is None


def test_record_that_was_copied_from_another_pod_is_ignored() -> None:
    assert parse_tuned_record({NAME: RECORD.dump()}, "uid-b") is None


def test_record_of_an_older_version_gets_default_values_for_missing_fields() -> None:
    fields = ("v", "uid", "floor", "last", "target", "since")
    older = {key: value for key, value in json.loads(RECORD.dump()).items() if key in fields}
    record = parse_tuned_record({NAME: json.dumps(older)}, "uid-a")
    assert record == RECORD.model_copy(update={"reason": "", "most_milli_cpu": None})


def test_unknown_field_of_a_newer_version_is_ignored() -> None:
    assert parse_tuned_record(record_json(later=1), "uid-a") == RECORD


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({NAME: "{"}, "gputopo.io/resources: value: '{': Invalid JSON"),
        (record_json(v=2), "gputopo.io/resources: v: 2: Input should be 1"),
        (record_json(floor={"memory": 1}), "gputopo.io/resources: floor.milliCPU: is required"),
        (record_json(last=5), "gputopo.io/resources: last: 5: Input should be"),
        (record_json(target={"milliCPU": -1, "memory": 1}), "target.milliCPU: -1: Input should"),
        (record_json(since="today"), "gputopo.io/resources: since: 'today'"),
        (record_json(since="2026-99-99T99:99:99Z"), "since: '2026-99-99T99:99:99Z': Value error"),
        (record_json(leastMemory=2**63), "gputopo.io/resources: leastMemory: 9223372036854775808"),
    ],
)
def test_invalid_record_is_rejected_with_field_value_and_remedy(
    annotations: dict[str, str], message: str
) -> None:
    with pytest.raises(AnnotationError, match="the operator replaces the annotation") as caught:
        parse_tuned_record(annotations, "uid-a")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "request_",
    [
        TuningRequest(),
        TuningRequest(ResourcesMode.PROPORTIONAL),
        TuningRequest(ResourcesMode.AUTO, most_milli_cpu=7500),
        TuningRequest(ResourcesMode.AUTO, most_memory=64 * GIB),
        TuningRequest(ResourcesMode.AUTO, 8000, 10**9 + 1),
    ],
)
def test_request_is_equal_after_it_is_written_and_parsed(request_: TuningRequest) -> None:
    assert parse_tuning_request(format_tuning_request(request_)) == request_


def test_pod_without_annotations_keeps_its_amounts() -> None:
    assert parse_tuning_request({}).mode is ResourcesMode.FIXED


@pytest.mark.parametrize(
    ("text", "most_milli_cpu", "most_memory"),
    [
        ("cpu=8,memory=64Gi", 8000, 64 * GIB),
        (" memory=1G , cpu=7.5", 7500, 10**9),
        ("cpu=250m", 250, None),
        ("memory=1000", None, 1000),
    ],
)
def test_bounds_are_kubernetes_quantities(
    text: str, most_milli_cpu: int | None, most_memory: int | None
) -> None:
    request = parse_tuning_request(AUTO | {"gputopo.io/resources-max": text})
    assert request == TuningRequest(ResourcesMode.AUTO, most_milli_cpu, most_memory)


@pytest.mark.parametrize(
    "text",
    [
        *("", "8", "cpu", "cpu=", "cpu=0", "cpu=1.2345", "cpu=-1", "cpu=8,cpu=9", "cpu=8,"),
        *("gpu=1", "memory=1.5Gi", "memory=0", "memory=8Ei", "cpu=" + "9" * 10, "cpu=\u0663"),
        "cpu=1," * 50 + "memory=1Gi",
    ],
)
def test_invalid_bound_is_rejected_with_annotation_value_and_example(text: str) -> None:
    with pytest.raises(AnnotationError, match="for example 'cpu=8,memory=64Gi'") as caught:
        parse_tuning_request(AUTO | {"gputopo.io/resources-max": text})
    assert str(caught.value).startswith("gputopo.io/resources-max: '")


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        (
            {"gputopo.io/resources-mode": "auto"},
            "gputopo.io/resources-mode: 'auto' is not one of Fixed, Proportional, Auto",
        ),
        (
            {"gputopo.io/resources-max": "cpu=8"},
            "gputopo.io/resources-max: 'cpu=8' is allowed with gputopo.io/resources-mode=Auto or",
        ),
    ],
)
def test_invalid_mode_is_rejected_with_annotation_value_and_remedy(
    annotations: dict[str, str], message: str
) -> None:
    with pytest.raises(AnnotationError) as caught:
        parse_tuning_request(annotations)
    assert message in str(caught.value)
