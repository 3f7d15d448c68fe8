"""Jobs get the placement with the highest utility that the constraints allow."""

from itertools import combinations, permutations

import pytest

from gputopo.catalogue import named
from gputopo.mapping.mapper import Mapper
from gputopo.mapping.model import (
    ClusterGpu,
    JobMapping,
    MappingJob,
    MappingNode,
    NoMapping,
    UtilitySettings,
)
from gputopo.mapping.orders import is_small, shortest_order
from gputopo.patterns.model import (
    Pattern,
    PatternEdge,
    all_to_all,
    chain,
    custom,
    ring,
    star,
)
from gputopo.topology.model import GpuIndex, NodeTopology
from gputopo.utility.cost import UtilityError
from gputopo.utility.utility import UtilityWeights
from support.builders.topologies import gpus, node
from support.mapping import NOISY, QUIET, SETTINGS, mapping_node

MINSKY, PCIE_8 = named("power8-minsky"), named("pcie-8gpu")


def mapped(
    pattern: Pattern,
    nodes: dict[str, MappingNode],
    settings: UtilitySettings = SETTINGS,
    **fields: object,
) -> JobMapping:
    mapper = Mapper({name: each.topology for name, each in nodes.items()}, settings)
    job = MappingJob(pattern, QUIET, **fields)  # type: ignore[arg-type]
    found = mapper.best(job, nodes)
    assert isinstance(found, JobMapping)
    return found


def places(found: JobMapping) -> list[tuple[str, int]]:
    return [(gpu.node, int(gpu.gpu)) for gpu in found.gpus]


def test_two_gpus_of_one_socket_are_better_than_two_sockets() -> None:
    found = mapped(ring(2), {"a": mapping_node(MINSKY, gpus(0, 2, 3))})
    assert places(found) == [("a", 2), ("a", 3)]
    assert found.utility == found.job_utility == 1
    assert found.exact
    assert found.nodes == ("a",)


def test_job_goes_to_the_socket_without_a_noisy_neighbour() -> None:
    beside_noisy = mapping_node(MINSKY, gpus(1, 2, 3), {0: NOISY})
    weights = UtilityWeights(0.4, 0.6, 0.0)
    settings = UtilitySettings(weights, slowdowns=SETTINGS.slowdowns)
    found = mapped(ring(1), {"a": beside_noisy}, settings)
    assert places(found) == [("a", 2)]


def test_job_fills_a_socket_that_others_use_if_they_do_not_disturb() -> None:
    found = mapped(ring(1), {"a": mapping_node(MINSKY, gpus(0, 1, 3), {2: QUIET})})
    assert places(found) == [("a", 3)]


def test_costs_are_those_of_the_placement() -> None:
    found = mapped(ring(2), {"a": mapping_node(MINSKY, gpus(1, 2), {0: NOISY, 3: QUIET})})
    costs = found.costs
    assert (costs.communication.value, costs.communication.best) == (84, 2)  # both directions
    assert costs.communication.worst == 84
    assert costs.suffered.value == pytest.approx(1.2)
    assert costs.interference.value == pytest.approx(1 + (0.2 + 0.02 + 0.0) / 2)
    assert costs.fragmentation.value == 0
    assert found.job_utility == pytest.approx((0.01 + 1 - 0.99 * 0.2 / 0.3) / 2)


def test_best_node_is_chosen_and_of_equal_nodes_the_one_with_fewest_free_gpus() -> None:
    nodes = {
        "a": mapping_node(MINSKY),
        "b": mapping_node(MINSKY, gpus(2, 3)),
        "c": mapping_node(MINSKY, gpus(2, 3)),
        "d": mapping_node(MINSKY, gpus(1, 2)),
    }
    assert found_nodes(ring(2), nodes) == ("b",)
    assert found_nodes(ring(3), nodes) == ("a",)


def found_nodes(pattern: Pattern, nodes: dict[str, MappingNode]) -> tuple[str, ...]:
    return mapped(pattern, nodes).nodes


