"""Divide a graph in two by the algorithm of Fiduccia and Mattheyses (DAC '82).

The algorithm moves one vertex at a time to the other side: the vertex whose move lowers the cut
most, even if the cut rises. After all vertices have moved once, it undoes the moves after the
smallest cut. This is one pass; passes are repeated while the cut becomes smaller. Vertices are
kept in buckets by gain, so a pass takes time linear in the number of edges.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

_LEAST_SHARE: Final = 0.4
"""Each side gets at least this share of the weight, if the weight can be divided so."""


class WeightedEdge(NamedTuple):
    """An edge between the vertices ``a`` and ``b``; cutting it costs ``strength``."""

    a: int
    b: int
    strength: int


@dataclass(frozen=True, slots=True)
class Bisection:
    """Sides of the vertices (0 or 1), and the total strength of the edges between the sides."""

    sides: tuple[int, ...]
    cut: int


def bisect(
    weights: Sequence[int], edges: Sequence[WeightedEdge], start: Sequence[int] | None = None
) -> Bisection:
    """Return a bisection with a small cut. Equal arguments give an equal result.

    Args:
        weights: weight of each vertex, 0 or more; vertices of weight 0 can be on any side. At
            least two vertices have a weight.
        edges: edges of the graph, without loops.
        start: sides to start from; by default the first vertices are on side 0. A start near the
            result needs fewer passes.
    """
    sides = list(start) if start is not None else _halves_in_order(weights)
    least = _least_weight(weights)
    state = _PassState(weights, edges, sides, least)
    while state.improve():
        pass
    return Bisection(tuple(state.sides), state.cut)


def _least_weight(weights: Sequence[int]) -> int:
    total = sum(weights)
    return max(1, min(-int(-_LEAST_SHARE * total // 1), total // 2 - max(weights) // 2))


def _halves_in_order(weights: Sequence[int]) -> list[int]:
    """Put vertices on side 0 until it has half of the weight.

    >>> _halves_in_order([0, 1, 1, 0, 1, 1])
    [0, 0, 0, 1, 1, 1]
    """
    sides, weight, half = [], 0, sum(weights) / 2
    for each in weights:
        sides.append(0 if weight < half else 1)
        weight += each
    return sides


class _PassState:
    """Sides, gains and buckets of all vertices."""

    def __init__(
        self, weights: Sequence[int], edges: Sequence[WeightedEdge], sides: list[int], least: int
    ) -> None:
        self.sides = sides
        self._weights, self._least = weights, least
        self._slack = max(weights)
        self._neighbours: list[list[tuple[int, int]]] = [[] for _ in weights]
        for a, b, strength in edges:
            self._neighbours[a].append((b, strength))
            self._neighbours[b].append((a, strength))
        self._most = max((sum(s for _, s in near) for near in self._neighbours), default=0)
        self.cut = sum(strength for a, b, strength in edges if sides[a] != sides[b])
        self._totals = [0, 0]
        for vertex, side in enumerate(sides):
            self._totals[side] += weights[vertex]

    def improve(self) -> bool:
        """Make one pass; return whether it has made the cut smaller."""
        before = best = (self._missing_weight(), self.cut)
        self._fill_buckets()
        moves: list[int] = []
        kept = 0
        while (vertex := self._next()) is not None:
            self._move(vertex)
            moves.append(vertex)
            now = (self._missing_weight(), self.cut)
            if now < best:
                best, kept = now, len(moves)
        for vertex in reversed(moves[kept:]):
            self._flip(vertex, self._gain(vertex))
        return best < before

    def _missing_weight(self) -> int:
        """Return by how much the lighter side is below its least weight."""
        return max(0, self._least - min(self._totals))

    def _gain(self, vertex: int) -> int:
        """Return by how much the cut falls if the vertex moves."""
        side = self.sides[vertex]
        return sum(s if self.sides[other] != side else -s for other, s in self._neighbours[vertex])

    def _fill_buckets(self) -> None:
        """Put all vertices into buckets by side, weight and gain."""
        self._free = [True] * len(self._weights)
        self._gains = [self._gain(vertex) for vertex in range(len(self._weights))]
        classes = {(side, weight) for side in (0, 1) for weight in self._weights}
        self._buckets = {key: _GainBuckets(self._most) for key in sorted(classes)}
        for vertex, gain in enumerate(self._gains):
            self._bucket(vertex).add(vertex, gain)

    def _bucket(self, vertex: int) -> "_GainBuckets":
        return self._buckets[self.sides[vertex], self._weights[vertex]]

    def _next(self) -> int | None:
        """Return the vertex with the highest gain among those that may move now.

        While a pass runs, a side may be lighter than allowed by one vertex. Otherwise no vertex of
        two equal halves could ever move.
        """
        best: tuple[int, int] | None = None
        chosen = None
        for (side, weight), buckets in self._buckets.items():
            top = buckets.top()
            if top is None or self._totals[side] - weight < self._least - self._slack:
                continue
            key = (self._gains[top], self._totals[side])
            if best is None or key > best:
                best, chosen = key, top
        return chosen

    def _move(self, vertex: int) -> None:
        self._bucket(vertex).remove(vertex, self._gains[vertex])
        self._free[vertex] = False
        before = self.sides[vertex]
        self._flip(vertex, self._gains[vertex])
        for other, strength in self._neighbours[vertex]:
            if self._free[other]:
                change = 2 * strength if self.sides[other] == before else -2 * strength
                self._bucket(other).remove(other, self._gains[other])
                self._gains[other] += change
                self._bucket(other).add(other, self._gains[other])

    def _flip(self, vertex: int, gain: int) -> None:
        side = self.sides[vertex]
        self._totals[side] -= self._weights[vertex]
        self._totals[1 - side] += self._weights[vertex]
        self.sides[vertex] = 1 - side
        self.cut -= gain


class _GainBuckets:
    """Vertices by gain, from ``-most`` to ``most``. Of equal gains, the last added is first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buckets: list[dict[int, None]] = [{} for _ in range(2 * most + 1)]
        self._highest = -1

    def add(self, vertex: int, gain: int) -> None:
        self._buckets[gain + self._most][vertex] = None
        self._highest = max(self._highest, gain + self._most)

    def remove(self, vertex: int, gain: int) -> None:
        del self._buckets[gain + self._most][vertex]

    def top(self) -> int | None:
        while self._highest >= 0 and not self._buckets[self._highest]:
            self._highest -= 1
        return next(reversed(self._buckets[self._highest])) if self._highest >= 0 else None
