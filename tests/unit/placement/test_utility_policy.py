"""The Utility policy scores the GPU sets of one node as the mapping does."""

import random
from dataclasses import replace

import pytest

from gputopo.catalogue import named
from gputopo.mapping.mapper import Mapper
from gputopo.mapping.model import ClusterGpu, JobMapping, MappingJob, MappingNode, UtilitySettings
from gputopo.patterns.model import Pattern, all_to_all, chain, ring, star
from gputopo.placement.feasible import FeasibleSets
from gputopo.placement.model import Match, NoFit, PlacementRequest, PolicyName
from gputopo.placement.paths import cluster_scale, surroundings_on_node
from gputopo.placement.place import place, ranking
from gputopo.placement.score import Candidate, score_nodes
from gputopo.topology.keys import FingerprintKey
from gputopo.topology.model import GpuMask, NodeTopology, indices_of
from gputopo.utility.cost import CostScale
from gputopo.utility.interference import RunningNeighbour, SlowdownSource, SlowdownTable
from gputopo.utility.surroundings import (
    NodeNeighbour,
    PairSlowdown,
    Surroundings,
    job_surroundings,
)
from gputopo.utility.utility import UNITS, UtilityWeights, placement_utility
from support.builders.topologies import gpus, node
from support.mapping import NOISY, QUIET, SLOWDOWNS

MINSKY, DGX1, PCIE_8 = (named(name) for name in ("power8-minsky", "dgx1-v100", "pcie-8gpu"))
THIRDS = UtilityWeights()


def request(pattern: Pattern) -> PlacementRequest:
    return PlacementRequest(pattern, sensitive=True, policy=PolicyName.UTILITY)


def around(
    topology: NodeTopology,
    pattern: Pattern,
    *neighbours: RunningNeighbour,
    weights: UtilityWeights = THIRDS,
) -> Surroundings:
    """Return the surroundings of a quiet job in a cluster of equal nodes."""
    job = job_surroundings(QUIET, SLOWDOWNS, [topology], weights)
    found = surroundings_on_node(replace(request(pattern), surroundings=job), neighbours)
    assert found is not None
    return found


def best(
    topology: NodeTopology,
    free: GpuMask,
    pattern: Pattern,
    *neighbours: RunningNeighbour,
    weights: UtilityWeights = THIRDS,
) -> Match:
    surroundings = around(topology, pattern, *neighbours, weights=weights)
    (match,) = ranking(topology, free, request(pattern), surroundings=surroundings, most=1)
    return match


def test_gpus_of_one_socket_are_chosen_for_a_job_of_two() -> None:
    assert best(MINSKY, gpus(0, 2, 3), ring(2)).gpus == (2, 3)


def test_socket_with_a_noisy_neighbour_is_avoided() -> None:
    noisy = RunningNeighbour(NOISY, gpus(0))
    weights = UtilityWeights(0.4, 0.6, 0.0)
    assert best(MINSKY, gpus(1, 2, 3), ring(1), noisy, weights=weights).gpus == (2,)


def test_socket_with_one_noisy_neighbour_is_better_than_one_with_three() -> None:
    noisy = tuple(RunningNeighbour(NOISY, gpus(gpu)) for gpu in (0, 4, 5, 6))
    weights = UtilityWeights(0.0, 1.0, 0.0)
    free = gpus(1, 2, 3, 7)
    assert best(PCIE_8, free, ring(1), *noisy, weights=weights).gpus == (1,)


def test_node_with_fewer_noisy_neighbours_is_better() -> None:
    one, three = (
        best(
            PCIE_8, gpus(3), ring(1), *(RunningNeighbour(NOISY, gpus(gpu)) for gpu in range(count))
        )
        for count in (1, 3)
    )
    assert one.utility is not None
    assert three.utility is not None
    assert one.utility.value > three.utility.value
    assert one.utility.job_value > three.utility.job_value
    scores = score_nodes({"1": Candidate(one, 0), "3": Candidate(three, 0)}, sensitive=True)
    assert scores["1"] > scores["3"]


def test_socket_in_use_is_filled_if_its_jobs_do_not_disturb() -> None:
    quiet = RunningNeighbour(QUIET, gpus(2))
    assert best(MINSKY, gpus(0, 1, 3), ring(1), quiet).gpus == (3,)


def test_of_equal_utilities_the_higher_bandwidth_decides() -> None:
    """All pairs of GPUs 0 to 3 have NVLinks; only 0-3 and 2-3 have two of them."""
    match = best(DGX1, gpus(0, 1, 2, 3), ring(2))
    assert match.gpus == (0, 3)
    assert match.effective_mb_per_s == max(
        each.effective_mb_per_s or 0
        for each in ranking(
            DGX1, gpus(0, 1, 2, 3), PlacementRequest(ring(2), sensitive=True), most=9
        )
    )


def test_result_of_place_is_the_first_of_the_ranking() -> None:
    job, free = request(ring(2)), gpus(0, 2, 3)
    assert ranking(MINSKY, free, job, most=1) == (place(MINSKY, free, job),)


def test_only_the_policy_utility_has_a_utility() -> None:
    other = place(MINSKY, MINSKY.mask, replace(request(ring(2)), policy=PolicyName.GREEDY))
    assert not isinstance(other, NoFit)
    assert other.utility is None