def test_placement_of_a_state_is_reused_under_the_name_of_each_node() -> None:
    job = MappingJob(ring(2), QUIET)
    mapper = Mapper({"a": MINSKY, "b": MINSKY}, SETTINGS)
    first = mapper.on_node(job, "a", mapping_node(MINSKY, gpus(2, 3), {0: NOISY}))
    again = mapper.on_node(job, "b", mapping_node(MINSKY, gpus(2, 3), {0: NOISY}))
    assert (places(first), places(again)) == ([("a", 2), ("a", 3)], [("b", 2), ("b", 3)])
    assert again.costs is first.costs
    for other in (
        mapper.on_node(job, "b", mapping_node(MINSKY, gpus(2, 3), {0: QUIET})),
        mapper.on_node(job, "b", mapping_node(MINSKY, gpus(1, 2, 3), {0: NOISY})),
        mapper.on_node(
            MappingJob(ring(2), NOISY), "b", mapping_node(MINSKY, gpus(2, 3), {0: NOISY})
        ),
        mapper.on_node(job, "b", mapping_node(PCIE_8, gpus(2, 3), {0: NOISY})),
    ):
        assert other.costs is not first.costs


def test_nodes_with_different_hardware_are_compared_on_one_scale() -> None:
    """Three GPUs are nearer on one switch board than on two sockets of two."""
    nodes = {"a": mapping_node(MINSKY), "z": mapping_node(named("dgx-a100"))}
    found = mapped(all_to_all(3), nodes)
    assert found.nodes == ("z",)
    assert found.costs.communication.best == 6
    assert found.costs.communication.worst == 3 * 42  # the longest distance is that of a


def test_job_is_spread_only_where_it_may_be() -> None:
    nodes = {"a": mapping_node(MINSKY, gpus(0, 1)), "b": mapping_node(MINSKY, gpus(2, 3))}
    job = MappingJob(chain(4), QUIET)
    mapper = Mapper({"a": MINSKY, "b": MINSKY}, SETTINGS)
    assert mapper.best(job, nodes) == NoMapping(
        {"a": "needs 4 GPUs, 2 free", "b": "needs 4 GPUs, 2 free"}
    )
    found = mapped(chain(4), nodes, several_nodes=True)
    assert found.nodes in {("a", "b"), ("b", "a")}
    assert found.costs.communication.value == 1 + 2 * 121 + 1
    assert found.costs.communication.worst == 3 * 242


def test_job_of_several_nodes_stays_on_one_if_that_is_better() -> None:
    nodes = {"a": mapping_node(MINSKY, gpus(0)), "b": mapping_node(MINSKY)}
    assert mapped(ring(2), nodes, several_nodes=True).nodes == ("b",)


def test_nowhere_is_enough_for_a_job_of_several_nodes() -> None:
    nodes = {"a": mapping_node(MINSKY, gpus(0)), "b": mapping_node(MINSKY, gpus(1))}
    job = MappingJob(ring(3), QUIET, several_nodes=True)
    mapper = Mapper({"a": MINSKY, "b": MINSKY}, SETTINGS)
    expected = NoMapping({"a": "needs 3 GPUs, 1 free", "b": "needs 3 GPUs, 1 free"})
    assert mapper.best(job, nodes) == mapper.by_bipartitioning(job, nodes) == expected


def test_memory_bandwidth_limits_the_ranks_of_a_node() -> None:
    nodes = {
        "a": mapping_node(MINSKY, memory_gb_per_s=20.0),
        "b": mapping_node(MINSKY, memory_gb_per_s=20.0),
    }
    found = mapped(ring(4), nodes, several_nodes=True, memory_gb_per_s=40.0)
    assert sorted(node for node, _ in places(found)) == ["a", "a", "b", "b"]


def test_node_that_a_job_avoids_is_not_used() -> None:
    nodes = {
        "a": mapping_node(MINSKY, gpus(0, 1), labels=frozenset({"noisy"})),
        "b": mapping_node(MINSKY, gpus(0, 2)),
    }
    assert mapped(ring(2), nodes, avoid=frozenset({"noisy"})).nodes == ("b",)


