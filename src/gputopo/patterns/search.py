"""Patterns of any shape: branch and bound within a fixed number of steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from gputopo.patterns.graph import Embedding, LinkWeights
from gputopo.patterns.model import Pattern, PatternEdge
from gputopo.topology.model import GpuMask

NODE_BUDGET: Final = 500_000
"""Search steps for one pattern on one node, dealt out evenly to the GPU sets.

Steps, not seconds: the answer is the same on a fast and on a slow machine. Enough
for a proof on every node of up to 8 GPUs: 8 GPUs in any order are 109,600 steps.
"""


def searched_embeddings(
    weights: LinkWeights, pattern: Pattern, budget: int = NODE_BUDGET
) -> dict[GpuMask, Embedding]:
    """Return an embedding of ``pattern`` into every GPU set of its size.

    Never worse than the greedy one; where the budget ran out first, marked not exact.
    """
    sets = list(weights.sets(pattern.size))
    plan = _Plan.of(pattern)
    found: dict[GpuMask, Embedding] = {}
    for positions in sets:
        search = _Search(plan, weights.mb_per_s, positions, budget // len(sets))
        order, total = search.run()
        found[weights.mask(positions)] = Embedding(weights.gpus(order), total, search.exact)
    return found


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the search needs of a pattern, by rank; ranks are placed in ascending order.

    Attributes:
        back: edges to lower ranks, as (rank, weight).
        ahead: weights of the edges still open once the lower ranks stand, highest first.
        twin: the nearest lower rank with the same neighbours and weights, else None. The two
            are interchangeable, so only the ascending one of their orders is looked at.
    """

    back: tuple[tuple[tuple[int, int], ...], ...]
    ahead: tuple[tuple[int, ...], ...]
    twin: tuple[int | None, ...]

    @classmethod
    def of(cls, pattern: Pattern) -> "_Plan":
        ranks = range(pattern.size)
        edges = pattern.edges
        return cls(
            back=tuple(
                tuple((edge.a, edge.weight) for edge in edges if edge.b == rank) for rank in ranks
            ),
            ahead=tuple(
                tuple(sorted((edge.weight for edge in edges if edge.b >= rank), reverse=True))
                for rank in range(pattern.size + 1)
            ),
            twin=tuple(_twin(edges, rank) for rank in ranks),
        )


class _Search:
    """Depth-first over the ranks, for one GPU set."""

    def __init__(
        self,
        plan: _Plan,
        mb_per_s: Sequence[Sequence[int]],
        positions: Sequence[int],
        budget: int,
    ) -> None:
        self._plan = plan
        self._mb_per_s = mb_per_s
        self._positions = positions
        self._left = budget
        self._most_ahead = _most_ahead(plan, mb_per_s, positions)
        self._order: list[int] = []
        self._best, self._total = self._greedy()
        # What is as good as greedy counts, so that the lowest of the best orders is found.
        self._needed = self._total
        self.exact = True

    def run(self) -> tuple[list[int], int]:
        """Return the best order found and its total."""
        self._descend(0)
        return self._best, self._total

    def _descend(self, total: int) -> None:
        rank = len(self._order)
        if rank == len(self._positions):
            self._best, self._total, self._needed = list(self._order), total, total + 1
            return
        twin = self._plan.twin[rank]
        lowest = -1 if twin is None else self._order[twin]
        for position in self._positions:
            if position <= lowest or position in self._order:
                continue
            if self._left == 0:
                self.exact = False
                return
            self._left -= 1
            here = total + self._gain(rank, position)
            if here + self._most_ahead[rank + 1] >= self._needed:
                self._order.append(position)
                self._descend(here)
                self._order.pop()

    def _gain(self, rank: int, position: int) -> int:
        row = self._mb_per_s[position]
        return sum(weight * row[self._order[other]] for other, weight in self._plan.back[rank])

    def _greedy(self) -> tuple[list[int], int]:
        """Return the order that gives each rank in turn what is best for it now."""
        total = 0
        for rank in range(len(self._positions)):
            free = [position for position in self._positions if position not in self._order]
            best = max(free, key=lambda position: self._gain(rank, position))
            total += self._gain(rank, best)
            self._order.append(best)
        order, self._order = self._order, []
        return order, total


def _twin(edges: Sequence[PatternEdge], rank: int) -> int | None:
    """Return the nearest lower rank that talks to all others as ``rank`` does."""
    return next(
        (
            other
            for other in reversed(range(rank))
            if _neighbours(edges, other, rank) == _neighbours(edges, rank, other)
        ),
        None,
    )


def _neighbours(edges: Sequence[PatternEdge], rank: int, without: int) -> dict[int, int]:
    joined = {
        edge.b if edge.a == rank else edge.a: edge.weight
        for edge in edges
        if rank in (edge.a, edge.b)
    }
    joined.pop(without, None)
    return joined


def _most_ahead(
    plan: _Plan, mb_per_s: Sequence[Sequence[int]], positions: Sequence[int]
) -> list[int]:
    """Return the most that the edges still open can add, by rank.

    Heaviest edge on fastest link, next on next: by the rearrangement inequality no
    embedding has more.
    """
    fastest = sorted((mb_per_s[a][b] for a, b in combinations(positions, 2)), reverse=True)
    return [
        sum(weight * link for weight, link in zip(ahead, fastest, strict=False))
        for ahead in plan.ahead
    ]
