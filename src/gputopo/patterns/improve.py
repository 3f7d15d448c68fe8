"""Patterns too entangled for an exact search: good embeddings, and how far off they may be.

From several greedy starts, ranks are swapped in pairs while that gains (a quadratic
assignment problem; T. C. Koopmans, M. J. Beckmann, 1957), for all sets at once. How many
starts depends on the pattern and the node, never on a clock: every machine finds the same.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.model import Pattern
from gputopo.patterns.subsets import subsets

_ROWS: Final = 2048
"""Sets worked on together, which bounds the memory."""

_WORK: Final = 48_000_000
"""Numbers looked at in one round of swaps, from all starts together: more sets, fewer starts.

At least 5 starts for every size on 16 GPUs, besides the plain one.
"""

_Numbers = NDArray[np.float64]
"""Whole numbers below 2^53, so that sums are exact in any order; matrix products are quick."""

_Start = tuple[list[int], int]


def improved_embeddings(
    weights: NDArray[np.int64], pattern: Pattern, bounds: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return an order of every set, and its total; never less than a greedy one's.

    Args:
        weights: [gpus, gpus] MB/s by position.
        pattern: not larger than the node.
        bounds: [rows] what no total exceeds; a set that has as much is done with.

    Returns:
        [rows, size] position of each rank; [rows] aggregate in MB/s.
    """
    traffic = traffic_matrix(pattern)
    members = subsets(len(weights), pattern.size).members
    starts = _starts(traffic, len(members))
    parts = [slice(first, first + _ROWS) for first in range(0, len(members), _ROWS)]
    found = [
        _improved(links_within(weights, members[part]), traffic, starts, bounds[part])
        for part in parts
    ]
    orders = np.concatenate([ranks for ranks, _ in found])
    totals = np.concatenate([total for _, total in found])
    return np.take_along_axis(members, orders, axis=1), totals.astype(np.int64)


def traffic_matrix(pattern: Pattern) -> _Numbers:
    """Return [size, size] the weight of the edges between two ranks."""
    traffic = np.zeros((pattern.size, pattern.size))
    for a, b, weight in pattern.edges:
        traffic[a, b] += weight
        traffic[b, a] += weight
    return traffic


def links_within(weights: NDArray[np.int64], members: NDArray[np.uint8]) -> _Numbers:
    """Return [rows, size, size] MB/s between the members of each set."""
    return weights[members[:, :, None], members[:, None, :]].astype(np.float64)


def _improved(
    links: _Numbers, traffic: _Numbers, starts: list[_Start], bounds: NDArray[np.int64]
) -> tuple[NDArray[np.intp], _Numbers]:
    best = np.zeros(links.shape[:2], dtype=np.intp)
    most = np.full(len(links), -1.0)
    for ranks, first in starts:
        rows = np.flatnonzero(most < bounds)
        orders = _greedy(links[rows], traffic, ranks, first)
        _swap(orders, links[rows], traffic)
        totals = (_laid(orders, links[rows]) * traffic).sum(axis=(1, 2)) / 2
        better = totals > most[rows]
        best[rows[better]], most[rows[better]] = orders[better], totals[better]
    return best, most


def _starts(traffic: _Numbers, rows: int) -> list[_Start]:
    """Return the ranks in the order in which they are dealt out, and the first one's member.

    First the ranks as they come; then from the busiest rank on, and from the others as far
    as the work allows, on each member in turn.
    """
    size = len(traffic)
    busiest = np.argsort(-traffic.sum(axis=0), kind="stable").tolist()
    plain = [(list(range(size)), 0)]
    led = [(_dealt(traffic, rank), member) for rank in busiest for member in range(size)]
    return plain + led[: _WORK // (rows * size**3)]


def _dealt(traffic: _Numbers, first: int) -> list[int]:
    """Return the ranks from ``first`` on so that each has the most traffic with those before."""
    ranks = [first]
    while len(ranks) < len(traffic):
        joined = traffic[ranks].sum(axis=0)
        joined[ranks] = -1
        ranks.append(int(joined.argmax()))
    return ranks


def _greedy(links: _Numbers, traffic: _Numbers, ranks: list[int], first: int) -> NDArray[np.intp]:
    """Return orders that give each of ``ranks`` in turn the member that is best for it now."""
    rows = np.arange(len(links))
    orders = np.full(links.shape[:2], first, dtype=np.intp)
    taken = np.zeros(links.shape[:2], dtype=bool)
    taken[:, first] = True
    for place, rank in enumerate(ranks[1:], start=1):
        gains = np.zeros(links.shape[:2])
        for other in ranks[:place]:
            if weight := traffic[rank, other]:
                gains += weight * links[rows, orders[:, other]]
        gains[taken] = -1
        orders[:, rank] = gains.argmax(axis=1)
        taken[rows, orders[:, rank]] = True
    return orders


def _swap(orders: NDArray[np.intp], links: _Numbers, traffic: _Numbers) -> None:
    """Swap the two ranks that gain most, in each row until none does; changes ``orders``.

    It ends, since every swap adds to a total that has a limit.
    """
    size = len(traffic)
    active = np.arange(len(orders))
    while len(active):
        laid = _laid(orders[active], links[active])
        # moved[r, a, b]: what rank b would have on the GPU of rank a, were all others to stay.
        # One small product for each set: a large one would occupy all cores, for less.
        moved = laid @ traffic
        own = np.diagonal(moved, axis1=1, axis2=2)
        gains = moved + moved.transpose(0, 2, 1) - own[:, :, None] - own[:, None, :]
        gains += 2 * traffic * laid
        pairs = gains.reshape(len(active), size * size)
        chosen = pairs.argmax(axis=1)
        gaining = pairs[np.arange(len(active)), chosen] > 0
        active, chosen = active[gaining], chosen[gaining]
        a, b = chosen // size, chosen % size
        orders[active, a], orders[active, b] = orders[active, b], orders[active, a]


def _laid(orders: NDArray[np.intp], links: _Numbers) -> _Numbers:
    """Return [rows, size, size] MB/s between the ranks."""
    rows, size = orders.shape
    ends = orders[:, :, None] * size + orders[:, None, :]
    pairs = (rows, size * size)
    return np.take_along_axis(links.reshape(pairs), ends.reshape(pairs), axis=1).reshape(
        links.shape
    )
