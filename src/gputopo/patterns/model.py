"""Communication patterns: graphs with the ranks of a job as vertices (MAPA paper, section 3.1).

In MAPA all edges have equal weight; gputopo adds edge weights.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from types import MappingProxyType
from typing import Final, NamedTuple

from gputopo.errors import InvalidInputError

MAX_GPUS_PER_POD: Final = 16
"""Maximum number of GPUs of one pod, and of ranks of a pattern."""


class PatternKind(StrEnum):
    """Communication pattern of a job (MAPA paper, section 3.1).

    RING connects each rank with the next and the last with the first. TREE is a balanced binary
    tree. RING_TREE has the edges of both. CHAIN is a path, as between pipeline stages. STAR
    connects rank 0, such as a parameter server, with all others. ALL_TO_ALL connects all pairs.
    CUSTOM has the edges that the user lists.
    """

    RING = "Ring"
    TREE = "Tree"
    RING_TREE = "RingTree"
    CHAIN = "Chain"
    STAR = "Star"
    ALL_TO_ALL = "AllToAll"
    CUSTOM = "Custom"


class PatternError(InvalidInputError):
    """A pattern is invalid; the message names the field and the value."""


class PatternEdge(NamedTuple):
    """Traffic between ranks ``a`` and ``b``, proportional to ``weight``. In a pattern, a < b."""

    a: int
    b: int
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Pattern:
    """Graph of the communication between the ranks ``0..size-1`` of one job; hashable.

    To make a pattern, use :func:`build`, or the function of its kind, such as :func:`ring`.

    Raises:
        PatternError: on a size out of range.
    """

    kind: PatternKind
    size: int
    edges: tuple[PatternEdge, ...]

    def __post_init__(self) -> None:
        _require_size(self.size)


def ring(size: int) -> Pattern:
    """Return the ring of NCCL. A ring of one GPU has no edge.

    A ring of two GPUs has two equal edges, one for each direction, as in MAPA's released program.
    """
    edges = [_edge(rank, (rank + 1) % size) for rank in range(size)] if size > 1 else []
    return Pattern(PatternKind.RING, size, tuple(edges))


def tree(size: int) -> Pattern:
    """Return the balanced binary tree: rank 0 is the root, ``(r - 1) // 2`` the parent of ``r``."""
    edges = tuple(_edge((rank - 1) // 2, rank) for rank in range(1, size))
    return Pattern(PatternKind.TREE, size, edges)


def ring_tree(size: int) -> Pattern:
    """Return the edges of ring and tree together (MAPA paper, figure 8), without duplicates."""
    ring_edges = ring(size).edges
    tree_edges = (edge for edge in tree(size).edges if edge not in ring_edges)
    return Pattern(PatternKind.RING_TREE, size, (*ring_edges, *tree_edges))


def chain(size: int) -> Pattern:
    """Return the path 0 - 1 - 2 ...: each rank sends to the next, like a pipeline stage."""
    return Pattern(
        PatternKind.CHAIN, size, tuple(_edge(rank, rank + 1) for rank in range(size - 1))
    )


def star(size: int) -> Pattern:
    """Return the edges from rank 0, for instance a parameter server, to all other ranks."""
    return Pattern(PatternKind.STAR, size, tuple(_edge(0, rank) for rank in range(1, size)))


def all_to_all(size: int) -> Pattern:
    """Return the complete graph, with one edge between any two ranks."""
    edges = tuple(PatternEdge(a, b) for a, b in combinations(range(size), 2))
    return Pattern(PatternKind.ALL_TO_ALL, size, edges)


def custom(size: int, edges: Iterable[PatternEdge]) -> Pattern:
    """Return the pattern with these edges. Weights of edges between the same ranks are added.

    Ranks without an edge are allowed; they can be on any GPU.

    Raises:
        PatternError: on a size out of range, no edge, an edge from a rank to itself, an
            unknown rank, or a weight below 1.
    """
    _require_size(size)
    weights: Counter[tuple[int, int]] = Counter()
    for position, edge in enumerate(edges):
        _require_edge(f"edges[{position}]", edge, size)
        weights[min(edge.a, edge.b), max(edge.a, edge.b)] += edge.weight
    if not weights:
        raise PatternError("edges: a Custom pattern needs at least one edge")
    merged = tuple(PatternEdge(a, b, weight) for (a, b), weight in sorted(weights.items()))
    return Pattern(PatternKind.CUSTOM, size, merged)


def build(kind: PatternKind, size: int, edges: Sequence[PatternEdge] = ()) -> Pattern:
    """Return the pattern of a job.

    Args:
        kind: the kind of the pattern.
        size: number of GPUs, 1..16.
        edges: edges of a Custom pattern.

    Raises:
        PatternError: on an invalid size or edge, and on edges with a kind other than CUSTOM.
    """
    if kind is PatternKind.CUSTOM:
        return custom(size, edges)
    if edges:
        raise PatternError(f"edges: allowed with Custom only, not with {kind}")
    _require_size(size)  # a large size would create billions of edges
    return _BUILDERS[kind](size)


_BUILDERS: Final[Mapping[PatternKind, Callable[[int], Pattern]]] = MappingProxyType(
    {
        PatternKind.RING: ring,
        PatternKind.TREE: tree,
        PatternKind.RING_TREE: ring_tree,
        PatternKind.CHAIN: chain,
        PatternKind.STAR: star,
        PatternKind.ALL_TO_ALL: all_to_all,
    }
)


def _edge(a: int, b: int) -> PatternEdge:
    return PatternEdge(min(a, b), max(a, b))


def _require_size(size: int) -> None:
    if not 1 <= size <= MAX_GPUS_PER_POD:
        raise PatternError(f"gpus: {size} is not in 1..{MAX_GPUS_PER_POD}")


def _require_edge(field: str, edge: PatternEdge, size: int) -> None:
    for end, rank in (("from", edge.a), ("to", edge.b)):
        if not 0 <= rank < size:
            raise PatternError(
                f"{field}.{end}: {rank} is not a rank of {size} GPUs (0..{size - 1})"
            )
    if edge.a == edge.b:
        raise PatternError(f"{field}: rank {edge.a} is connected with itself")
    if edge.weight < 1:
        raise PatternError(f"{field}.weight: {edge.weight} is below 1")
