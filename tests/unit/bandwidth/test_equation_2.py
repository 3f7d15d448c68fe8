"""MAPA's fitted model: its printed values, and where it may be used."""

import pytest

from builders import DOUBLE, PCIE, SINGLE, Sort, gpus, node
from gputopo.api.enums import LinkKind
from gputopo.bandwidth import eq2
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.model import Pattern, PatternEdge, all_to_all, custom, ring
from gputopo.topology.catalogue import named
from oracle import equation_2


@pytest.mark.parametrize(
    ("mix", "gb_per_s"),
    [
        ((0, 0, 0), 12.335),
        ((1, 0, 0), 39.08),
        ((0, 1, 0), 21.61),
        ((0, 0, 1), 10.08),
        ((2, 0, 0), 58.93),
        ((0, 2, 0), 27.72),
        ((0, 0, 2), 10.37),
        ((2, 1, 0), 57.858),
        ((1, 1, 1), 24.11),
        ((1, 2, 0), 44.13),
        ((0, 1, 2), 3.21),
        ((1, 0, 2), 10.44),
        ((3, 1, 0), 68.71),
        ((2, 2, 0), 49.15),
        ((4, 0, 1), 53.51),
        ((3, 0, 0), 77.05),
        ((4, 3, 3), -129.8),
    ],
)
def test_the_papers_values_come_out(mix: tuple[int, int, int], gb_per_s: float) -> None:
    assert eq2.predicted_gb_per_s(*mix) == pytest.approx(
        gb_per_s, abs=0.05 if mix[2] == 3 else 0.006
    )


def test_all_mixes_of_up_to_eight_links_come_out() -> None:
    predicted = {mix: eq2.predicted_gb_per_s(*mix) for mix in equation_2()}
    assert predicted == pytest.approx(equation_2(), abs=0.00006)


@pytest.mark.parametrize("name", ["dgx1-v100", "summit"])
@pytest.mark.parametrize("size", range(2, 6))
def test_it_applies_to_small_rings_on_v100_servers(name: str, size: int) -> None:
    assert eq2.applies(named(name), ring(size))


@pytest.mark.parametrize(
    "pattern",
    [
        ring(1),
        ring(6),
        all_to_all(2),
        all_to_all(3),
        custom(3, [PatternEdge(0, 1), PatternEdge(1, 2), PatternEdge(0, 2)]),
    ],
)
def test_it_does_not_apply_to_other_patterns(pattern: Pattern) -> None:
    assert not eq2.applies(named("dgx1-v100"), pattern)


@pytest.mark.parametrize("name", ["dgx1-p100", "dgx-a100", "pcie-8gpu"])
def test_it_does_not_apply_to_other_servers(name: str) -> None:
    assert not eq2.applies(named(name), ring(3))


@pytest.mark.parametrize(
    "sort",
    [
        (LinkKind.NVLINK, 2, 3),
        (LinkKind.NVLINK, 1, 1),
        (LinkKind.NVLINK, 3, 2),
        (LinkKind.NVSWITCH, 2, 2),
        (LinkKind.PCIE, 4, 16),
        (LinkKind.PCIE, 3, 8),
    ],
)
def test_one_link_that_the_fit_did_not_see_is_enough_to_leave_its_domain(sort: Sort) -> None:
    seen = {(0, 1): DOUBLE, (0, 2): SINGLE, (1, 2): PCIE}
    assert eq2.applies(node(0, 1, 2, links=seen), ring(3))
    assert not eq2.applies(node(0, 1, 2, links=seen | {(1, 2): sort}), ring(3))


def test_the_patterns_edges_count_and_not_all_links_among_its_gpus() -> None:
    topology = named("dgx1-v100")
    found = embeddings(topology, ring(4))[gpus(0, 1, 2, 3)]
    assert sum(eq2.link_mix(topology, ring(4), found)) == 4


def test_two_gpus_count_their_link_twice() -> None:
    topology = named("dgx1-v100")
    found = embeddings(topology, ring(2))[gpus(0, 3)]
    assert eq2.link_mix(topology, ring(2), found) == (2, 0, 0)
    assert eq2.effective_mb_per_s(topology, ring(2), found) == 58_925
