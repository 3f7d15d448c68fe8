"""The best embedding is the best of all orders, by an exhaustive search written apart."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from builders import Sort, gpus, node, relabelled
from gputopo.api.enums import LinkKind
from gputopo.bandwidth.effective import effective_table
from gputopo.bandwidth.preserved import preserved_mb_per_s, preserved_table
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.model import Pattern, all_to_all, custom, ring
from gputopo.topology.model import GpuMask, NodeTopology, indices_of
from oracle import Edges, best, clique_edges, hardware, preserved, ring_edges
from strategies import custom_edges, topologies


def require_best(topology: NodeTopology, pattern: Pattern, edges: Edges) -> None:
    graph = hardware(topology)
    table = embeddings(topology, pattern)
    assert len(table) == len(list(combinations(graph, pattern.size)))
    for members, found in table.items():
        assert (found.aggregate_mb_per_s, found.order) == best(graph, edges, indices_of(members))
        assert found.exact


@given(st.data(), topologies(max_gpus=6))
def test_no_ring_through_a_set_beats_the_one_found(
    data: st.DataObject, topology: NodeTopology
) -> None:
    size = data.draw(st.integers(1, len(topology.gpus)))
    require_best(topology, ring(size), ring_edges(size))


@given(st.data(), topologies(max_gpus=5))
def test_all_to_all_is_the_sum_of_all_links_in_ascending_order(
    data: st.DataObject, topology: NodeTopology
) -> None:
    size = data.draw(st.integers(1, len(topology.gpus)))
    require_best(topology, all_to_all(size), clique_edges(size))


@given(st.data(), topologies(min_gpus=2, max_gpus=6))
def test_no_order_of_a_custom_pattern_beats_the_one_found(
    data: st.DataObject, topology: NodeTopology
) -> None:
    size = data.draw(st.integers(2, len(topology.gpus)))
    edges = data.draw(custom_edges(size))
    plain = [(edge.a, edge.b, edge.weight) for edge in edges]
    require_best(topology, custom(size, edges), plain)


@given(topologies(max_gpus=9))
def test_preserved_bandwidth_is_that_of_all_links_among_the_free(topology: NodeTopology) -> None:
    graph = hardware(topology)
    for free, mb_per_s in preserved_table(topology).items():
        assert mb_per_s == preserved_mb_per_s(topology, free)
        assert mb_per_s == preserved(graph, indices_of(free))


@given(st.data(), topologies(min_gpus=2, max_gpus=6))
def test_a_sets_value_does_not_depend_on_how_gpus_are_numbered(
    data: st.DataObject, topology: NodeTopology
) -> None:
    size = data.draw(st.integers(2, len(topology.gpus)))
    old = indices_of(topology.mask)
    new = dict(zip(old, data.draw(st.permutations(old)), strict=True))
    renamed = relabelled(topology, {int(was): int(now) for was, now in new.items()}.__getitem__)
    before, after = (effective_table(it, ring(size)) for it in (topology, renamed))
    assert after.model == before.model
    for members, mb_per_s in before.mb_per_s.items():
        moved = gpus(*(new[index] for index in indices_of(members)))
        assert after.mb_per_s[moved] == mb_per_s


@given(st.data(), topologies(min_gpus=2, max_gpus=6))
def test_a_faster_link_never_lowers_an_aggregate(
    data: st.DataObject, topology: NodeTopology
) -> None:
    size = data.draw(st.integers(2, len(topology.gpus)))
    upgraded = data.draw(st.sampled_from([(link.a, link.b) for link in topology.links]))
    sorts: dict[tuple[int, int], Sort] = {
        (link.a, link.b): (link.kind, link.version, link.count) for link in topology.links
    }
    faster = node(
        *(gpu.index for gpu in topology.gpus), links=sorts | {upgraded: (LinkKind.NVSWITCH, 5, 18)}
    )
    for members, found in embeddings(topology, ring(size)).items():
        better = embeddings(faster, ring(size))[GpuMask(members)]
        assert better.aggregate_mb_per_s >= found.aggregate_mb_per_s
