"""The Utility policy scores the GPU sets of one node as the mapping does."""

import random

import pytest

from gputopo.mapping.mapper import Mapper
from gputopo.mapping.model import ClusterGpu, JobMapping, MappingJob, MappingNode, UtilitySettings
from gputopo.patterns.model import Pattern, all_to_all, chain, ring, star
from gputopo.placement.feasible import FeasibleSets
from gputopo.placement.model import Match, PlacementRequest
from gputopo.placement.place import place, ranking
from gputopo.placement.policies.utility import Surroundings, costs_of_sets, policy
from gputopo.topology.model import GpuMask, NodeTopology, indices_of
from gputopo.utility.interference import RunningNeighbour
from gputopo.utility.utility import UtilityWeights, utility
from gputopo_topologies.catalogue import named
from support.builders.topologies import gpus, node
from support.mapping import NOISY, QUIET, SLOWDOWNS

MINSKY, DGX1, PCIE_8 = (named(name) for name in ("power8-minsky", "dgx1-v100", "pcie-8gpu"))


def best(
    topology: NodeTopology, free: GpuMask, pattern: Pattern, surroundings: Surroundings
) -> Match:
    request = PlacementRequest(pattern, sensitive=True)
    (match,) = ranking(topology, free, request, most=1, policy=policy(surroundings))
    return match


def surroundings(
    *neighbours: RunningNeighbour, weights: UtilityWeights | None = None
) -> Surroundings:
    return Surroundings(QUIET, neighbours, SLOWDOWNS, weights or UtilityWeights())


def test_gpus_of_one_socket_are_chosen_for_a_job_of_two() -> None:
    assert best(MINSKY, gpus(0, 2, 3), ring(2), surroundings()).gpus == (2, 3)


def test_socket_with_a_noisy_neighbour_is_avoided() -> None:
    noisy = RunningNeighbour(NOISY, gpus(0))
    weights = UtilityWeights(0.4, 0.6, 0.0)
    assert best(MINSKY, gpus(1, 2, 3), ring(1), surroundings(noisy, weights=weights)).gpus == (2,)


def test_socket_in_use_is_filled_if_its_jobs_do_not_disturb() -> None:
    quiet = RunningNeighbour(QUIET, gpus(2))
    assert best(MINSKY, gpus(0, 1, 3), ring(1), surroundings(quiet)).gpus == (3,)


def test_of_equal_utilities_the_higher_bandwidth_decides() -> None:
    """All pairs of GPUs 0 to 3 have NVLinks; only 0-3 and 2-3 have two of them."""
    match = best(DGX1, gpus(0, 1, 2, 3), ring(2), surroundings())
    assert match.gpus == (0, 3)
    assert match.effective_mb_per_s == max(
        each.effective_mb_per_s or 0
        for each in ranking(
            DGX1, gpus(0, 1, 2, 3), PlacementRequest(ring(2), sensitive=True), most=9
        )
    )


def test_policy_of_the_request_decides_without_another() -> None:
    request = PlacementRequest(ring(2), sensitive=True)
    assert ranking(MINSKY, gpus(0, 2, 3), request, most=1) == (
        place(MINSKY, gpus(0, 2, 3), request),
    )


def test_node_of_one_gpu_has_ideal_costs() -> None:
    feasible = FeasibleSets(node(3), gpus(3), PlacementRequest(ring(1), sensitive=False))
    (costs,) = costs_of_sets(feasible, surroundings())
    assert utility(costs) == pytest.approx(1)


@pytest.mark.parametrize("topology", [MINSKY, PCIE_8, DGX1], ids=["minsky", "pcie", "dgx1"])
@pytest.mark.parametrize("pattern", [ring(2), all_to_all(3), chain(3), star(4), ring(4)])
def test_costs_of_all_sets_are_those_of_the_mapping(
    topology: NodeTopology, pattern: Pattern
) -> None:
    source = random.Random(pattern.size)  # noqa: S311 - repeatable
    indices = [gpu.index for gpu in topology.gpus]
    for _ in range(5):
        free = GpuMask(
            sum(1 << gpu for gpu in source.sample(indices, source.randint(4, len(indices))))
        )
        neighbours = tuple(
            RunningNeighbour(source.choice([NOISY, QUIET]), GpuMask(1 << gpu))
            for gpu in indices_of(GpuMask(topology.mask & ~free))
        )
        feasible = FeasibleSets(topology, free, PlacementRequest(pattern, sensitive=True))
        found = costs_of_sets(feasible, surroundings(*neighbours))
        mapper = Mapper({"a": topology}, UtilitySettings(slowdowns=SLOWDOWNS))
        nodes = {"a": MappingNode(topology, free, neighbours)}
        for choice, costs in enumerate(found):
            order = [ClusterGpu("a", gpu) for gpu in feasible.match(choice).gpus]
            mapping = mapper.evaluated(MappingJob(pattern, QUIET), nodes, order)
            assert (costs.interference, costs.suffered, costs.fragmentation) == (
                mapping.costs.interference,
                mapping.costs.suffered,
                mapping.costs.fragmentation,
            )
            assert costs.communication.value == mapping.costs.communication.value
            assert costs.communication.worst == mapping.costs.communication.worst


def test_best_set_of_equal_ranks_is_that_of_the_mapping() -> None:
    neighbours = (RunningNeighbour(NOISY, gpus(0)), RunningNeighbour(QUIET, gpus(5)))
    free = GpuMask(PCIE_8.mask & ~gpus(0, 5))
    mapper = Mapper({"a": PCIE_8}, UtilitySettings(slowdowns=SLOWDOWNS))
    nodes = {"a": MappingNode(PCIE_8, free, neighbours)}
    for size in range(1, 7):
        mapping = mapper.best(MappingJob(all_to_all(size), QUIET), nodes)
        assert isinstance(mapping, JobMapping)
        request = PlacementRequest(all_to_all(size), sensitive=True)
        feasible = FeasibleSets(PCIE_8, free, request)
        values = [utility(each) for each in costs_of_sets(feasible, surroundings(*neighbours))]
        assert max(values) == pytest.approx(mapping.utility)
