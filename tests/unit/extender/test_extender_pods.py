"""The placement requests of pods."""

import pytest

from gputopo.api.names import RESOURCE
from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo_extender.verbs.evaluation import Misfit, MisfitKind
from gputopo_extender.verbs.request import placement_request
from gputopo_kube.pods import GpuContainer, PodView, parse_gpu_pod
from support.builders.objects import Document, container, pod


def record(document: Document) -> PodView:
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    return found


def response(document: Document) -> PlacementRequest | Misfit:
    return placement_request(
        record(document), resource=RESOURCE, default_policy=PolicyName.PRESERVE
    )


def test_init_container_must_not_request_more_than_the_next_that_keeps_its_gpus() -> None:
    side = {**container("side", 1), "restartPolicy": "Always"}
    for inits, gpus, expected in (
        ([container("first", 2), side], 2, "'first': 2 requested, but container 'side' after it "),
        ([side, container("first", 3)], 2, "'first': 3 requested, but container 'main' after it "),
        ([side, container("first", 3)], 0, "but each container after it keeps only 0 GPUs"),
        ([container("first", "1e3k")], 2, "container 'first': not a whole number below 1000"),
    ):
        rejected = response(pod("a", gpus, init_containers=inits))
        assert isinstance(rejected, Misfit)
        assert expected in rejected.reason


@pytest.mark.parametrize("count", ["1e3k", "9" * 5000, "-1", "0.5"])
def test_count_that_is_not_a_number_uses_a_whole_node_and_is_rejected(count: str) -> None:
    found = record(pod("a", containers=[container("main", count)]))
    assert found.most_gpus == 64
    rejected = placement_request(found, resource=RESOURCE, default_policy=PolicyName.PRESERVE)
    assert rejected == Misfit(
        MisfitKind.REJECTED, f"{RESOURCE} in container 'main': not a whole number below 1000"
    )


def test_several_containers_share_one_match_in_the_order_of_the_spec() -> None:
    two = pod("a", containers=[container("x", 1), container("log"), container("y", 2)])
    request = response(two)
    assert isinstance(request, PlacementRequest)
    assert record(two).containers == (GpuContainer("x", 1), GpuContainer("y", 2))
    assert (request.size, request.pattern.kind) == (3, PatternKind.RING)


def test_pods_policy_wins_over_the_configured_one() -> None:
    request = response(pod("a", 2, annotations={"gputopo.io/policy": "Greedy"}))
    assert isinstance(request, PlacementRequest)
    assert request.policy is PolicyName.GREEDY


@pytest.mark.parametrize(
    ("declared", "gpus", "sensitive", "reason"),
    [
        ("Auto", 1, False, "SingleGpu"),
        ("Auto", 2, True, "SensitivityUnknown"),
        ("Insensitive", 2, False, "Declared"),
        ("Sensitive", 2, True, "Declared"),
    ],
)
def test_sensitivity_is_declared_or_assumed_for_several_gpus(
    declared: str, gpus: int, *, sensitive: bool, reason: str
) -> None:
    request = response(pod("a", gpus, annotations={"gputopo.io/bandwidth-sensitivity": declared}))
    assert isinstance(request, PlacementRequest)
    assert (request.sensitive, request.sensitivity_reason) == (sensitive, reason)
