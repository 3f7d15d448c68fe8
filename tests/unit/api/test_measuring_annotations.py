"""The annotations by which a pod requests measurements."""

import pytest

from gputopo.api.annotations import AnnotationError
from gputopo.api.measuring import (
    MeasuringRequest,
    MetricsEndpoint,
    format_measuring,
    parse_measuring,
)

METRICS = {"gputopo.io/steps-source": "Metrics"}


@pytest.mark.parametrize(
    "request_",
    [
        MeasuringRequest(),
        MeasuringRequest(profile="bert-large.v2", source="Log"),
        MeasuringRequest(source="Metrics", metrics=MetricsEndpoint(9090, "/m?x=1", "a:steps")),
        MeasuringRequest(targets=("CPUs", "Links"), profiling_seconds=90),
    ],
)
def test_request_is_written_and_read_again(request_: MeasuringRequest) -> None:
    assert parse_measuring(format_measuring(request_)) == request_


def test_pod_without_annotations_is_measured_by_the_sdk_without_a_profile() -> None:
    assert parse_measuring({}) == MeasuringRequest(profile=None, source="SDK")


def test_targets_are_separated_by_commas_and_unique() -> None:
    request = parse_measuring({"gputopo.io/profiling": " CPUs , Links,CPUs,"})
    assert request.targets == ("CPUs", "Links")


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"gputopo.io/profile": "Bert"}, "gputopo.io/profile: 'Bert' is not the name"),
        ({"gputopo.io/profile": ""}, "gputopo.io/profile: '' is not the name"),
        ({"gputopo.io/steps-source": "sdk"}, "'sdk' is not one of SDK, Metrics, Log"),
        (METRICS, "gputopo.io/steps-metrics: required with gputopo.io/steps-source=Metrics"),
        ({"gputopo.io/steps-metrics": "1/ a"}, "allowed with gputopo.io/steps-source=Metrics only"),
        (METRICS | {"gputopo.io/steps-metrics": "9090"}, "'9090' is not PORT/PATH METRIC"),
        (METRICS | {"gputopo.io/steps-metrics": "0/m a"}, "'0/m a' is not PORT/PATH METRIC"),
        (METRICS | {"gputopo.io/steps-metrics": "65536/m a"}, "is not PORT/PATH METRIC"),
        ({"gputopo.io/profiling": "GPUs"}, "'GPUs' is not one of CPUs, Links"),
        ({"gputopo.io/profiling": "," * 257}, "has 257 characters; at most 256 are allowed"),
        ({"gputopo.io/profiling-seconds": "0"}, "'0' is not a whole number of seconds from 1"),
        ({"gputopo.io/profiling-seconds": "1e3"}, "'1e3' is not a whole number of seconds"),
        ({"gputopo.io/profiling-seconds": "604801"}, "'604801' is not a whole number"),
        ({"gputopo.io/profiling-seconds": "9" * 99}, "is not a whole number of seconds"),
    ],
)
def test_invalid_value_is_rejected_with_annotation_value_and_remedy(
    annotations: dict[str, str], message: str
) -> None:
    with pytest.raises(AnnotationError) as caught:
        parse_measuring(annotations)
    assert message in str(caught.value)
