"""Exact search for the best embeddings into all GPU sets at once, by dynamic programming.

Each layer of the search places one more rank, in the order of a :class:`SearchPlan`. The frontier
is the placed ranks that have an edge to an unplaced rank. What the remaining ranks can add to the
total depends only on the used GPUs and on the GPUs of the frontier. So among all cases with the
same used GPUs and the same GPUs of the frontier, the search keeps only the best case. For a ring
this is the algorithm of M. Held and R. M. Karp (1962). If all ranks stay in the frontier, the
search tries every order.

Each case has a total (MB/s) and a code. The code has the GPU positions of the ranks in one number,
with 4 bits for each rank and rank 0 in the highest bits. Of several cases with the same total, the
search keeps the case with the lowest code.

Example: a ring of 4 on GPUs with 50 GB/s on links 0-1 and 2-3, 25 GB/s on 1-2 and 0-3, and 12 GB/s
on 0-2 and 1-3. Rank 0 is always on GPU 0, because a rotated ring has the same edges. Ranks are
placed in the order 0, 1, 2, 3. ``{0,1,2}: 75 on 2`` is the best total of ranks 0 to 2 on GPUs 0, 1
and 2 if the rank placed last is on GPU 2::

    ranks 0-1   {0,1}: 50 on 1          {0,2}: 12 on 2             {0,3}: 25 on 3
    ranks 0-2   {0,1,2}: 75 on 2,       {0,1,3}: 62 on 3,          {0,2,3}: 62 on 3,
                         37 on 1                 37 on 1                    75 on 2
    ranks 0-3   {0,1,2} with 75 on 2, then rank 3 on GPU 3:  75 + 50 (2-3) + 25 (3-0) = 150
                {0,2,3} with 75 on 2, then rank 3 on GPU 1:  75 + 25 (2-1) + 50 (1-0) = 150

Both orders have the best total. Order 0, 1, 2, 3 is kept, because it is lower than 0, 3, 2, 1.
"""

from dataclasses import dataclass
from math import perm
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.model import Pattern
from gputopo.patterns.plan import SearchPlan
from gputopo.patterns.subsets import Subsets, rows_by_mask, subsets

_DIGIT_BITS: Final = 4
_NO_CODE: Final = np.uint64(2**64 - 1)
_BLOCK: Final = 1 << 17
"""How many cases are evaluated at once. With fewer, the calls of numpy cost more than their work;
with more, the data does not fit the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """The best cases of the search when the first ranks of a plan are placed.

    Attributes:
        frontier: the placed ranks that have an edge to an unplaced rank.
        totals: [arrangements, sets] best total for each placement of the frontier (see
            :func:`arrangements`) in each GPU set.
        codes: [arrangements, sets] lowest code of an order with that total.
    """

    frontier: tuple[int, ...]
    totals: NDArray[np.int64]
    codes: NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class _Cases:
    """All ways to place one rank in a GPU set. A member is the number of a GPU in the set, from 0.

    An arrangement gives each rank of the frontier a member; :func:`arrangements` numbers the
    arrangements. Column i of each array has all cases after which the frontier has arrangement i.

    Attributes:
        frontier: the placed ranks that have an edge to an unplaced rank, after the rank is placed.
        member: [cases, arrangements] the member that the rank gets.
        previous: [cases, arrangements] the arrangement of the former frontier, before the rank is
            placed. It numbers the members of the set without ``member``.
        edges: for each edge from the rank to a placed rank: the weight, and [cases, arrangements]
            the members a and b at the ends of the edge, as the number ``a * (set size) + b``.
    """

    frontier: tuple[int, ...]
    member: NDArray[np.intp]
    previous: NDArray[np.intp]
    edges: tuple[tuple[int, NDArray[np.intp]], ...]


def best_embeddings(
    weights: NDArray[np.int64], pattern: Pattern, plan: SearchPlan
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the best embedding into every GPU set; on equal totals, the one with the lowest code.

    Args:
        weights: [gpus, gpus] link bandwidths in MB/s, by GPU position.
        pattern: the pattern of ``plan``; not larger than the node.
        plan: the order in which ranks are placed.

    Returns:
        [rows, size] GPU position of each rank; [rows] aggregate bandwidth in MB/s.
    """
    layer = _Layer((), np.zeros((1, 1), np.int64), np.zeros((1, 1), np.uint64))
    for placed, rank in enumerate(plan.ranks):
        cases = _cases(pattern, plan, placed, layer.frontier)
        sets = subsets(len(weights), placed + 1)
        layer = _next_layer(weights, sets, layer, cases, _shift(rank, pattern.size))
    shifts = np.array([_shift(rank, pattern.size) for rank in range(pattern.size)], np.uint64)
    orders = layer.codes[0][:, None] >> shifts & np.uint64((1 << _DIGIT_BITS) - 1)
    return orders.astype(np.uint8), layer.totals[0]


def arrangements(count: int, size: int) -> NDArray[np.int8]:
    """Return [size, arrangements]: all ordered choices of ``size`` numbers from 0..count-1.

    >>> arrangements(3, 2).T.tolist()
    [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]
    """
    if size == 0:
        return np.zeros((0, 1), dtype=np.int8)
    rest = arrangements(count - 1, size - 1)
    first = np.repeat(np.arange(count, dtype=np.int8), rest.shape[1])
    after = np.tile(rest, count)
    return np.vstack([first, after + (after >= first)])


