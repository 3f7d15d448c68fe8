"""Any text of an annotation is parsed, or rejected with the name of the annotation."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies

from gputopo.api.annotations import AnnotationError, parse_gpus, parse_placement
from gputopo.api.names import (
    EDGES_ANNOTATION,
    GPUS_ANNOTATION,
    PATTERN_ANNOTATION,
    PLACEMENT_ANNOTATION,
    POLICY_ANNOTATION,
    RESOURCES_ANNOTATION,
    RESOURCES_MAX_ANNOTATION,
    RESOURCES_MODE_ANNOTATION,
    SENSITIVITY_ANNOTATION,
    SHARING_IF_SLOW_ANNOTATION,
    SHARING_MAX_SLOWDOWN_ANNOTATION,
    SHARING_MEMORY_ANNOTATION,
    SHARING_TERMINATION_ANNOTATION,
)
from gputopo.api.replay import ReplayRecord, parse_replay
from gputopo.api.request import parse_request
from gputopo.api.shares import parse_sharing
from gputopo.api.tuning import TunedRecord, parse_tuned_record, parse_tuning_request
from gputopo_deviceplugin.admit.placement import PlacementError, candidate_gpus, intended_gpus
from gputopo_kube.pods import PodView, parse_pod
from support.property_settings import fuzzed, tried

MAX_MESSAGE = 1024
"""Maximum length of the message of an event."""

NAMES = (
    *(EDGES_ANNOTATION, GPUS_ANNOTATION, PATTERN_ANNOTATION),
    *(PLACEMENT_ANNOTATION, POLICY_ANNOTATION, SENSITIVITY_ANNOTATION),
    *(RESOURCES_ANNOTATION, RESOURCES_MAX_ANNOTATION, RESOURCES_MODE_ANNOTATION),
    *(SHARING_IF_SLOW_ANNOTATION, SHARING_MAX_SLOWDOWN_ANNOTATION),
    *(SHARING_MEMORY_ANNOTATION, SHARING_TERMINATION_ANNOTATION),
)
WORDS = (
    *("v", "uid", "node", "generation", "containers", "main", "uid-a", "n1", "GPU-1", "from"),
    *("to", "weight", "policy", "pattern", "sensitive", "reason", "aggregateMBps", "Ring"),
    *(
        "replay",
        "free",
        "gpus",
        "fingerprint",
        "Custom",
        "Preserve",
        "Auto",
        "floor",
        "milliCPU",
        "cpu=8",
        "memory=1Gi",
    ),
)
EXTREMES = (
    0,
    1,
    -1,
    2**31,
    2**63,
    2**64,
    10**400,
    -(10**400),
    1e308,
    float("nan"),
    "\x00",
    "\ud800",
)


class _Huge(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} characters of {self[:3]!r}>"


def _nested(depth: int, inside: str) -> str:
    return "[" * depth + inside + "]" * depth


Keys = (
    strategies.sampled_from(WORDS)
    | strategies.text(max_size=5)
    | strategies.just(_Huge("k" * 5000))
)
Scalars = (
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats()
    | Keys
    | strategies.sampled_from(EXTREMES)
)
Values = strategies.recursive(
    Scalars,
    lambda inner: (
        strategies.lists(inner, max_size=4) | strategies.dictionaries(Keys, inner, max_size=6)
    ),
    max_leaves=12,
)
NearlyRight = strategies.fixed_dictionaries(
    {
        "v": Scalars | strategies.just(1),
        "uid": Scalars | strategies.just("uid-a"),
        "node": Scalars | strategies.just("n1"),
        "generation": Scalars | strategies.just(1),
        "containers": Values | strategies.dictionaries(Keys, strategies.lists(Keys, max_size=4)),
    }
)
Edges = strategies.lists(
    strategies.fixed_dictionaries({"from": Scalars, "to": Scalars}, optional={"weight": Scalars})
)
Texts = (
    strategies.text()
    | strategies.sampled_from(WORDS)
    | (Values | NearlyRight | Edges).map(json.dumps)
    | (Values | NearlyRight).map(lambda value: json.dumps(value)[:-1])
    | strategies.builds(_nested, strategies.integers(0, 5000), strategies.text(max_size=3)).map(
        _Huge
    )
    | strategies.builds("{}{}".format, strategies.integers(), strategies.text())
    | strategies.integers(1, 6000).map(
        lambda digits: _Huge('{"v":1,"generation":' + "9" * digits + "}")
    )
    | strategies.text(min_size=1, max_size=3).map(lambda text: _Huge(json.dumps(text * 100_000)))
    | strategies.binary(max_size=50).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
)
Annotations = strategies.dictionaries(strategies.sampled_from(NAMES), Texts)


def parse_record(annotations: Mapping[str, str]) -> TunedRecord | None:
    return parse_tuned_record(annotations, "uid-a")


def parse_replayed(annotations: Mapping[str, str]) -> ReplayRecord | None:
    placement = parse_placement(annotations)
    return None if placement is None else parse_replay(placement)


@pytest.mark.parametrize(
    "parse",
    [
        *(parse_request, parse_gpus, parse_placement, parse_record, parse_tuning_request),
        *(parse_replayed, parse_sharing),
    ],
)
@fuzzed
@given(annotations=Annotations)
def test_any_text_is_parsed_or_rejected_with_the_name_of_its_annotation(
    parse: Callable[[Mapping[str, str]], object], annotations: dict[str, str]
) -> None:
    tried("annotations, by the parsers")
    try:
        parse(annotations)
    except AnnotationError as error:
        message = str(error)
        assert message.startswith(NAMES)
        assert len(message) <= MAX_MESSAGE


def _pod(annotations: Mapping[str, str], containers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": "uid-a",
            "annotations": dict(annotations),
        },
        "spec": {"nodeName": "n1", "containers": containers},
    }


Quantities = strategies.sampled_from(
    ["0", "1", "2", "64", "1k", "1e3", _Huge("9" * 5000), "\u0663", 1]
)
Containers = strategies.lists(
    strategies.builds(
        lambda name, quantity: {
            "name": name,
            "resources": {"limits": {"gputopo.io/gpu": quantity}},
        },
        strategies.sampled_from(["main", "side"]),
        Quantities,
    ),
    max_size=3,
    unique_by=lambda container: container["name"],
)


@fuzzed
@given(annotations=Annotations, containers=Containers)
def test_the_agent_allocates_the_annotated_gpus_or_returns_the_reason(
    annotations: dict[str, str], containers: list[dict[str, Any]]
) -> None:
    tried("annotations, by the agent")
    record = parse_pod(_pod(annotations, containers), "gputopo.io/gpu")
    for container in record.containers:
        given, reason = _given(record, container.name)
        if reason:
            assert reason.startswith("pod default/a")
            assert len(reason) <= MAX_MESSAGE
        else:
            assert len(given) == len(set(given)) == container.gpus
            assert given == intended_gpus(record, "n1")[container.name]


def _given(record: PodView, container: str) -> tuple[Sequence[str], str]:
    try:
        return candidate_gpus(record, container, "n1"), ""
    except PlacementError as error:
        return (), str(error)
