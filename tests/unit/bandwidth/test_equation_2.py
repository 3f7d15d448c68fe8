"""MAPA's fitted model: its printed values, and where it may be used."""

from itertools import product

import numpy as np
import pytest

from gputopo.bandwidth.eq2 import COEFFICIENTS, SIZES
from gputopo.bandwidth.link_mix import DGX1_V100, link_mixes, predicted_gb_per_s
from gputopo.bandwidth.models import EQ2
from gputopo.catalogue import named
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.model import Pattern, PatternEdge, all_to_all, chain, custom, ring
from gputopo.topology.model import LinkKind, NodeTopology
from support.builders.topologies import DOUBLE, PCIE, SINGLE, LinkSpec, gpus, link, node
from support.mapa_oracle import equation_2, mapa_rows

DGX1 = named("dgx1-v100")


def value(*mix: int) -> float:
    return float(predicted_gb_per_s(COEFFICIENTS, np.array([mix]))[0])


def mix_of(topology: NodeTopology, *members: int) -> list[int]:
    pattern = ring(len(members))
    table = embeddings(topology, pattern)
    mixes = link_mixes(topology, pattern, table, DGX1_V100)
    found: list[int] = mixes[np.flatnonzero(table.sets == gpus(*members))[0]].tolist()
    return found


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
def test_values_equal_those_of_the_paper(mix: tuple[int, int, int], gb_per_s: float) -> None:
    assert value(*mix) == pytest.approx(gb_per_s, abs=0.05 if mix[2] == 3 else 0.006)


def test_values_of_all_mixes_of_up_to_eight_links_equal_the_reference() -> None:
    mixes = np.array(list(equation_2()))
    predicted = predicted_gb_per_s(COEFFICIENTS, mixes)
    assert predicted == pytest.approx(list(equation_2().values()), abs=0.00006)


@pytest.mark.parametrize("row", mapa_rows("dgxv_allocations.csv"), ids=lambda row: row["set"])
def test_every_set_of_a_dgx_1_has_mapas_link_mix_and_value(row: dict[str, str]) -> None:
    members = [int(number) - 1 for number in row["set"].split("-")]
    mix = mix_of(DGX1, *members)
    assert mix == [int(row["x"]), int(row["y"]), int(row["z"])]
    assert value(*mix) == pytest.approx(float(row["effbw"]), abs=0.0001)


@pytest.mark.parametrize("name", ["dgx1-v100", "summit", "torus-2d-16", "cubemesh-16"])
@pytest.mark.parametrize("size", range(1, 6))
def test_small_rings_on_v100_servers_are_supported(name: str, size: int) -> None:
    assert EQ2.unsupported_reason(named(name), ring(size)) is None


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        (ring(6), "not Ring of 6"),
        (all_to_all(2), "not AllToAll of 2"),
        (chain(3), "not Chain of 3"),
        (
            custom(3, [PatternEdge(0, 1), PatternEdge(1, 2), PatternEdge(0, 2)]),
            "not Custom of 3",
        ),
    ],
)
def test_other_patterns_are_unsupported(pattern: Pattern, word: str) -> None:
    reason = EQ2.unsupported_reason(DGX1, pattern)
    assert reason == f"it was fitted on Ring of 2 to 5 GPUs, {word}"


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("dgx1-p100", "NVLink 1 x1 (20 GB/s)"),
        ("dgx-a100", "this node has no NVLink"),
        ("pcie-8gpu", "this node has no NVLink"),
    ],
)
def test_other_servers_are_unsupported(name: str, word: str) -> None:
    assert word in str(EQ2.unsupported_reason(named(name), ring(3)))


def test_one_gpu_is_always_supported() -> None:
    assert EQ2.unsupported_reason(named("dgx-a100"), ring(1)) is None
    assert EQ2.unsupported_reason(named("dgx-a100"), all_to_all(1)) is None


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
def test_a_node_with_one_unknown_link_is_unsupported(sort: LinkSpec) -> None:
    seen = {(0, 1): DOUBLE, (0, 2): SINGLE, (1, 2): PCIE}
    assert EQ2.unsupported_reason(node(0, 1, 2, links=seen), ring(3)) is None
    assert "not" in str(EQ2.unsupported_reason(node(0, 1, 2, links=seen | {(1, 2): sort}), ring(3)))


def test_a_node_with_a_link_of_another_bandwidth_is_unsupported() -> None:
    two = node(0, 1)
    slow = NodeTopology(two.gpus, (link(0, 1, SINGLE, mb_per_s=20_000),))
    assert "not NVLink 2 x1 (20 GB/s)" in str(EQ2.unsupported_reason(slow, ring(2)))


def test_only_links_below_edges_of_the_pattern_count() -> None:
    assert sum(mix_of(DGX1, 0, 1, 2, 3)) == 4


def test_two_gpus_count_their_link_twice() -> None:
    assert mix_of(DGX1, 0, 3) == [2, 0, 0]
    table = embeddings(DGX1, ring(2))
    values = EQ2.effective_mb_per_s(DGX1, ring(2), table)
    assert values[np.flatnonzero(table.sets == gpus(0, 3))].tolist() == [58_925]


@pytest.mark.parametrize("size", SIZES)
def test_rings_of_equal_aggregate_have_equal_link_mixes(size: int) -> None:
    mixes = [mix for mix in product(range(size + 1), repeat=3) if sum(mix) == size]
    aggregates = {50 * x + 25 * y + 12 * z for x, y, z in mixes}
    assert len(aggregates) == len(mixes)