def _arrangement_numbers(chosen: NDArray[np.int8], count: int) -> NDArray[np.intp]:
    """Return for each column of ``chosen`` the number of this column in :func:`arrangements`."""
    size = len(chosen)
    numbers = np.zeros(chosen.shape[1], dtype=np.intp)
    for place, member in enumerate(chosen):
        lower = (chosen[:place] < member).sum(axis=0, dtype=np.int8)
        numbers += (member - lower).astype(np.intp) * perm(count - 1 - place, size - 1 - place)
    return numbers


def _cases(pattern: Pattern, plan: SearchPlan, placed: int, frontier: tuple[int, ...]) -> _Cases:
    """Return all ways to place the next rank, after ``placed`` ranks of the plan."""
    rank, members = plan.ranks[placed], placed + 1
    low = np.int8(plan.pinned and placed > 0)  # a pinned rank 0 uses member 0
    kept, dropped = _frontiers(pattern, plan, placed, frontier)
    arranged = arrangements(members - int(low), len(kept) + len(dropped)) + low
    at = dict(zip((*kept, *dropped), arranged, strict=True))
    member = at[rank].astype(np.intp)
    without = [at[other] - (at[other] > at[rank]) - low for other in frontier]
    previous = _arrangement_numbers(
        np.array(without, dtype=np.int8).reshape(-1, len(member)), placed - int(low)
    )
    ends = [
        (weight, member * members + at.get(other, 0))
        for other, weight in _edges(pattern, rank, plan.ranks[:placed])
    ]

    def by_arrangement(values: NDArray[np.intp]) -> NDArray[np.intp]:
        # The ranks that stay come first, so that the cases of one new arrangement are adjacent.
        return np.ascontiguousarray(values.reshape(perm(members - int(low), len(kept)), -1).T)

    edges = tuple((weight, by_arrangement(pair)) for weight, pair in ends)
    return _Cases(kept, by_arrangement(member), by_arrangement(previous), edges)


def _frontiers(
    pattern: Pattern, plan: SearchPlan, placed: int, frontier: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the frontier after the next rank is placed, and the ranks that leave the frontier."""
    candidates, later = (*frontier, plan.ranks[placed]), plan.ranks[placed + 1 :]
    free = [rank for rank in candidates if not (plan.pinned and rank == 0)]
    kept = tuple(rank for rank in free if _edges(pattern, rank, later))
    return kept, tuple(rank for rank in candidates if rank not in kept)


def _next_layer(
    weights: NDArray[np.int64], sets: Subsets, layer: _Layer, cases: _Cases, shift: int
) -> _Layer:
    """Return the layer with one more rank placed. To limit memory, it is computed in blocks."""
    bits = np.uint32(1) << sets.members.astype(np.uint32)
    without = rows_by_mask(len(weights))[sets.masks[:, None] ^ bits].T
    digits = (sets.members.astype(np.uint64) << np.uint64(shift)).T
    links = weights[sets.members[:, :, None], sets.members[:, None, :]]
    links = links.reshape(len(links), -1).T
    count, arranged = cases.member.shape
    totals = np.empty((arranged, len(sets.masks)), dtype=np.int64)
    codes = np.empty(totals.shape, dtype=np.uint64)
    row_step = max(1, _BLOCK // count)
    for first_row in range(0, len(sets.masks), row_step):
        rows = slice(first_row, first_row + row_step)
        tables = [np.ascontiguousarray(table[:, rows]) for table in (without, digits, links)]
        step = max(1, _BLOCK // (count * tables[0].shape[1]))
        for first in range(0, arranged, step):
            block = slice(first, first + step)
            totals[block, rows], codes[block, rows] = _best(layer, cases, block, *tables)
    return _Layer(cases.frontier, totals, codes)


def _best(
    layer: _Layer,
    cases: _Cases,
    block: slice,
    without: NDArray[np.int32],
    digits: NDArray[np.uint64],
    links: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return [arrangements, sets]: the best total after a rank is placed, and its lowest code.

    Args:
        layer: the layer before the rank is placed.
        cases: the ways to place the rank.
        block: the arrangements to compute.
        without: [members, sets] for each member of each new GPU set, the column of ``layer.totals``
            for the set without the member.
        digits: [members, sets] number to add to the code if the rank is placed on the member.
        links: [members * members, sets] bandwidth between two members, in MB/s.
    """
    member = cases.member[:, block]
    source = (
        without.take(member, axis=0) + (cases.previous[:, block] * layer.totals.shape[1])[..., None]
    )
    totals = layer.totals.take(source)
    for weight, ends in cases.edges:
        gain = links.take(ends[:, block], axis=0)
        totals += gain if weight == 1 else gain * weight
    best = totals.max(axis=0)
    codes = layer.codes.take(source)
    codes += digits.take(member, axis=0)
    codes[totals != best] = _NO_CODE
    return best, codes.min(axis=0)


def _edges(pattern: Pattern, rank: int, others: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return (other rank, weight) of the edges between a rank and ``others``."""
    ends = [((edge.a, edge.b), edge.weight) for edge in pattern.edges if rank in edge[:2]]
    joined = [(a if b == rank else b, weight) for (a, b), weight in ends]
    return [(other, weight) for other, weight in joined if other in others]


def _shift(rank: int, size: int) -> int:
    return _DIGIT_BITS * (size - 1 - rank)