def test_evaluated_placement_keeps_the_given_order() -> None:
    nodes = {"a": mapping_node(MINSKY)}
    placement = [ClusterGpu("a", GpuIndex(3)), ClusterGpu("a", GpuIndex(0))]
    found = Mapper({"a": MINSKY}).evaluated(MappingJob(ring(2), QUIET), nodes, placement)
    assert places(found) == [("a", 3), ("a", 0)]
    assert found.costs.communication.term == pytest.approx(0.01)
    assert not found.exact


def test_cluster_without_gpus_is_rejected() -> None:
    with pytest.raises(UtilityError, match="nodes: none has a GPU"):
        Mapper({"a": NodeTopology((), ())})


def test_nodes_without_gpus_are_ignored() -> None:
    nodes = {"a": mapping_node(NodeTopology((), ())), "b": mapping_node(MINSKY)}
    assert mapped(ring(2), nodes, several_nodes=True).nodes == ("b",)


def test_many_placements_are_not_compared_but_bipartitioned() -> None:
    dgx_2 = named("dgx-2")
    found = mapped(ring(10), {"a": mapping_node(dgx_2)})
    assert not found.exact
    assert len(set(found.gpus)) == 10
    assert found.costs.communication.term == 1  # every pair has NVSwitch


def test_bipartitioning_of_several_nodes_uses_few_nodes() -> None:
    nodes = {f"n{number}": mapping_node(MINSKY) for number in range(7)}
    nodes["n3"] = mapping_node(MINSKY, gpus())
    found = mapped(ring(8), nodes, several_nodes=True)
    assert not found.exact
    assert len(found.nodes) == 2
    assert len(set(found.gpus)) == 8
    assert "n3" not in found.nodes


