"""The placement requests of pods."""

import pytest

from gputopo.api.known_facts import FactsAnnotation, KnownPattern, KnownSlowdown
from gputopo.api.names import RESOURCE
from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo_kube.gpu_containers import GpuContainer
from gputopo_scheduling.evaluation import Misfit, MisfitKind
from gputopo_scheduling.request import placement_request
from support.builders.objects import Document, container, pod
from support.builders.requests import pod_view


def response(document: Document) -> PlacementRequest | Misfit:
    return placement_request(
        pod_view(document), resource=RESOURCE, default_policy=PolicyName.PRESERVE
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
    found = pod_view(pod("a", containers=[container("main", count)]))
    assert found.most_gpus == 64
    rejected = placement_request(found, resource=RESOURCE, default_policy=PolicyName.PRESERVE)
    assert rejected == Misfit(
        MisfitKind.REJECTED, f"{RESOURCE} in container 'main': not a whole number below 1000"
    )


def test_several_containers_share_one_match_in_the_order_of_the_spec() -> None:
    two = pod("a", containers=[container("x", 1), container("log"), container("y", 2)])
    request = response(two)
    assert isinstance(request, PlacementRequest)
    assert pod_view(two).containers == (GpuContainer("x", 1), GpuContainer("y", 2))
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


def _with_facts(text: str, **annotations: str) -> PlacementRequest | Misfit:
    return response(pod("a", 2, annotations={"gputopo.io/facts": text, **annotations}))


@pytest.mark.parametrize(
    ("low", "high", "sensitive", "reason"),
    [
        (40, 50, True, "Profile"),
        (1, 5, False, "Profile"),
        (4, 25, True, "SensitivityUnknown"),
    ],
)
def test_measured_slowdown_decides_the_sensitivity(
    low: int, high: int, *, sensitive: bool, reason: str
) -> None:
    known = KnownSlowdown(percent=(low + high) // 2, low=low, high=high, samples=8)
    facts = FactsAnnotation(profile="bert", source="Measured", links={2: known})
    request = _with_facts(facts.dump())
    assert isinstance(request, PlacementRequest)
    assert (request.sensitive, request.sensitivity_reason) == (sensitive, reason)
    fact = f"GPUProfile bert: {known}" if reason == "Profile" else None
    assert request.fact == fact


def test_slowdown_with_another_number_of_gpus_decides_nothing() -> None:
    known = KnownSlowdown(percent=1, low=0, high=2, samples=8)
    facts = FactsAnnotation(profile="bert", source="Measured", links={4: known})
    request = _with_facts(facts.dump())
    assert isinstance(request, PlacementRequest)
    assert (request.sensitivity_reason, request.fact) == ("SensitivityUnknown", None)


def test_declaration_of_the_pod_has_priority_over_facts() -> None:
    annotation = {"gputopo.io/bandwidth-sensitivity": "Insensitive"}
    request = _with_facts(FactsAnnotation.declared("bert", 90).dump(), **annotation)
    assert isinstance(request, PlacementRequest)
    assert (request.sensitive, request.sensitivity_reason) == (False, "Declared")
    assert request.fact is None


@pytest.mark.parametrize("text", ["{", '{"v":2,"profile":"bert","source":"Measured"}'])
def test_facts_of_a_newer_operator_do_not_prevent_the_placement(text: str) -> None:
    request = _with_facts(text)
    assert isinstance(request, PlacementRequest)
    assert (request.sensitivity_reason, request.fact) == ("SensitivityUnknown", None)


def test_learnt_pattern_is_that_of_a_pod_that_declares_none() -> None:
    learnt = KnownPattern(kind="Star", confidence=900, windows=30)
    facts = FactsAnnotation(profile="bert", source="Measured", patterns={2: learnt}).dump()
    for annotations in ({}, {"gputopo.io/pattern": "Auto"}):
        request = _with_facts(facts, **annotations)
        assert isinstance(request, PlacementRequest)
        assert request.pattern.kind is PatternKind.STAR
        assert request.pattern_fact == "GPUProfile bert: Star, seen in 90 % of 30 windows"
    declared = _with_facts(facts, **{"gputopo.io/pattern": "Chain"})
    assert isinstance(declared, PlacementRequest)
    assert (declared.pattern.kind, declared.pattern_fact) == (PatternKind.CHAIN, None)


def test_invalid_measuring_annotations_are_rejected() -> None:
    request = response(pod("a", 2, annotations={"gputopo.io/steps-source": "sdk"}))
    assert isinstance(request, Misfit)
    assert "gputopo.io/steps-source" in request.reason