def test_node_of_one_gpu_has_ideal_costs() -> None:
    found = place(node(3), gpus(3), request(ring(1)))
    assert not isinstance(found, NoFit)
    assert found.utility is not None
    assert (found.utility.value, found.utility.job_value) == (UNITS, UNITS)


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
        surroundings = around(topology, pattern, *neighbours)
        feasible = FeasibleSets(topology, free, request(pattern), surroundings=surroundings)
        mapper = Mapper({"a": topology}, UtilitySettings(slowdowns=SLOWDOWNS))
        nodes = {"a": MappingNode(topology, free, neighbours)}
        for choice, value in enumerate(feasible.utilities.values):
            found = feasible.match(choice)
            order = [ClusterGpu("a", gpu) for gpu in found.gpus]
            expected = mapper.evaluated(MappingJob(pattern, QUIET), nodes, order).costs
            assert found.utility is not None
            costs = found.utility.costs
            for name in ("interference", "suffered", "fragmentation"):
                assert getattr(costs, name).term == pytest.approx(getattr(expected, name).term)
            assert costs.communication.value == expected.communication.value
            assert costs.communication.worst == expected.communication.worst
            assert found.utility.value == value == placement_utility(costs, THIRDS).value


def test_best_set_of_equal_ranks_is_that_of_the_mapping() -> None:
    neighbours = (RunningNeighbour(NOISY, gpus(0)), RunningNeighbour(QUIET, gpus(5)))
    free = GpuMask(PCIE_8.mask & ~gpus(0, 5))
    mapper = Mapper({"a": PCIE_8}, UtilitySettings(slowdowns=SLOWDOWNS))
    nodes = {"a": MappingNode(PCIE_8, free, neighbours)}
    for size in range(1, 7):
        mapping = mapper.best(MappingJob(all_to_all(size), QUIET), nodes)
        assert isinstance(mapping, JobMapping)
        found = best(PCIE_8, free, all_to_all(size), *neighbours)
        assert found.utility is not None
        assert found.utility.value / UNITS == pytest.approx(mapping.utility)


def test_neighbour_on_another_socket_counts_if_it_was_measured_there() -> None:
    known = PairSlowdown(20, SlowdownSource.MEASURED)
    scale = around(MINSKY, ring(1)).scale
    near = NodeNeighbour("a/noisy", gpus(0), known, known)
    results = []
    for far in (None, (10, 6)):
        surroundings = Surroundings(scale, (replace(near, far=far),), worst_percent=20)
        found = place(MINSKY, gpus(1, 2, 3), request(ring(1)), surroundings=surroundings)
        assert not isinstance(found, NoFit)
        assert found.utility is not None
        results.append((found.gpus, found.utility.costs))
    assert [gpus for gpus, _ in results] == [(1,), (1,)]  # 1 fills a socket
    far_choice = FeasibleSets(
        MINSKY,
        gpus(2, 3),
        request(ring(1)),
        surroundings=Surroundings(scale, (replace(near, far=(10, 6)),), worst_percent=20),
    ).utilities.of(0)
    assert far_choice.costs.suffered.value == pytest.approx(1.1)
    assert far_choice.costs.interference.value == pytest.approx((1.1 + 1.06) / 2)


def test_best_case_of_a_cluster_is_that_of_its_best_node() -> None:
    """A node without NVLinks is not ideal if another node of the cluster has NVLinks."""
    kinds = tuple(FingerprintKey(each) for each in (PCIE_8, DGX1))
    scale = cluster_scale(ring(2), kinds)
    assert scale == cluster_scale(ring(2), kinds[::-1])
    surroundings = Surroundings(scale)
    matches = {
        topology.fingerprint: place(
            topology, topology.mask, request(ring(2)), surroundings=surroundings
        )
        for topology in (PCIE_8, DGX1)
    }
    found = {
        name: Candidate(match, 0) for name, match in matches.items() if not isinstance(match, NoFit)
    }
    assert score_nodes(found, sensitive=True) == {DGX1.fingerprint: 10, PCIE_8.fingerprint: 9}
    alone = place(PCIE_8, PCIE_8.mask, request(ring(2)))
    assert not isinstance(alone, NoFit)
    assert alone.utility is not None
    assert alone.utility.costs.communication.term == 1
    in_cluster = found[PCIE_8.fingerprint].match.utility
    assert in_cluster is not None
    assert in_cluster.costs.communication.term < 1


def test_scale_counts_only_nodes_that_can_take_the_job() -> None:
    small, large = FingerprintKey(MINSKY), FingerprintKey(DGX1)
    assert cluster_scale(ring(5), (small, large)) == cluster_scale(ring(5), (large,))
    none = cluster_scale(ring(5), (small,))
    assert (none.best_length, none.longest, none.largest_socket) == (0, 0, 1)


def test_request_without_surroundings_has_none_on_any_node() -> None:
    assert surroundings_on_node(request(ring(2)), [RunningNeighbour(NOISY, gpus(0))]) is None


def test_unknown_pairs_do_not_slow_down_and_say_so() -> None:
    job = job_surroundings(QUIET, SlowdownTable({}), [MINSKY])
    surroundings = job.on_node(
        cluster_scale(ring(1), job.kinds), [RunningNeighbour(NOISY, gpus(0))]
    )
    unknown = PairSlowdown(0, SlowdownSource.UNKNOWN)
    assert surroundings.neighbours == (NodeNeighbour("noisy", gpus(0), unknown, unknown),)
    assert surroundings.worst_percent == 0


def test_equal_neighbours_of_several_nodes_are_computed_once() -> None:
    job = job_surroundings(QUIET, SLOWDOWNS, [MINSKY])
    running = [RunningNeighbour(NOISY, gpus(0, 1)), RunningNeighbour(NOISY, gpus(0, 1))]
    first, second = (job.on_node(CostScale(1, 1, 1), [each]).neighbours[0] for each in running)
    assert first is second
