"""A graph gets the name of the pattern that has it, whatever the order of its vertices."""

from itertools import combinations
from random import Random

import networkx as nx
import pytest

from gputopo.counters.graphs import NAME_ORDER, Graph, graph_of, is_isomorphic, pattern_of
from gputopo.patterns.model import PatternKind, build

SIZES = range(2, 17)

SAME_GRAPH = {
    **{(2, kind): PatternKind.RING for kind in NAME_ORDER},
    (3, PatternKind.ALL_TO_ALL): PatternKind.RING,
    (3, PatternKind.RING_TREE): PatternKind.RING,
    (3, PatternKind.STAR): PatternKind.CHAIN,
    (3, PatternKind.TREE): PatternKind.CHAIN,
    (4, PatternKind.RING_TREE): PatternKind.ALL_TO_ALL,
    (4, PatternKind.TREE): PatternKind.CHAIN,
}


def edges_of(kind: PatternKind, size: int) -> list[tuple[int, int]]:
    return [(edge.a, edge.b) for edge in build(kind, size).edges]


def shuffled(edges: list[tuple[int, int]], size: int, seed: int) -> Graph:
    order = Random(seed).sample(range(size), size)  # noqa: S311 - repeatable
    return graph_of(size, [(order[a], order[b]) for a, b in edges])


@pytest.mark.parametrize("kind", NAME_ORDER)
@pytest.mark.parametrize("size", SIZES)
def test_pattern_is_found_in_any_order(size: int, kind: PatternKind) -> None:
    for seed in range(5):
        found = pattern_of(shuffled(edges_of(kind, size), size, seed))
        assert found is SAME_GRAPH.get((size, kind), kind)


@pytest.mark.parametrize(
    ("size", "edges"),
    [
        (6, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]),
        (4, [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)]),
        (4, [(0, 1), (2, 3)]),
        (4, [(0, 1), (1, 2), (0, 2)]),
        (5, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)]),
        (4, []),
    ],
    ids=["two rings", "ring with a chord", "two pairs", "one GPU without traffic", "tail", "empty"],
)
def test_other_graphs_have_no_name(size: int, edges: list[tuple[int, int]]) -> None:
    assert pattern_of(graph_of(size, edges)) is None


def test_more_gpus_than_a_pod_may_have_are_no_pattern() -> None:
    assert pattern_of(graph_of(17, [(n, (n + 1) % 17) for n in range(17)])) is None


def test_graphs_of_different_sizes_differ() -> None:
    assert not is_isomorphic(graph_of(3, []), graph_of(4, []))


@pytest.mark.parametrize("seed", range(200))
def test_isomorphism_equals_networkx(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - repeatable
    size = random.randint(3, 8)
    pairs = list(combinations(range(size), 2))
    first = random.sample(pairs, random.randint(0, len(pairs)))
    second = random.sample(pairs, len(first))
    for other in (second, [(size - 1 - a, size - 1 - b) for a, b in first]):
        expected = nx.faster_could_be_isomorphic(
            nx.Graph(first), nx.Graph(other)
        ) and nx.is_isomorphic(with_vertices(first, size), with_vertices(other, size))
        assert is_isomorphic(graph_of(size, first), graph_of(size, other)) == expected


def with_vertices(edges: list[tuple[int, int]], size: int) -> "nx.Graph[int]":
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from(edges)
    return graph


@pytest.mark.parametrize("size", [8, 16])
def test_regular_graphs_are_distinguished_in_few_steps(size: int) -> None:
    """All vertices have one colour; the search along the edges decides."""
    half = size // 2
    rings = [(n, (n + 1) % half) for n in range(half)]
    two = [*rings, *((a + half, b + half) for a, b in rings)]
    assert pattern_of(graph_of(size, two)) is None
