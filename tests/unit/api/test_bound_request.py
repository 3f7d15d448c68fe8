"""The request of a bound pod is the one that was recorded at its Binding."""

import json
from typing import Any

import pytest

from gputopo.api.annotations import GpusAnnotation, parse_gpus
from gputopo.api.bound_request import request_record, with_bound_request
from gputopo.api.fields import POD_REQUEST
from gputopo.api.names import (
    GPUS_ANNOTATION,
    PATTERN_ANNOTATION,
    PROFILE_ANNOTATION,
    SHARING_MEMORY_ANNOTATION,
    STEPS_SOURCE_ANNOTATION,
)

RECORD = {"profile": "bert"}


def bound(**changes: Any) -> str:
    """Return the annotation that the extender wrote for the pod "u" on node "n1"."""
    fields = {"uid": "u", "node": "n1", "generation": 1, "containers": {"main": ["GPU-a"]}}
    return json.dumps(fields | {"request": RECORD} | changes, separators=(",", ":"))


def test_record_has_the_values_that_are_read_after_the_binding() -> None:
    everything = {field.name: f"value of {field.name}" for field in POD_REQUEST}
    found = request_record(everything | {STEPS_SOURCE_ANNOTATION: "Log"})
    assert {f"gputopo.io/{name}": value for name, value in found.items()}.items() <= (
        everything.items()
    )
    assert sorted(found) == [
        "avoid",
        "bandwidth-sensitivity",
        "profile",
        "sharing-if-slow",
        "sharing-max-slowdown-percent",
        "sharing-memory",
        "sharing-termination",
    ]
    assert request_record({PATTERN_ANNOTATION: "Ring"}) == {}


def test_annotation_with_a_record_is_read_by_every_version() -> None:
    written = GpusAnnotation(
        uid="u", node="n1", generation=1, containers={"main": ["GPU-a"]}, request=RECORD
    )
    found = with_bound_request({GPUS_ANNOTATION: written.dump()}, "u", "n1")
    assert found[PROFILE_ANNOTATION] == "bert"
    assert parse_gpus({GPUS_ANNOTATION: bound()}) == written.model_copy()
    assert "request" not in written.model_copy(update={"request": None}).dump()


def test_changed_added_and_removed_values_are_those_of_the_binding() -> None:
    changed = {
        GPUS_ANNOTATION: bound(),
        PROFILE_ANNOTATION: "other",
        SHARING_MEMORY_ANNOTATION: "80Gi",
        STEPS_SOURCE_ANNOTATION: "Log",
    }
    others = {GPUS_ANNOTATION: bound(), STEPS_SOURCE_ANNOTATION: "Log"}
    assert with_bound_request(changed, "u", "n1") == others | {PROFILE_ANNOTATION: "bert"}
    assert with_bound_request(others, "u", "n1") == others | {PROFILE_ANNOTATION: "bert"}
    nothing = {**changed, GPUS_ANNOTATION: bound(request={})}
    assert PROFILE_ANNOTATION not in with_bound_request(nothing, "u", "n1")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        (None, "n1"),
        (bound(), None),
        (bound(), "n2"),
        (bound(uid="another"), "n1"),
        (bound(request=None), "n1"),
        (bound(request=["profile"]), "n1"),
        (GpusAnnotation(uid="u", node="n1", generation=1, containers={}).dump(), "n1"),
        ('{"request":', "n1"),
        ('["request":1]', "n1"),
        ('["\\"request\\":"]', "n1"),
        ('[{"request":1}]', "n1"),
        ('{"request":{},"node":"n1"}', "n1"),
        ('{"request":' + "[" * 100_000, "n1"),
    ],
    ids=str,
)
def test_without_a_record_of_the_pod_itself_the_annotations_count(
    text: str | None, node: str | None
) -> None:
    annotations = {PROFILE_ANNOTATION: "mine"} | ({} if text is None else {GPUS_ANNOTATION: text})
    assert with_bound_request(annotations, "u", node) is annotations
