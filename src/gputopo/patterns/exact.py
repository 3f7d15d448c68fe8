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

Usually, a total and the code of all or most ranks fit into 63 bits. Then the search keeps only a
key of both: the total in units of the bandwidths' greatest common divisor, times 2^(bits of the
code), minus the code. The best case has the highest key, and a case costs half as much time. For
instance, bandwidths of 12, 25 and 50 GB/s are 12, 25 and 50 units, and a ring of 16 has at most 800
units, which are 10 bits. So the code has the first 13 ranks. The last 3 ranks are placed at the
end, by trying all of their orders in each set.

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
from math import factorial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.cases import Cases, arrangements, cases_of
from gputopo.patterns.model import Pattern
from gputopo.patterns.plan import SearchPlan
from gputopo.patterns.subsets import Subsets, rows_by_mask, subsets

_DIGIT_BITS: Final = 4
_NO_CODE: Final = np.uint64(2**64 - 1)
_NO_CODES: Final = np.zeros((0, 0), dtype=np.uint64)
_KEY_BITS: Final = 63
"""Bits of a key, which has to be a positive int64."""

_MAX_COMPLETIONS: Final = 1 << 15
"""Most orders of the last ranks, over all GPU sets, that :func:`completed` may try."""

_BLOCK: Final = 1 << 17
"""How many cases are evaluated at once. With fewer, the calls of numpy cost more than their work;
with more, the data does not fit the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """The best cases of the search when the first ranks of a plan are placed.

    Attributes:
        frontier: the placed ranks that have an edge to an unplaced rank.
        totals: [arrangements, sets] best total for each placement of the frontier (see
            :func:`arrangements`) in each GPU set; or the key of total and code.
        codes: [arrangements, sets] lowest code of an order with that total; empty if ``totals``
            has keys.
    """

    frontier: tuple[int, ...]
    totals: NDArray[np.int64]
    codes: NDArray[np.uint64]


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
    members = subsets(len(weights), pattern.size).members
    unit = int(np.gcd.reduce(weights, axis=None))
    most = int(weights.max()) // unit * sum(edge.weight for edge in pattern.edges)
    digits = min(pattern.size - 1, (_KEY_BITS - most.bit_length()) // _DIGIT_BITS)
    if len(members) * factorial(pattern.size - digits) <= _MAX_COMPLETIONS:
        bits = _DIGIT_BITS * digits
        keys = _last_layer(weights // unit << bits, pattern, plan, digits, _NO_CODES).totals[0]
        totals, codes = -(-keys >> bits) * unit, (-keys & (1 << bits) - 1).astype(np.uint64)
    else:
        digits = pattern.size - 1
        last = _last_layer(weights, pattern, plan, digits, np.zeros((1, 1), np.uint64))
        totals, codes = last.totals[0], last.codes[0]
    shifts = np.array([_shift(rank, digits) for rank in range(digits)], np.uint64)
    orders = codes[:, None] >> shifts & np.uint64((1 << _DIGIT_BITS) - 1)
    return completed(weights, pattern, members, orders.astype(np.uint8)), totals


def completed(
    weights: NDArray[np.int64],
    pattern: Pattern,
    members: NDArray[np.uint8],
    orders: NDArray[np.uint8],
) -> NDArray[np.uint8]:
    """Place the last ranks. Each set gets the best order; on equal totals, the lowest one.

    Args:
        weights: [gpus, gpus] link bandwidths in MB/s, by GPU position.
        pattern: the pattern.
        members: [rows, size] GPU positions of each set, ascending.
        orders: [rows, ranks] GPU position of each rank that is already placed.
    """
    placed = orders.shape[1]
    used = (members[:, :, None] == orders[:, None]).any(axis=2)
    remaining = members[~used].reshape(len(members), -1)
    ends = arrangements(remaining.shape[1], remaining.shape[1])
    # [ranks, rows, choices]: choices are in ascending order, so that argmax takes the lowest one.
    ranks = [*orders.T[:, :, None], *remaining[:, ends].swapaxes(0, 1)]
    totals = np.zeros((len(members), ends.shape[1]), dtype=np.int64)
    for a, b, weight in pattern.edges:
        if b >= placed:
            totals += weight * weights[ranks[a], ranks[b]]
    best = remaining[np.arange(len(members))[:, None], ends.T[totals.argmax(axis=1)]]
    return np.hstack([orders, best])


def _last_layer(
    weights: NDArray[np.int64],
    pattern: Pattern,
    plan: SearchPlan,
    digits: int,
    codes: NDArray[np.uint64],
) -> _Layer:
    """Return the layer with all ranks placed. ``codes`` are those of the first layer."""
    layer = _Layer((), np.zeros((1, 1), np.int64), codes)
    for placed, rank in enumerate(plan.ranks):
        cases = cases_of(pattern, plan, placed, layer.frontier)
        sets = subsets(len(weights), placed + 1)
        factor = 1 << _shift(rank, digits) if rank < digits else 0
        layer = _next_layer(weights, sets, layer, cases, factor)
    return layer


def _next_layer(
    weights: NDArray[np.int64], sets: Subsets, layer: _Layer, cases: Cases, factor: int
) -> _Layer:
    """Return the layer with one more rank placed. To limit memory, it is computed in blocks."""
    members = np.ascontiguousarray(sets.members.T, dtype=np.intp)
    without = rows_by_mask(len(weights)).take(sets.masks ^ (1 << members).astype(np.uint32))
    digits = members * factor
    links = weights.take(members[:, None] * len(weights) + members)
    gains = [(links * weight).reshape(-1, len(sets.masks)) for weight, _ in cases.edges]
    count, arranged = cases.member.shape
    totals = np.empty((arranged, len(sets.masks)), dtype=np.int64)
    codes = np.empty(totals.shape, dtype=np.uint64) if layer.codes.size else _NO_CODES
    row_step = max(1, _BLOCK // count)
    for first_row in range(0, len(sets.masks), row_step):
        rows = slice(first_row, first_row + row_step)
        part = (
            np.ascontiguousarray(without[:, rows]),
            np.ascontiguousarray(digits[:, rows]),
            [np.ascontiguousarray(gain[:, rows]) for gain in gains],
        )
        step = max(1, _BLOCK // (count * part[0].shape[1]))
        for first in range(0, arranged, step):
            block = slice(first, first + step)
            totals[block, rows], lowest = _best(layer, cases, block, *part)
            if layer.codes.size:
                codes[block, rows] = lowest
    return _Layer(cases.frontier, totals, codes)


def _best(
    layer: _Layer,
    cases: Cases,
    block: slice,
    without: NDArray[np.int32],
    digits: NDArray[np.intp],
    gains: list[NDArray[np.int64]],
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return [arrangements, sets]: the best total after a rank is placed, and its lowest code.

    Args:
        layer: the layer before the rank is placed.
        cases: the ways to place the rank.
        block: the arrangements to compute.
        without: [members, sets] for each member of each new GPU set, the column of ``layer.totals``
            for the set without the member.
        digits: [members, sets] number to add to the code if the rank is placed on the member.
        gains: for each edge of ``cases``, [members * members, sets] what the edge adds to the
            total if its ends are on two members.
    """
    member = cases.member[:, block]
    source = (
        without.take(member, axis=0) + (cases.previous[:, block] * layer.totals.shape[1])[..., None]
    )
    totals = layer.totals.take(source)
    for gain, (_, ends) in zip(gains, cases.edges, strict=True):
        totals += gain.take(ends[:, block], axis=0)
    if not layer.codes.size:
        totals -= digits.take(member, axis=0)
        return totals.max(axis=0), _NO_CODES
    best = totals.max(axis=0)
    codes = layer.codes.take(source)
    codes += digits.astype(np.uint64).take(member, axis=0)
    codes[totals != best] = _NO_CODE
    return best, codes.min(axis=0)


def _shift(rank: int, digits: int) -> int:
    return _DIGIT_BITS * (digits - 1 - rank)
