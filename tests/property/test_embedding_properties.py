"""The best embedding is the best of all orders, by an independent exhaustive search."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gputopo.bandwidth.effective import effective_table
from gputopo.bandwidth.preserved import preserved_mb_per_s, preserved_table
from gputopo.patterns.bound import bounds
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.graph import link_weights
from gputopo.patterns.improve import improved_embeddings
from gputopo.patterns.model import Pattern, PatternKind, build, custom
from gputopo.patterns.subsets import gpu_masks, positions_of, rows_by_mask, subsets
from gputopo.topology.model import LinkKind, NodeTopology, indices_of
from support.builders.strategies import custom_edges, patterns, topologies
from support.builders.topologies import LinkSpec, gpus, node, relabelled
from support.mapa_oracle import Edges, best, hardware, pattern_edges, preserved, row_of, speeds

plain_kinds = st.sampled_from([kind for kind in PatternKind if kind is not PatternKind.CUSTOM])


def require_best(topology: NodeTopology, pattern: Pattern, edges: Edges) -> None:
    graph = hardware(topology)
    table = embeddings(topology, pattern)
    sets = list(combinations(sorted(graph), pattern.size))
    assert table.sets.tolist() == [gpus(*members) for members in sets]
    for row, members in enumerate(sets):
        total, order = best(graph, edges, members)
        assert table.aggregate_mb_per_s[row] == table.bound_mb_per_s[row] == total
        assert tuple(table.orders[row].tolist()) == order


@given(st.data(), topologies(max_gpus=6), plain_kinds)
def test_no_order_of_a_pattern_is_better(
    data: st.DataObject, topology: NodeTopology, kind: PatternKind
) -> None:
    size = data.draw(st.integers(1, len(topology.gpus)))
    require_best(topology, build(kind, size), pattern_edges(kind, size))


@given(st.data(), topologies(min_gpus=2, max_gpus=6))
def test_no_order_of_a_custom_pattern_is_better(
    data: st.DataObject, topology: NodeTopology
) -> None:
    size = data.draw(st.integers(2, len(topology.gpus)))
    edges = data.draw(custom_edges(size))
    require_best(topology, custom(size, edges), [(edge.a, edge.b, edge.weight) for edge in edges])


def greedy_total(topology: NodeTopology, edges: Edges, members: tuple[int, ...]) -> int:
    """Return the total if each rank in turn takes its best free GPU, the lowest among equals."""
    mb_per_s, order, total = speeds(hardware(topology)), list[int](), 0

    def gain(gpu: int) -> int:
        back = [(min(a, b), weight) for a, b, weight in edges if max(a, b) == len(order)]
        return sum(weight * mb_per_s[gpu][order[rank]] for rank, weight in back)

    while len(order) < len(members):
        chosen = max((gpu for gpu in members if gpu not in order), key=gain)
        total += gain(chosen)
        order.append(chosen)
    return total


@given(st.data(), topologies(min_gpus=2, max_gpus=6))
def test_an_inexact_search_is_between_greedy_and_best_and_below_its_bound(
    data: st.DataObject, topology: NodeTopology
) -> None:
    pattern = data.draw(patterns(max_size=len(topology.gpus)))
    edges: Edges = [(edge.a, edge.b, edge.weight) for edge in pattern.edges]
    weights, graph = link_weights(topology), hardware(topology)
    limits = bounds(weights, pattern)
    orders, totals = improved_embeddings(weights, pattern, limits)
    indices = indices_of(topology.mask)
    for row, members in enumerate(combinations(indices, pattern.size)):
        most, _ = best(graph, edges, members)
        assert greedy_total(topology, edges, members) <= totals[row] <= most <= limits[row]
        order = [indices[position] for position in orders[row]]
        assert sorted(order) == list(members)
        mb_per_s = speeds(graph)
        assert totals[row] == sum(weight * mb_per_s[order[a]][order[b]] for a, b, weight in edges)


@given(topologies(max_gpus=9))
def test_preserved_bandwidth_is_the_sum_of_links_among_free_gpus(topology: NodeTopology) -> None:
    graph, indices = hardware(topology), indices_of(topology.mask)
    for row, mb_per_s in enumerate(preserved_table(topology).tolist()):
        free = gpus(*(index for at, index in enumerate(indices) if row >> at & 1))
        assert mb_per_s == preserved_mb_per_s(topology, free)
        assert mb_per_s == preserved(graph, indices_of(free))


@given(st.data(), topologies(min_gpus=1, max_gpus=6))
def test_values_do_not_depend_on_the_numbering_of_gpus(
    data: st.DataObject, topology: NodeTopology
) -> None:
    pattern = data.draw(patterns(max_size=len(topology.gpus)))
    old = indices_of(topology.mask)
    new = dict(zip(old, data.draw(st.permutations(old)), strict=True))
    renamed = relabelled(topology, {int(was): int(now) for was, now in new.items()}.__getitem__)
    before, after = (effective_table(it, pattern, None) for it in (topology, renamed))
    one, other = embeddings(topology, pattern), embeddings(renamed, pattern)
    assert after.model == before.model
    for row, members in enumerate(combinations(old, pattern.size)):
        moved = row_of(other, gpus(*(new[index] for index in members)))
        assert other.aggregate_mb_per_s[moved] == one.aggregate_mb_per_s[row]
        if pattern.kind is PatternKind.RING:
            assert after.mb_per_s[moved] == before.mb_per_s[row]


@given(st.data(), topologies(min_gpus=2, max_gpus=6))
def test_a_faster_link_never_lowers_an_aggregate(
    data: st.DataObject, topology: NodeTopology
) -> None:
    pattern = data.draw(patterns(max_size=len(topology.gpus)))
    upgraded = data.draw(st.sampled_from([(link.a, link.b) for link in topology.links]))
    specs: dict[tuple[int, int], LinkSpec] = {
        (link.a, link.b): (link.kind, link.version, link.count) for link in topology.links
    }
    faster = node(
        *(gpu.index for gpu in topology.gpus), links=specs | {upgraded: (LinkKind.NVSWITCH, 5, 18)}
    )
    before, after = (embeddings(it, pattern) for it in (topology, faster))
    assert (after.aggregate_mb_per_s >= before.aggregate_mb_per_s).all()


@given(st.integers(0, 10), st.integers(0, 10))
def test_subsets_equal_those_of_itertools(count: int, size: int) -> None:
    expected = list(combinations(range(count), size))
    found = subsets(count, size)
    assert [tuple(row) for row in found.members.tolist()] == expected
    assert found.masks.tolist() == [sum(1 << it for it in members) for members in expected]
    assert (rows_by_mask(count)[found.masks] == np.arange(len(expected))).all()


@given(st.data(), topologies())
def test_masks_of_gpus_and_of_positions_are_equal_sets(
    data: st.DataObject, topology: NodeTopology
) -> None:
    indices = indices_of(topology.mask)
    size = data.draw(st.integers(0, len(indices)))
    found = subsets(len(indices), size)
    for mask, of_gpus in zip(found.masks, gpu_masks(indices, found.members), strict=True):
        assert positions_of(indices, int(of_gpus)) == mask
