"""Placement of one job on one node, with the figures of the paper's server."""

from dataclasses import replace

import pytest

from gputopo.bandwidth.model import ModelError
from gputopo.bandwidth.models import AGGREGATE, EQ2, PHYSICAL
from gputopo.catalogue import named
from gputopo.patterns.model import all_to_all, ring, ring_tree
from gputopo.placement.model import Match, NoFit, PlacementRequest, PolicyName
from gputopo.placement.place import place, ranking
from gputopo.topology.model import GpuMask
from support.builders.topologies import gpus, node

DGX1 = named("dgx1-v100")
WITHOUT_0_3_6 = GpuMask(DGX1.mask & ~gpus(0, 3, 6))
SENSITIVE_RING_3 = PlacementRequest(ring(3), sensitive=True)


def figures(match: Match | NoFit) -> tuple[object, ...]:
    """Return GPUs, aggregate, effective, model and preserved."""
    assert isinstance(match, Match)
    return (
        match.gpus,
        match.aggregate_mb_per_s,
        match.effective_mb_per_s,
        match.model,
        match.preserved_mb_per_s,
    )


def test_a_sensitive_ring_of_three_gets_the_best_triple_of_an_idle_server() -> None:
    found = place(DGX1, DGX1.mask, SENSITIVE_RING_3)
    assert figures(found) == ((0, 2, 3), 125_000, 57_858, "eq2", 311_000)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (PolicyName.PRESERVE, ((4, 5, 7), 100_000, 44_127, "eq2", 50_000)),
        (PolicyName.GREEDY, ((1, 2, 5), 112_000, 30_004, "eq2", 50_000)),
        (PolicyName.BASELINE, ((1, 2, 4), 74_000, 10_445, "eq2", 25_000)),
        (PolicyName.TOPO_AWARE, ((4, 5, 7), 100_000, 44_127, "eq2", 50_000)),
        (PolicyName.WEAKEST, ((2, 5, 7), 49_000, 3_207, "eq2", 12_000)),
    ],
)
def test_with_three_gpus_used_the_policies_differ(
    policy: PolicyName, expected: tuple[object, ...]
) -> None:
    assert figures(place(DGX1, WITHOUT_0_3_6, replace(SENSITIVE_RING_3, policy=policy))) == expected


def test_one_gpu_has_only_a_preserved_bandwidth() -> None:
    request = PlacementRequest(ring(1), sensitive=True)
    found = place(DGX1, gpus(1, 2, 4), request)
    assert figures(found) == ((4,), 0, None, None, 50_000)
    assert isinstance(found, Match)
    assert found.common_mb_per_s is None


def test_baseline_takes_the_lowest_gpus_in_their_best_order() -> None:
    found = place(DGX1, DGX1.mask, PlacementRequest(ring(5), False, PolicyName.BASELINE))
    assert isinstance(found, Match)
    assert found.gpus == (0, 3, 2, 1, 4)


def test_the_requested_model_is_used_and_named() -> None:
    request = PlacementRequest(all_to_all(4), sensitive=True)
    found = place(DGX1, DGX1.mask, request, AGGREGATE)
    assert figures(found) == ((0, 1, 2, 3), 225_000, 225_000, "aggregate", 225_000)


def test_models_give_different_values_for_the_same_ring() -> None:
    by_default = place(DGX1, WITHOUT_0_3_6, SENSITIVE_RING_3)
    by_aggregate = place(DGX1, WITHOUT_0_3_6, SENSITIVE_RING_3, AGGREGATE)
    assert figures(by_default)[0] == (4, 5, 7)
    assert figures(by_aggregate) == ((1, 2, 5), 112_000, 112_000, "aggregate", 50_000)


@pytest.mark.parametrize("free", [DGX1.mask, gpus(0)])
def test_an_unsupported_model_is_rejected_even_if_nothing_fits(free: GpuMask) -> None:
    request = PlacementRequest(ring(6), sensitive=True)
    with pytest.raises(ModelError, match="eq2"):
        place(DGX1, free, request, EQ2)


def test_the_common_value_is_that_of_the_physical_model() -> None:
    found = place(DGX1, DGX1.mask, SENSITIVE_RING_3)
    physical = place(DGX1, DGX1.mask, SENSITIVE_RING_3, PHYSICAL)
    assert isinstance(found, Match)
    assert isinstance(physical, Match)
    assert found.gpus == physical.gpus
    assert found.common_mb_per_s == physical.common_mb_per_s == physical.effective_mb_per_s


