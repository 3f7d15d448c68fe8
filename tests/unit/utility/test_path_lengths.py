"""Paths are as long as the levels that they pass."""

import pytest

from gputopo.catalogue import named
from gputopo.patterns.model import PatternEdge, chain, custom, ring
from gputopo.utility.communication import (
    LevelLengths,
    communication_cost,
    distance_to_network,
    gpu_distances,
    path_length,
    sockets,
    switches,
)
from gputopo.utility.cost import UtilityError
from support.builders.topologies import gpus


@pytest.mark.parametrize(
    ("server", "pair", "length"),
    [
        ("power8-minsky", (0, 1), 1),  # NVLink
        ("power8-minsky", (0, 2), 42),  # 1 + 20 + 20 + 1: GPU, socket, machine, socket, GPU
        ("pcie-8gpu", (0, 1), 2),  # one switch
        ("pcie-8gpu", (0, 2), 12),  # 1 + 5 + 5 + 1: two switches of a socket
        ("pcie-8gpu", (0, 4), 52),
        ("pcie-8gpu-l40s", (0, 1), 2),  # one socket, no switch
        ("pcie-8gpu-l40s", (0, 4), 42),
        ("dgx1-v100", (0, 4), 1),  # NVLink between sockets
        ("dgx1-v100", (0, 5), 52),  # no path through GPU 1 or 4
        ("dgx-a100", (0, 7), 2),  # NVSwitch
    ],
)
def test_distance_of_two_gpus(server: str, pair: tuple[int, int], length: int) -> None:
    distances = gpu_distances(named(server))
    assert distances[pair] == distances[pair[::-1]] == length  # type: ignore[index]


def test_lengths_of_levels_are_values_of_the_caller() -> None:
    distances = gpu_distances(named("pcie-8gpu"), LevelLengths(2, 3, 7, 50))
    assert [distances[0, other] for other in (1, 2, 4)] == [4, 10, 24]  # type: ignore[index]


def test_path_to_the_network_passes_every_level_above_the_gpu() -> None:
    assert set(distance_to_network(named("power8-minsky")).values()) == {1 + 20 + 100}
    assert set(distance_to_network(named("pcie-8gpu")).values()) == {1 + 5 + 20 + 100}


def test_sockets_and_switches_are_groups_of_gpus() -> None:
    assert sockets(named("pcie-8gpu")) == (gpus(0, 1, 2, 3), gpus(4, 5, 6, 7))
    assert switches(named("pcie-8gpu")) == (gpus(0, 1), gpus(2, 3), gpus(4, 5), gpus(6, 7))
    assert switches(named("power8-minsky")) == ()


@pytest.mark.parametrize(
    "lengths", [(0, 5, 20, 100), (1, 1, 20, 100), (1, 5, 5, 100), (1, 5, 20, 20)]
)
def test_higher_level_must_be_longer(lengths: tuple[int, int, int, int]) -> None:
    with pytest.raises(UtilityError, match="each level must be longer than the one below"):
        LevelLengths(*lengths)


def test_path_length_is_weighted_by_the_edges_of_the_job_graph() -> None:
    pattern = custom(3, [PatternEdge(0, 1, 5), PatternEdge(1, 2, 2)])
    placement = [30, 10, 25]
    assert path_length(pattern, placement.__getitem__, lambda a, b: abs(a - b)) == 5 * 20 + 2 * 15


def test_in_the_worst_case_all_edges_have_the_longest_distance() -> None:
    cost = communication_cost(chain(3), length=43, best=2, longest=42)
    assert (cost.value, cost.best, cost.worst) == (43, 2, 84)


def test_lower_bound_above_the_worst_case_counts_as_the_worst_case() -> None:
    assert communication_cost(chain(2), length=5, best=9, longest=5).term == 1


def test_job_of_one_gpu_has_ideal_communication() -> None:
    assert communication_cost(ring(1), length=0, best=0, longest=42).term == 1
