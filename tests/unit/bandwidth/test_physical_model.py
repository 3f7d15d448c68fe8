"""The physical model: values of known machines, and ranking."""

import csv
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gputopo.bandwidth.models import MODELS, PHYSICAL
from gputopo.catalogue import named
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.model import (
    Pattern,
    PatternEdge,
    all_to_all,
    chain,
    custom,
    ring,
    ring_tree,
    star,
    tree,
)
from gputopo.topology.model import NodeTopology
from support.builders.topologies import DOUBLE, SINGLE, gpus, node
from support.mapa_oracle import mapa_rows

PUBLISHED = Path(__file__).parents[2] / "data" / "nccl" / "published.csv"


def gb_per_s(topology: NodeTopology, pattern: Pattern, *members: int) -> float:
    """Return the model's value of one set."""
    table = embeddings(topology, pattern)
    values = PHYSICAL.effective_mb_per_s(topology, pattern, table)
    return int(values[np.flatnonzero(table.sets == gpus(*members))[0]]) / 1000


@pytest.mark.parametrize(
    ("members", "expected"),
    [((0, 3), 50 + 8), ((0, 1), 25 + 12), ((0, 2), 25 + 10), ((0, 5), 8)],
)
def test_two_gpus_have_the_sum_of_their_links(members: tuple[int, ...], expected: float) -> None:
    topology = named("dgx1-v100")
    # GPU 3 is under another switch of the same socket as GPU 0.
    expected += 2 if members == (0, 3) else 0
    assert gb_per_s(topology, ring(2), *members) == expected


def test_with_an_nvswitch_all_sets_have_nearly_the_bandwidth_of_a_port() -> None:
    topology = named("dgx-a100")
    for size in range(2, 9):
        table = embeddings(topology, ring(size))
        values = PHYSICAL.effective_mb_per_s(topology, ring(size), table)
        assert 316_000 <= values.min() <= values.max() <= 324_000


def test_sets_of_equal_aggregate_differ_by_pcie_switch_and_socket() -> None:
    topology = named("pcie-8gpu")
    aggregate = embeddings(topology, ring(2)).aggregate_mb_per_s
    assert set(aggregate.tolist()) == {24_000}
    assert gb_per_s(topology, ring(2), 0, 1) == 12
    assert gb_per_s(topology, ring(2), 0, 2) == 10
    assert gb_per_s(topology, ring(2), 0, 4) == 8
    assert gb_per_s(topology, ring(4), 0, 1, 2, 3) > gb_per_s(topology, ring(4), 0, 1, 4, 5)


def test_the_value_is_the_harmonic_mean_of_narrowest_cut_and_ports() -> None:
    topology = node(0, 1, 2, links={(0, 1): DOUBLE, (0, 2): SINGLE})
    ports = [83, 58, 33]
    by_cut, by_ports = 1 / 33, sum(1 / port for port in ports) / 3
    assert gb_per_s(topology, ring(3), 0, 1, 2) == pytest.approx(
        2 / (by_cut + by_ports), abs=0.0006
    )


@pytest.mark.parametrize("size", [2, 3, 6])
def test_rings_and_trees_have_equal_values(size: int) -> None:
    topology = named("dgx1-v100")
    for members in combinations(range(8), size):
        values = {
            gb_per_s(topology, pattern(size), *members) for pattern in (ring, tree, ring_tree)
        }
        assert len(values) == 1


def test_all_to_all_has_the_rate_of_a_gpu_to_all_others() -> None:
    assert gb_per_s(named("dgx-a100"), all_to_all(8), *range(8)) == 324
    # Twelve of sixteen pairs of halves cross the sockets: 3 x 8 GB/s of the interconnect / 16.
    sockets = named("pcie-8gpu")
    assert gb_per_s(sockets, all_to_all(8), *range(8)) < gb_per_s(sockets, ring(8), *range(8))


def test_the_hub_of_a_star_is_the_busiest() -> None:
    hub = gb_per_s(named("dgx-a100"), star(4), 0, 1, 2, 3)
    by_cut, by_ports = 3 / 324, (3 / 324 + 3 * 1 / 324) / 4
    assert hub == pytest.approx(3 * 2 / (by_cut + by_ports), abs=0.0006)


def test_a_chain_depends_on_its_rank_order() -> None:
    topology = node(0, 1, 2, links={(0, 1): DOUBLE, (0, 2): SINGLE})
    ports = [2 / 83, 1 / 58, 1 / 33]
    by_cut, by_ports = 1 / 33, sum(ports) / 3
    assert gb_per_s(topology, chain(3), 0, 1, 2) == pytest.approx(
        2 * 2 / (by_cut + by_ports), abs=0.0006
    )


def test_ranks_without_an_edge_do_not_count() -> None:
    topology = node(0, 1, 2, links={(0, 1): DOUBLE})
    idle = custom(3, [PatternEdge(0, 1, 4)])
    assert gb_per_s(topology, idle, 0, 1, 2) == gb_per_s(topology, ring(2), 0, 1)


def test_sixteen_gpus_have_all_cuts() -> None:
    values = {gb_per_s(named("dgx-2"), ring(16), *range(16))}
    assert values == {162.0}


def test_mapas_sets_are_ranked_at_least_as_well_as_by_aggregate() -> None:
    """Pairs of sets of one size whose values by equation 2 differ by more than its error."""
    agreed = {model.name: 0.0 for model in MODELS.values()}
    topology = named("dgx1-v100")
    for size in range(2, 6):
        rows = [row for row in mapa_rows("dgxv_allocations.csv") if int(row["gpus"]) == size]
        mapa = np.array([float(row["effbw"]) for row in rows])
        table = embeddings(topology, ring(size))
        for model in MODELS.values():
            values = model.effective_mb_per_s(topology, ring(size), table)
            agreed[model.name] += concordance(mapa, values, apart=8.44) / 4
    assert agreed["eq2"] == pytest.approx(1)
    assert agreed["physical"] > 0.97
    assert agreed["physical"] > agreed["aggregate"] + 0.02


def concordance(truth: NDArray[np.float64], guess: NDArray[np.int64], *, apart: float) -> float:
    """Return the share of pairs that are in the same order; half for pairs of equal value."""
    ahead = truth[:, None] - truth[None] >= apart
    step = guess[:, None] - guess[None]
    return float(np.where(step > 0, 1.0, np.where(step == 0, 0.5, 0.0))[ahead].mean())


def test_measured_machines_reach_half_to_all_of_the_value() -> None:
    lines = (line for line in PUBLISHED.read_text().splitlines() if not line.startswith("#"))
    for row in csv.DictReader(lines):
        if row["pcie_version"]:
            continue
        members = [int(index) for index in row["gpus"].split("-")]
        said = gb_per_s(named(row["topology"]), ring(len(members)), *members)
        assert 0.5 < float(row["busbw_gbps"]) / said <= 1
