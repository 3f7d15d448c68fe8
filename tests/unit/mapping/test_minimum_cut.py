"""The algorithm of Fiduccia and Mattheyses finds small and balanced cuts."""

from itertools import product

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputopo.mapping.bisection import Bisection, WeightedEdge, bisect

Graph = tuple[list[int], list[WeightedEdge]]


def cut_of(sides: tuple[int, ...], edges: list[WeightedEdge]) -> int:
    return sum(edge.strength for edge in edges if sides[edge.a] != sides[edge.b])


def smallest_cut(weights: list[int], edges: list[WeightedEdge], least: int) -> int:
    """Return the smallest cut of all divisions with at least this weight on each side."""
    return min(
        cut_of(sides, edges)
        for sides in product((0, 1), repeat=len(weights))
        if min(side_weights(weights, sides)) >= least
    )


def side_weights(weights: list[int], sides: tuple[int, ...]) -> tuple[int, int]:
    first = sum(weight for weight, side in zip(weights, sides, strict=True) if side == 0)
    return first, sum(weights) - first


@st.composite
def graphs(draw: st.DrawFn, most: int = 8) -> Graph:
    weights = draw(st.lists(st.integers(0, 1), min_size=2, max_size=most))
    weights[:2] = [1, 1]
    count = len(weights)
    pairs = [(a, b) for b in range(count) for a in range(b)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True))
    return weights, [WeightedEdge(a, b, draw(st.integers(1, 9))) for a, b in chosen]


def clusters(*sizes: int, between: int = 1) -> Graph:
    """Return complete graphs of these sizes in a row, with strong edges inside."""
    edges, first = [], 0
    for size in sizes:
        members = range(first, first + size)
        edges += [WeightedEdge(a, b, 10) for b in members for a in members if a < b]
        if first:
            edges.append(WeightedEdge(first - 1, first, between))
        first += size
    return [1] * first, edges


@given(graphs())
def test_cut_is_that_of_the_sides_and_both_sides_have_their_least_weight(graph: Graph) -> None:
    weights, edges = graph
    found = bisect(weights, edges)
    assert found.cut == cut_of(found.sides, edges)
    total = sum(weights)
    assert min(side_weights(weights, found.sides)) >= max(1, min(0.4 * total, total // 2))


@given(graphs())
def test_equal_graphs_have_equal_bisections(graph: Graph) -> None:
    assert bisect(*graph) == bisect(*graph)


@given(graphs(), st.data())
def test_cut_is_never_larger_than_that_of_a_balanced_start(
    graph: Graph, data: st.DataObject
) -> None:
    weights, edges = graph
    ones = [vertex for vertex, weight in enumerate(weights) if weight]
    first = set(data.draw(st.permutations(ones))[: len(ones) // 2])
    start = [0 if vertex in first else 1 for vertex in range(len(weights))]
    assert bisect(weights, edges, start).cut <= cut_of(tuple(start), edges)


@given(st.data())
def test_two_clusters_are_found_from_any_start(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 6))
    weights, edges = clusters(size, size)
    first = set(data.draw(st.permutations(range(2 * size)))[:size])
    found = bisect(weights, edges, [0 if vertex in first else 1 for vertex in range(2 * size)])
    assert found.cut == 1
    assert len(set(found.sides[:size])) == len(set(found.sides[size:])) == 1


@given(graphs(most=7))
def test_cut_is_near_the_smallest_of_all(graph: Graph) -> None:
    """The algorithm is a heuristic: on these graphs it is within the strength of two edges."""
    weights, edges = graph
    total = sum(weights)
    smallest = smallest_cut(weights, edges, max(1, min(-(-4 * total // 10), total // 2)))
    assert smallest <= bisect(weights, edges).cut <= smallest + 18


def test_cut_rises_first_where_a_greedy_search_would_stop() -> None:
    """Vertices 0 and 3 are exchanged by two moves, of which the first makes the cut larger."""
    weights, edges = clusters(3, 3)
    found = bisect(weights, edges, [1, 0, 0, 0, 1, 1])
    assert found == Bisection((0, 0, 0, 1, 1, 1), 1) or found == Bisection((1, 1, 1, 0, 0, 0), 1)


def test_vertices_without_weight_go_where_the_cut_is_smallest() -> None:
    edges = [WeightedEdge(0, 2, 1), WeightedEdge(1, 2, 5), WeightedEdge(0, 3, 7)]
    found = bisect([1, 1, 0, 0], edges)
    assert found.cut == 1
    assert found.sides[2] == found.sides[1] != found.sides[0] == found.sides[3]


def test_unbalanced_start_becomes_balanced() -> None:
    weights, edges = clusters(4, 4)
    assert min(side_weights(weights, bisect(weights, edges, [0] * 8).sides)) == 4


def test_graph_without_edges_is_halved_in_order() -> None:
    assert bisect([1, 1, 0, 1, 1], []) == Bisection((0, 0, 1, 1, 1), 0)


@pytest.mark.parametrize("size", [6, 10, 16])
def test_grid_has_the_smallest_cut(size: int) -> None:
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(size, 2))
    edges = [WeightedEdge(a, b, 1) for a, b in grid.edges]
    assert bisect([1] * len(grid), edges).cut == 2
