"""In which order an exact search places the ranks of a pattern, and what that costs.

Once some ranks are placed, later ones only care where those stand that still have an
unplaced neighbour: the frontier. The narrower it stays, the fewer cases there are. The
order with the fewest cases is found by dynamic programming over the sets of ranks, as for
the vertex separation of a graph (E. L. Lawler, 1979; H. L. Bodlaender et al., 2012).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import comb, perm

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.model import Pattern, PatternKind


@dataclass(frozen=True, slots=True)
class Plan:
    """How to place the ranks of one pattern on a node.

    Attributes:
        ranks: in the order in which they are placed.
        pinned: whether rank 0 is placed first, on the lowest GPU of its set. Enough for a
            ring, which is the same ring from wherever it is read.
        steps: cases to look at: for each placed rank the sets of GPUs taken so far, times
            the ways in which frontier and new rank can stand in them.
    """

    ranks: tuple[int, ...]
    pinned: bool
    steps: int


@lru_cache(maxsize=256)
def plan(pattern: Pattern, gpus: int) -> Plan:
    """Return the cheapest plan for ``pattern`` on a node of ``gpus`` GPUs."""
    size, pinned = pattern.size, pattern.kind is PatternKind.RING
    cost = _costs(_open_ranks(pattern, pinned=pinned), size, gpus, pinned=pinned)
    best = _least(cost, size, pinned=pinned)
    ranks, placed = [], (1 << size) - 1
    while placed:
        before = {rank: placed ^ 1 << rank for rank in range(size) if placed >> rank & 1}
        last = min(before, key=lambda rank: (best[before[rank]] + cost[before[rank]], -rank))
        ranks.append(last)
        placed = before[last]
    return Plan(tuple(reversed(ranks)), pinned, int(best[-1]))


def _open_ranks(pattern: Pattern, *, pinned: bool) -> NDArray[np.int64]:
    """Return for each set of placed ranks how many of them have a neighbour that is not."""
    sets = np.arange(1 << pattern.size)
    neighbours = [0] * pattern.size
    for edge in pattern.edges:
        neighbours[edge.a] |= 1 << edge.b
        neighbours[edge.b] |= 1 << edge.a
    count = np.zeros(len(sets), dtype=np.int64)
    for rank in range(int(pinned), pattern.size):
        count += (sets >> rank & 1 == 1) & (neighbours[rank] & ~sets != 0)
    return count


def _costs(frontier: NDArray[np.int64], size: int, gpus: int, *, pinned: bool) -> NDArray[np.int64]:
    """Return for each set of placed ranks the cases of placing one more."""
    placed = np.bitwise_count(np.arange(1 << size)).astype(np.int64)
    cases = np.array(
        [
            [
                comb(gpus, some + 1) * perm(max(1, some + 1 - pinned), wide + 1)
                for wide in range(size)
            ]
            for some in range(size)
        ]
        + [[0] * size],
        dtype=np.int64,
    )
    return cases[placed, np.minimum(frontier, size - 1)]


def _least(cost: NDArray[np.int64], size: int, *, pinned: bool) -> NDArray[np.int64]:
    """Return for each set of ranks the least cost of placing them all."""
    sets = np.arange(1 << size)
    placed = np.bitwise_count(sets)
    best = np.zeros(1 << size, dtype=np.int64)
    never = np.iinfo(np.int64).max // 2
    for some in range(1, size + 1):
        layer = sets[placed == some]
        least = np.full(len(layer), never)
        for rank in range(size):
            before = layer & ~(1 << rank)
            ways = np.where(layer == before, never, best[before] + cost[before])
            least = np.minimum(least, ways)
        if pinned:
            least[layer & 1 == 0] = never
        best[layer] = least
    return best