def test_bipartitioning_keeps_communicating_ranks_on_one_socket() -> None:
    pattern = custom(4, [PatternEdge(0, 2, 9), PatternEdge(1, 3, 9), PatternEdge(0, 1)])
    mapper = Mapper({"a": MINSKY}, SETTINGS)
    found = mapper.by_bipartitioning(MappingJob(pattern, QUIET), {"a": mapping_node(MINSKY)})
    assert isinstance(found, JobMapping)
    sockets = [int(gpu.gpu) // 2 for gpu in found.gpus]
    assert sockets[0] == sockets[2] != sockets[1] == sockets[3]


def test_weights_of_edges_decide_which_half_a_rank_joins() -> None:
    """Rank 6 has one strong edge to the first group, and two weak edges to the second."""
    groups = [
        PatternEdge(a, b, 50) for group in ((0, 1, 2), (3, 4, 5)) for a, b in combinations(group, 2)
    ]
    others = [
        PatternEdge(2, 3, 10),
        PatternEdge(0, 6, 9),
        PatternEdge(3, 6, 2),
        PatternEdge(4, 6, 2),
    ]
    job = MappingJob(custom(7, [*groups, *others]), QUIET)
    found = Mapper({"a": PCIE_8}, SETTINGS).by_bipartitioning(job, {"a": mapping_node(PCIE_8)})
    assert isinstance(found, JobMapping)
    sockets = [int(gpu.gpu) // 4 for gpu in found.gpus]
    assert sockets[0] == sockets[1] == sockets[2] == sockets[6]
    assert sockets[3] == sockets[4] == sockets[5] != sockets[0]


def test_part_of_a_cluster_counts_as_its_node_with_the_fewest_free_gpus() -> None:
    """So a job of one GPU finds the only node with a GPU that nothing else can use."""
    names = [f"n{number}" for number in range(6)]
    mapper = Mapper(dict.fromkeys(names, MINSKY), SETTINGS)
    for last in names:
        nodes = dict.fromkeys(names, mapping_node(MINSKY))
        nodes[last] = mapping_node(MINSKY, gpus(1), {0: QUIET, 2: QUIET, 3: QUIET})
        for several in (True, False):
            found = mapper.by_bipartitioning(MappingJob(ring(1), QUIET, several), nodes)
            assert isinstance(found, JobMapping)
            assert places(found) == [(last, 1)]


def test_bipartitioning_leaves_out_halves_without_capacity() -> None:
    """Only one of four nodes has free GPUs, in either half of the cluster."""
    mapper = Mapper({f"n{number}": MINSKY for number in range(4)}, SETTINGS)
    for usable in range(4):
        nodes = {
            f"n{number}": mapping_node(MINSKY, gpus(1, 2, 3) if number == usable else gpus())
            for number in range(4)
        }
        for several in (True, False):
            job = MappingJob(ring(2), QUIET, several_nodes=several)
            found = mapper.by_bipartitioning(job, nodes)
            assert isinstance(found, JobMapping)
            assert places(found) == [(f"n{usable}", 3), (f"n{usable}", 2)] or places(found) == [
                (f"n{usable}", 2),
                (f"n{usable}", 3),
            ]


def test_bipartitioning_keeps_a_job_of_one_node_together() -> None:
    """Each rank alone would prefer another node: the first has a noisy neighbour on each socket."""
    nodes = {
        "a": mapping_node(PCIE_8, gpus(1, 2, 3, 5, 6), {0: NOISY, 4: NOISY}),
        "b": mapping_node(PCIE_8, gpus(0, 1, 2, 4)),
    }
    mapper = Mapper({"a": PCIE_8, "b": PCIE_8}, SETTINGS)
    found = mapper.by_bipartitioning(MappingJob(ring(4), QUIET), nodes)
    assert isinstance(found, JobMapping)
    assert found.nodes == ("b",)


def test_best_length_of_a_job_larger_than_any_node_is_a_lower_bound() -> None:
    nodes = {"a": mapping_node(MINSKY), "b": mapping_node(MINSKY)}
    found = mapped(chain(6), nodes, several_nodes=True)
    assert found.costs.communication.best == 5  # all edges as short as an NVLink
    one_gpu_each = {"a": mapping_node(node(0)), "b": mapping_node(node(0))}
    assert mapped(chain(2), one_gpu_each, several_nodes=True).costs.communication.best == 0


WEIGHTED = custom(3, [PatternEdge(0, 1, 3), PatternEdge(1, 2)])


@pytest.mark.parametrize(
    "pattern", [ring(4), chain(4), star(4), all_to_all(4), ring(2), ring(1), WEIGHTED]
)
def test_shortest_order_is_that_of_all_orders(pattern: Pattern) -> None:
    places = [0, 1, 5, 7, 20][: pattern.size]

    def distance(a: int, b: int) -> int:
        return abs(a - b)

    order, length = shortest_order(pattern, places, distance)
    lengths = {
        each: sum(w * distance(each[a], each[b]) for a, b, w in pattern.edges)
        for each in permutations(places)
    }
    assert length == lengths[order] == min(lengths.values())


def test_search_leaves_no_branch_that_could_be_shorter_by_the_least_amount() -> None:
    assert shortest_order(chain(3), [0, 2, 1], lambda a, b: abs(a - b)) == ((0, 1, 2), 2)


@pytest.mark.parametrize(
    ("pattern", "count", "small"),
    [
        (ring(5), 8, True),
        (ring(6), 8, False),  # 20,160 orders
        (ring(1), 600, True),
        (ring(1), 601, False),
        (all_to_all(8), 11, True),
        (all_to_all(8), 12, True),  # 495 sets
        (all_to_all(8), 13, False),
        (custom(2, [PatternEdge(0, 1, 3)]), 35, True),
        (custom(2, [PatternEdge(0, 1, 3)]), 36, False),
        (custom(3, [PatternEdge(0, 1, 3), PatternEdge(0, 2), PatternEdge(1, 2)]), 16, True),
        (chain(3), 17, False),
    ],
)
def test_few_placements_are_compared(pattern: Pattern, count: int, *, small: bool) -> None:
    assert is_small(pattern, count) is small
