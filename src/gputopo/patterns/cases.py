"""All ways to place one more rank in the exact search of :mod:`gputopo.patterns.exact`."""

from dataclasses import dataclass
from math import perm

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.model import Pattern
from gputopo.patterns.plan import SearchPlan


@dataclass(frozen=True, slots=True, eq=False)
class Cases:
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


def cases_of(pattern: Pattern, plan: SearchPlan, placed: int, frontier: tuple[int, ...]) -> Cases:
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
    return Cases(kept, by_arrangement(member), by_arrangement(previous), edges)


def _frontiers(
    pattern: Pattern, plan: SearchPlan, placed: int, frontier: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the frontier after the next rank is placed, and the ranks that leave the frontier."""
    candidates, later = (*frontier, plan.ranks[placed]), plan.ranks[placed + 1 :]
    free = [rank for rank in candidates if not (plan.pinned and rank == 0)]
    kept = tuple(rank for rank in free if _edges(pattern, rank, later))
    return kept, tuple(rank for rank in candidates if rank not in kept)


def _edges(pattern: Pattern, rank: int, others: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return (other rank, weight) of the edges between a rank and ``others``."""
    ends = [((edge.a, edge.b), edge.weight) for edge in pattern.edges if rank in edge[:2]]
    joined = [(a if b == rank else b, weight) for (a, b), weight in ends]
    return [(other, weight) for other, weight in joined if other in others]