def test_an_inexact_search_shows_in_the_match() -> None:
    big = named("cubemesh-16")
    found = place(big, big.mask, PlacementRequest(ring_tree(15), True, PolicyName.GREEDY))
    assert isinstance(found, Match)
    assert found.bound_mb_per_s > found.aggregate_mb_per_s
    assert not found.exact


def test_the_bound_of_an_exact_match_is_its_aggregate() -> None:
    found = place(DGX1, DGX1.mask, replace(SENSITIVE_RING_3, policy=PolicyName.GREEDY))
    assert isinstance(found, Match)
    assert found.bound_mb_per_s == found.aggregate_mb_per_s
    assert found.exact


def test_an_equal_request_gets_the_cached_result() -> None:
    twin = named("dgx1-v100", node="other")
    request = PlacementRequest(ring(3), sensitive=True)
    assert place(twin, twin.mask, request) is place(DGX1, DGX1.mask, SENSITIVE_RING_3)


def test_the_ranking_starts_with_the_result_of_place() -> None:
    best = ranking(DGX1, WITHOUT_0_3_6, SENSITIVE_RING_3, most=10)
    keys = [(it.effective_mb_per_s or 0, it.preserved_mb_per_s) for it in best]
    assert best[0] == place(DGX1, WITHOUT_0_3_6, SENSITIVE_RING_3)
    assert keys == sorted(keys, reverse=True)
    assert len({frozenset(it.gpus) for it in best}) == 10


def test_the_ranking_has_at_most_all_sets() -> None:
    every = ranking(DGX1, gpus(0, 1, 2), PlacementRequest(ring(2), True, PolicyName.GREEDY), most=9)
    assert [set(it.gpus) for it in every] == [{1, 2}, {0, 1}, {0, 2}]


def test_the_ranking_is_empty_if_nothing_fits() -> None:
    assert ranking(DGX1, gpus(0), replace(SENSITIVE_RING_3, policy=PolicyName.GREEDY), most=3) == ()


def test_too_few_free_gpus_are_not_permanent() -> None:
    request = PlacementRequest(ring(4), sensitive=True)
    assert place(DGX1, gpus(0, 1), request) == NoFit("needs 4 GPUs, 2 free", permanent=False)


def test_a_too_small_node_is_permanent() -> None:
    request = PlacementRequest(ring(9), sensitive=True)
    assert place(DGX1, DGX1.mask, request) == NoFit("needs 9 GPUs, the node has 8", permanent=True)


def test_one_gpu_is_in_the_singular() -> None:
    request = PlacementRequest(ring(1), False, PolicyName.BASELINE)
    assert place(DGX1, GpuMask(0), request) == NoFit("needs 1 GPU, 0 free", permanent=False)
    assert place(node(), GpuMask(0), request) == NoFit(
        "needs 1 GPU, the node has 0", permanent=True
    )


def test_a_node_with_too_many_gpus_does_not_fit() -> None:
    big = node(*range(17))
    request = PlacementRequest(ring(2), sensitive=True)
    assert place(big, big.mask, request) == NoFit(
        "the node has 17 GPUs, at most 16 supported", permanent=True
    )


def test_an_unknown_free_gpu_is_an_error() -> None:
    with pytest.raises(ValueError, match="free: GPU 9 is not in the topology"):
        place(DGX1, gpus(0, 9), PlacementRequest(ring(1), sensitive=False))


def test_gpus_that_only_this_job_may_not_use_count_as_free() -> None:
    usable = gpus(4, 5, 6, 7)
    found = place(DGX1, DGX1.mask, SENSITIVE_RING_3, usable=usable)
    assert isinstance(found, Match)
    assert set(found.gpus) <= {4, 5, 6, 7}
    same = next(
        each
        for each in ranking(DGX1, DGX1.mask, SENSITIVE_RING_3, most=60)
        if set(each.gpus) == set(found.gpus)
    )
    assert found == same
    listed = ranking(DGX1, DGX1.mask, SENSITIVE_RING_3, usable=usable, most=60)
    assert listed[0] == found
    assert len(listed) == 4


def test_job_does_not_fit_if_too_few_free_gpus_are_usable() -> None:
    none = place(DGX1, WITHOUT_0_3_6, SENSITIVE_RING_3, usable=gpus(0, 1, 2))
    assert none == NoFit("needs 3 GPUs, 2 of the free GPUs usable", permanent=False)
    for policy in PolicyName:
        request = replace(SENSITIVE_RING_3, policy=policy)
        assert ranking(DGX1, WITHOUT_0_3_6, request, usable=gpus(0), most=1) == ()
