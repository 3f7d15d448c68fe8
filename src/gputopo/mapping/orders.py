"""The order of GPUs in which a job has the shortest paths, by a search through all orders."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Final, Generic, TypeVar

from gputopo.patterns.model import Pattern

_Place = TypeVar("_Place")

MAX_SETS: Final = 600
"""GPU sets up to which all are compared: for example 3 of 16 GPUs, or 4 of 12. This takes 5 ms."""

MAX_PLACEMENTS: Final = 20_000
"""The same for orders of GPUs, if the ranks are not equal: for example a ring of 5 on 8 GPUs."""


def is_small(pattern: Pattern, gpus: int) -> bool:
    """Return whether all placements of a job on this number of GPUs can be compared."""
    if math.comb(gpus, pattern.size) > MAX_SETS:
        return False
    return _is_symmetric(pattern) or math.perm(gpus, pattern.size) <= MAX_PLACEMENTS


def shortest_order(
    pattern: Pattern, gpus: Sequence[_Place], distance: Callable[[_Place, _Place], int]
) -> tuple[tuple[_Place, ...], int]:
    """Return the order of GPUs with the least weighted path length, and this length.

    The search gives GPUs to one rank after another. It leaves a branch when the edges so far, and
    all other edges at the shortest distance, are not shorter than the best order.
    """
    if _is_symmetric(pattern):
        total = sum(distance(a, b) for a, b in combinations(gpus, 2))
        return tuple(gpus), total * (pattern.edges[0].weight if pattern.edges else 0)
    search = _OrderSearch(pattern, gpus, distance)
    search.extend([], 0)
    return search.best, search.length


def _is_symmetric(pattern: Pattern) -> bool:
    """Return whether all ranks are equal: every pair communicates, with the same weight."""
    pairs = {(edge.a, edge.b) for edge in pattern.edges}
    complete = len(pairs) == len(pattern.edges) == math.comb(pattern.size, 2)
    return complete and len({edge.weight for edge in pattern.edges}) <= 1


class _OrderSearch(Generic[_Place]):
    def __init__(
        self,
        pattern: Pattern,
        gpus: Sequence[_Place],
        distance: Callable[[_Place, _Place], int],
    ) -> None:
        self._gpus, self._distance = gpus, distance
        self._earlier = [
            [(edge.a, edge.weight) for edge in pattern.edges if edge.b == rank]
            for rank in range(pattern.size)
        ]
        shortest = min((distance(a, b) for a, b in combinations(gpus, 2)), default=0)
        self._after = [
            shortest * sum(edge.weight for edge in pattern.edges if edge.b > rank)
            for rank in range(pattern.size)
        ]
        self.best = tuple(gpus)
        self.length = sum(
            edge.weight * distance(gpus[edge.a], gpus[edge.b]) for edge in pattern.edges
        )

    def extend(self, order: list[_Place], length: int) -> None:
        rank = len(order)
        if rank == len(self._gpus):
            self.best, self.length = tuple(order), length
            return
        for gpu, longer in self._choices(order, length):
            if longer + self._after[rank] < self.length:
                self.extend([*order, gpu], longer)

    def _choices(self, order: Sequence[_Place], length: int) -> Iterator[tuple[_Place, int]]:
        for gpu in self._gpus:
            if gpu not in order:
                edges = self._earlier[len(order)]
                yield gpu, length + sum(w * self._distance(order[a], gpu) for a, w in edges)
