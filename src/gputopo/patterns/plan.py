"""Find the order of ranks for which the exact search of :mod:`gputopo.patterns.exact` is fastest.

The search places one rank after another. The frontier is the placed ranks that have an edge to an
unplaced rank. To place a rank, the search evaluates one case for each set of used GPUs and each
choice of GPUs in this set for the new rank and for the previous frontier. So a small frontier means
few cases. Dynamic programming over the sets of ranks finds the order with the fewest cases, as for
the vertex separation of a graph (E. L. Lawler, 1979; H. L. Bodlaender et al., 2012).

Example: a ring of 4 on 4 GPUs. Rank 0 is always on the lowest GPU of its set. In the order 0, 1, 2,
3, the previous frontier is rank 0 and the rank placed last. The cases are::

    place rank 0    4 sets of 1 GPU   x 1                                     =  4
    place rank 1    6 sets of 2 GPUs  x 1 choice for rank 1                   =  6
    place rank 2    4 sets of 3 GPUs  x 2 x 1 choices for ranks 1 and 2       =  8
    place rank 3    1 set of 4 GPUs   x 3 x 2 choices for ranks 2 and 3       =  6
                                                                     in all     24
"""

from dataclasses import dataclass
from functools import lru_cache
from math import comb, perm

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.model import Pattern, PatternKind


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The order of the exact search for one pattern on a node.

    Attributes:
        ranks: all ranks, in the order in which they are placed.
        pinned: whether rank 0 is placed first, on the lowest GPU of its set. A ring needs no other
            start, because a rotated ring has the same edges.
        steps: number of cases, summed over all ranks. For one rank, it is the number of GPU sets,
            times the number of ways to place the rank and the frontier in a set.
    """

    ranks: tuple[int, ...]
    pinned: bool
    steps: int


@lru_cache(maxsize=256)
def search_plan(pattern: Pattern, gpus: int) -> SearchPlan:
    """Return the plan with the fewest steps for ``pattern`` on a node with ``gpus`` GPUs."""
    size, pinned = pattern.size, pattern.kind is PatternKind.RING
    cost = _costs(_frontier_sizes(pattern, pinned=pinned), size, gpus, pinned=pinned)
    least = _least_costs(cost, size, pinned=pinned)
    ranks, placed = [], (1 << size) - 1
    while placed:
        without = {rank: placed ^ 1 << rank for rank in range(size) if placed >> rank & 1}
        last = min(without, key=lambda rank: (least[without[rank]] + cost[without[rank]], -rank))
        ranks.append(last)
        placed = without[last]
    return SearchPlan(tuple(reversed(ranks)), pinned, int(least[-1]))


def _frontier_sizes(pattern: Pattern, *, pinned: bool) -> NDArray[np.int64]:
    """Return how many ranks are in the frontier, for each set of placed ranks.

    The result is an array with 2^size entries. Its index is the bit mask of the placed ranks.
    """
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
    """Return in how many cases the next rank is placed, for each bit mask of placed ranks."""
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


def _least_costs(cost: NDArray[np.int64], size: int, *, pinned: bool) -> NDArray[np.int64]:
    """Return [2^size]: the fewest cases to place a set of ranks, by the set's mask."""
    sets = np.arange(1 << size)
    placed = np.bitwise_count(sets)
    least = np.zeros(1 << size, dtype=np.int64)
    infinite = np.iinfo(np.int64).max // 2
    for some in range(1, size + 1):
        layer = sets[placed == some]
        best = np.full(len(layer), infinite)
        for rank in range(size):
            without = layer & ~(1 << rank)
            with_rank_last = np.where(layer == without, infinite, least[without] + cost[without])
            best = np.minimum(best, with_rank_last)
        if pinned:
            best[layer & 1 == 0] = infinite
        least[layer] = best
    return least
