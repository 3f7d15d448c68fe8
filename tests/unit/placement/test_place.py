"""One job on one node: the numbers of the paper's server."""

import pytest

from builders import DOUBLE, gpus, node
from gputopo.api.enums import PolicyName
from gputopo.patterns.model import PatternEdge, all_to_all, custom, ring
from gputopo.placement.model import Match, NoFit, PlacementRequest
from gputopo.placement.place import place
from gputopo.topology.catalogue import named
from gputopo.topology.model import GpuIndex, GpuMask

DGX1 = named("dgx1-v100")
WITHOUT_0_3_6 = GpuMask(DGX1.mask & ~gpus(0, 3, 6))
SENSITIVE_RING_3 = PlacementRequest(ring(3), sensitive=True)


def match(
    *order: int, aggregate: int, effective: int | None, model: str | None, preserved: int
) -> Match:
    return Match(
        gpus=tuple(GpuIndex(index) for index in order),
        aggregate_mb_per_s=aggregate,
        effective_mb_per_s=effective,
        model=model,
        preserved_mb_per_s=preserved,
    )


def test_an_idle_server_gives_a_sensitive_ring_of_three_its_best_triple() -> None:
    assert place(DGX1, DGX1.mask, SENSITIVE_RING_3, PolicyName.PRESERVE) == match(
        0, 2, 3, aggregate=125_000, effective=57_858, model="eq2", preserved=311_000
    )


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            PolicyName.PRESERVE,
            match(4, 5, 7, aggregate=100_000, effective=44_127, model="eq2", preserved=50_000),
        ),
        (
            PolicyName.GREEDY,
            match(1, 2, 5, aggregate=112_000, effective=30_004, model="eq2", preserved=50_000),
        ),
        (
            PolicyName.BASELINE,
            match(1, 2, 4, aggregate=74_000, effective=10_445, model="eq2", preserved=25_000),
        ),
    ],
)
def test_with_three_gpus_taken_the_policies_part(policy: PolicyName, expected: Match) -> None:
    assert place(DGX1, WITHOUT_0_3_6, SENSITIVE_RING_3, policy) == expected


def test_one_gpu_has_a_preserved_bandwidth_and_no_other() -> None:
    request = PlacementRequest(ring(1), sensitive=True)
    assert place(DGX1, gpus(1, 2, 4), request, PolicyName.PRESERVE) == match(
        4, aggregate=0, effective=None, model=None, preserved=50_000
    )


def test_baseline_takes_the_lowest_and_still_orders_them_well() -> None:
    found = place(DGX1, DGX1.mask, PlacementRequest(ring(5), sensitive=False), PolicyName.BASELINE)
    assert isinstance(found, Match)
    assert found.gpus == (0, 3, 2, 1, 4)


def test_all_to_all_names_the_aggregate_model() -> None:
    request = PlacementRequest(all_to_all(4), sensitive=True)
    found = place(DGX1, DGX1.mask, request, PolicyName.PRESERVE)
    assert found == match(
        0, 1, 2, 3, aggregate=225_000, effective=225_000, model="aggregate", preserved=225_000
    )


def test_a_search_that_was_cut_short_shows_in_the_match() -> None:
    big = node(*range(16), links={(a, (a * 7 + 5) % 16): DOUBLE for a in range(5)})
    uneven = custom(8, [PatternEdge(a, b, 1 + a + 3 * b) for b in range(8) for a in range(b)])
    found = place(big, big.mask, PlacementRequest(uneven, sensitive=True), PolicyName.GREEDY)
    assert isinstance(found, Match)
    assert not found.exact


def test_too_few_free_gpus_may_change() -> None:
    request = PlacementRequest(ring(4), sensitive=True)
    assert place(DGX1, gpus(0, 1), request, PolicyName.PRESERVE) == NoFit(
        "needs 4 GPUs, 2 free", permanent=False
    )


def test_too_small_a_node_will_not_change() -> None:
    request = PlacementRequest(ring(9), sensitive=True)
    assert place(DGX1, DGX1.mask, request, PolicyName.PRESERVE) == NoFit(
        "needs 9 GPUs, the node has 8", permanent=True
    )


def test_one_gpu_is_written_in_the_singular() -> None:
    request = PlacementRequest(ring(1), sensitive=False)
    assert place(DGX1, GpuMask(0), request, PolicyName.BASELINE) == NoFit(
        "needs 1 GPU, 0 free", permanent=False
    )
    assert place(node(), GpuMask(0), request, PolicyName.BASELINE) == NoFit(
        "needs 1 GPU, the node has 0", permanent=True
    )


def test_a_node_too_big_for_the_tables_is_refused_at_once() -> None:
    big = node(*range(17))
    request = PlacementRequest(ring(2), sensitive=True)
    assert place(big, big.mask, request, PolicyName.PRESERVE) == NoFit(
        "the node has 17 GPUs, at most 16 supported", permanent=True
    )


def test_a_free_gpu_that_the_node_does_not_have_is_an_error() -> None:
    with pytest.raises(ValueError, match="free: GPU 9 is not one of this node"):
        place(DGX1, gpus(0, 9), PlacementRequest(ring(1), sensitive=False), PolicyName.PRESERVE)
