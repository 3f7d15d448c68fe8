"""Which pattern has a given graph, whatever the order of its vertices.

Several patterns may have the same graph. For placement the name does not matter then, and the first
of :data:`NAME_ORDER` names it:

- 2 GPUs: all patterns are Ring.
- 3 GPUs: AllToAll and RingTree are Ring; Star and Tree are Chain.
- 4 GPUs: RingTree is AllToAll; Tree is Chain.
- From 5 GPUs on, all graphs differ.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from gputopo.patterns.model import PatternKind, build

NAME_ORDER: Final = (
    PatternKind.RING,
    PatternKind.ALL_TO_ALL,
    PatternKind.CHAIN,
    PatternKind.STAR,
    PatternKind.TREE,
    PatternKind.RING_TREE,
)

Graph: TypeAlias = tuple[frozenset[int], ...]
"""The neighbours of each vertex."""


def graph_of(size: int, edges: Iterable[tuple[int, int]]) -> Graph:
    """Return the graph with the vertices ``0..size-1``."""
    neighbours: list[set[int]] = [set() for _ in range(size)]
    for a, b in edges:
        neighbours[a].add(b)
        neighbours[b].add(a)
    return tuple(map(frozenset, neighbours))


def pattern_of(graph: Graph) -> PatternKind | None:
    """Return the name of the pattern with this graph; None if no pattern has it.

    >>> pattern_of(graph_of(4, [(0, 2), (2, 1), (1, 3), (3, 0)]))
    <PatternKind.RING: 'Ring'>
    """
    for kind in NAME_ORDER:
        if is_isomorphic(_pattern_graph(kind, len(graph)), graph):
            return kind
    return None


@lru_cache(maxsize=128)
def _pattern_graph(kind: PatternKind, size: int) -> Graph:
    return graph_of(size, ((edge.a, edge.b) for edge in build(kind, size).edges))


def is_isomorphic(pattern: Graph, other: Graph) -> bool:
    """Return whether the graphs are equal but for the order of their vertices.

    Vertices first get colours (algorithm of Weisfeiler and Leman, 1968). Then a search assigns the
    vertices of ``pattern`` to vertices of the same colour, along its edges. The colours of a
    pattern leave the search nearly no choice, except between vertices that can be exchanged.
    """
    if len(pattern) != len(other):
        return False
    size = len(pattern)
    colours = _colours((*pattern, *(frozenset(size + n for n in each) for each in other)))
    if sorted(colours[:size]) != sorted(colours[size:]):
        return False
    return _assign(pattern, other, colours, _order(pattern), {})


def _colours(graph: Graph) -> list[int]:
    """Return colours: vertices of one colour have equally many neighbours of each colour.

    Colours are numbers from 0. In a path of 4 vertices, the ends get one colour and the two
    vertices between them get another colour.
    """
    colours, number = [0] * len(graph), 1
    while True:
        seen = [
            (colours[v], tuple(sorted(colours[n] for n in graph[v]))) for v in range(len(graph))
        ]
        names = {each: name for name, each in enumerate(sorted(set(seen)))}
        colours = [names[each] for each in seen]
        if len(names) == number:
            return colours
        number = len(names)


def _order(graph: Graph) -> list[int]:
    """Return the vertices so that each one, where possible, is a neighbour of an earlier one."""
    order: list[int] = []
    left = sorted(range(len(graph)), key=lambda vertex: -len(graph[vertex]))
    while left:
        following = next((v for v in left if graph[v] & set(order)), left[0])
        left.remove(following)
        order.append(following)
    return order


def _assign(
    pattern: Graph, other: Graph, colours: Sequence[int], order: list[int], placed: dict[int, int]
) -> bool:
    """Return whether the vertices of ``order`` that are not in ``placed`` can be assigned."""
    if len(placed) == len(order):
        return True
    vertex = order[len(placed)]
    neighbours = {placed[n] for n in pattern[vertex] if n in placed}
    taken = frozenset(placed.values())
    for candidate in range(len(other)):
        if (
            candidate not in taken
            and colours[len(pattern) + candidate] == colours[vertex]
            and other[candidate] & taken == neighbours
            and _assign(pattern, other, colours, order, placed | {vertex: candidate})
        ):
            return True
    return False
