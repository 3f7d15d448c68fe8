"""The best embedding into every set at once: dynamic programming along a plan.

Layer by layer, each rank in turn is placed. What may still be gained depends only on
which GPUs are taken and where the frontier stands among them, so of all ways to get there
only the best is kept. For a ring this is the programme of M. Held and R. M. Karp (1962);
where all ranks stay open to the end it is plain enumeration.

Besides the total, each way carries its order as one number, rank 0 in the highest digit:
among equal totals the lowest number, hence the lowest order, is kept.
"""

from dataclasses import dataclass
from math import perm
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.model import Pattern
from gputopo.patterns.plan import Plan
from gputopo.patterns.subsets import Subsets, rows_by_mask, subsets

_DIGIT_BITS: Final = 4
_NO_CODE: Final = np.uint64(2**64 - 1)
_BLOCK: Final = 1 << 17
"""Cases looked at together: enough to forget the cost of a call, few enough for the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """The best ways to place the first ranks of a plan.

    Attributes:
        frontier: the placed ranks that still have an unplaced neighbour.
        totals: [stands, rows] best total by how the frontier stands in a set (by the
            :func:`arrangements` of the set's members) and by set.
        codes: [stands, rows] the lowest order of that total.
    """

    frontier: tuple[int, ...]
    totals: NDArray[np.int64]
    codes: NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class _Cases:
    """The ways to place one rank, whatever the set: members are numbered from its lowest.

    Attributes:
        frontier: after the rank is placed.
        here: [ways, stands] member on which the rank is placed.
        before: [ways, stands] how the frontier stood in the set without that member.
        gains: weight of each edge to a placed rank, and [ways, stands] its two ends as
            ``member * members + member``.
    """

    frontier: tuple[int, ...]
    here: NDArray[np.intp]
    before: NDArray[np.intp]
    gains: tuple[tuple[int, NDArray[np.intp]], ...]


def best_embeddings(
    weights: NDArray[np.int64], pattern: Pattern, plan: Plan
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the lowest of the best orders of every set, and its total.

    Args:
        weights: [gpus, gpus] MB/s by position.
        pattern: of ``plan``; not larger than the node.
        plan: how its ranks are placed.

    Returns:
        [rows, size] position of each rank; [rows] aggregate in MB/s.
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
    """Return [size, choices] all ordered choices of ``size`` of ``count``, the lowest first."""
    if size == 0:
        return np.zeros((0, 1), dtype=np.int8)
    rest = arrangements(count - 1, size - 1)
    first = np.repeat(np.arange(count, dtype=np.int8), rest.shape[1])
    after = np.tile(rest, count)
    return np.vstack([first, after + (after >= first)])


def _places(chosen: NDArray[np.int8], count: int) -> NDArray[np.intp]:
    """Return the place of each choice among the arrangements of its size."""
    size = len(chosen)
    places = np.zeros(chosen.shape[1], dtype=np.intp)
    for at, member in enumerate(chosen):
        lower = (chosen[:at] < member).sum(axis=0, dtype=np.int8)
        places += (member - lower).astype(np.intp) * perm(count - 1 - at, size - 1 - at)
    return places


def _cases(pattern: Pattern, plan: Plan, placed: int, frontier: tuple[int, ...]) -> _Cases:
    """Return the ways to place the next rank of a plan, ``placed`` of which are."""
    rank, members = plan.ranks[placed], placed + 1
    low = np.int8(plan.pinned and placed > 0)  # a pinned rank 0 is not free to stand elsewhere
    kept, dropped = _frontiers(pattern, plan, placed, frontier)
    stands = arrangements(members - int(low), len(kept) + len(dropped)) + low
    at = dict(zip((*kept, *dropped), stands, strict=True))
    here = at[rank].astype(np.intp)
    old = [at[it] - (at[it] > at[rank]) - low for it in frontier]
    before = _places(np.array(old, dtype=np.int8).reshape(-1, len(here)), placed - int(low))
    ends = [
        (weight, here * members + at.get(other, 0))
        for other, weight in _edges(pattern, rank, plan.ranks[:placed])
    ]

    def by_stand(values: NDArray[np.intp]) -> NDArray[np.intp]:
        # The kept ranks come first, so that the ways of one stand lie side by side.
        return np.ascontiguousarray(values.reshape(perm(members - int(low), len(kept)), -1).T)

    gains = tuple((weight, by_stand(pair)) for weight, pair in ends)
    return _Cases(kept, by_stand(here), by_stand(before), gains)


def _frontiers(
    pattern: Pattern, plan: Plan, placed: int, frontier: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the frontier once the next rank is placed, and the ranks that are no part of it."""
    moving, later = (*frontier, plan.ranks[placed]), plan.ranks[placed + 1 :]
    free = [rank for rank in moving if not (plan.pinned and rank == 0)]
    kept = tuple(rank for rank in free if _edges(pattern, rank, later))
    return kept, tuple(rank for rank in moving if rank not in kept)


def _next_layer(
    weights: NDArray[np.int64], sets: Subsets, layer: _Layer, cases: _Cases, shift: int
) -> _Layer:
    bits = np.uint32(1) << sets.members.astype(np.uint32)
    without = rows_by_mask(len(weights))[sets.masks[:, None] ^ bits].T
    digits = (sets.members.astype(np.uint64) << np.uint64(shift)).T
    links = weights[sets.members[:, :, None], sets.members[:, None, :]]
    links = links.reshape(len(links), -1).T
    ways, stands = cases.here.shape
    totals = np.empty((stands, len(sets.masks)), dtype=np.int64)
    codes = np.empty(totals.shape, dtype=np.uint64)
    row_step = max(1, _BLOCK // ways)
    for first_row in range(0, len(sets.masks), row_step):
        rows = slice(first_row, first_row + row_step)
        tables = [np.ascontiguousarray(table[:, rows]) for table in (without, digits, links)]
        stand_step = max(1, _BLOCK // (ways * tables[0].shape[1]))
        for first in range(0, stands, stand_step):
            block = slice(first, first + stand_step)
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
    """Return the best total, and the lowest code that has it, of a block of stands and rows."""
    here = cases.here[:, block]
    source = (
        without.take(here, axis=0) + (cases.before[:, block] * layer.totals.shape[1])[..., None]
    )
    totals = layer.totals.take(source)
    for weight, ends in cases.gains:
        gain = links.take(ends[:, block], axis=0)
        totals += gain if weight == 1 else gain * weight
    best = totals.max(axis=0)
    codes = layer.codes.take(source)
    codes += digits.take(here, axis=0)
    codes[totals != best] = _NO_CODE
    return best, codes.min(axis=0)


def _edges(pattern: Pattern, rank: int, others: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return (rank, weight) of the edges from a rank to some others."""
    ends = [((edge.a, edge.b), edge.weight) for edge in pattern.edges if rank in edge[:2]]
    joined = [(a if b == rank else b, weight) for (a, b), weight in ends]
    return [(other, weight) for other, weight in joined if other in others]


def _shift(rank: int, size: int) -> int:
    return _DIGIT_BITS * (size - 1 - rank)
