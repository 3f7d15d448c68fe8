"""Local search for good embeddings of patterns that are too dense for the exact search.

A greedy search finds several start embeddings. From each start, the local search swaps two ranks as
long as a swap increases the total. It does this for all GPU sets at once. The problem is a
quadratic assignment problem (T. C. Koopmans, M. J. Beckmann, 1957). The number of starts depends
only on the pattern and the node and not on time, so every machine finds the same embeddings.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.model import Pattern
from gputopo.patterns.subsets import subsets

_ROWS: Final = 2048
"""How many sets are searched at once; this limits the memory."""

_WORK: Final = 48_000_000
"""Limit of how many numbers one round of swaps computes, over all starts and sets.

On 16 GPUs it allows at least 5 starts for every size, besides the start in rank order.
"""

_Numbers = NDArray[np.floating[Any]]
"""Whole numbers as floats: their sums are exact, and matrix products are fast.

Below 2^53, 64 bits represent all whole numbers; below 2^24, 32 bits do, and need half the time.
"""

_EXACT_IN_32_BITS: Final = 2**24

_Start = tuple[list[int], list[int]]


def improved_embeddings(
    weights: NDArray[np.int64], pattern: Pattern, bounds: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return a good embedding of the pattern into every GPU set, and its aggregate bandwidth.

    Args:
        weights: [gpus, gpus] link bandwidths in MB/s, by GPU position.
        pattern: a pattern that is not larger than the node.
        bounds: [rows] upper bound of the bandwidth. The search in a GPU set ends at this bound.

    Returns:
        [rows, size] GPU position of each rank; [rows] aggregate bandwidth in MB/s.
    """
    unit = int(np.gcd.reduce(weights, axis=None))
    kind = _number_type(int(weights.max()) // unit * sum(edge.weight for edge in pattern.edges))
    traffic = traffic_matrix(pattern)
    members = subsets(len(weights), pattern.size).members
    starts = _starts(traffic, len(members))
    found = []
    for first in range(0, len(members), _ROWS):
        part = slice(first, first + _ROWS)
        links = links_within(weights // unit, members[part]).astype(kind)
        found.append(_improved(links, traffic.astype(kind), starts, bounds[part] / unit))
    orders = np.concatenate([ranks for ranks, _ in found])
    totals = np.concatenate([total for _, total in found]).astype(np.int64) * unit
    return np.take_along_axis(members, orders, axis=1), totals


def _number_type(most: int) -> type[np.floating[Any]]:
    """Return the type that represents all numbers of the search exactly.

    ``most`` is the largest total. The gain of a swap is a sum of six numbers up to twice as large.
    """
    return np.float32 if 12 * most < _EXACT_IN_32_BITS else np.float64


def traffic_matrix(pattern: Pattern) -> NDArray[np.float64]:
    """Return [size, size]: the total weight of the edges between two ranks."""
    traffic = np.zeros((pattern.size, pattern.size))
    for a, b, weight in pattern.edges:
        traffic[a, b] += weight
        traffic[b, a] += weight
    return traffic


def links_within(weights: NDArray[np.int64], members: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return [rows, size, size]: the bandwidth between the members of each set, in MB/s."""
    return weights[members[:, :, None], members[:, None, :]].astype(np.float64)


def _improved(
    links: _Numbers, traffic: _Numbers, starts: list[_Start], bounds: NDArray[np.float64]
) -> tuple[NDArray[np.intp], _Numbers]:
    """Return [rows, size], [rows]: the first best order of all starts, and its total."""
    best = np.zeros(links.shape[:2], dtype=np.intp)
    most = np.full(len(links), -1, dtype=links.dtype)
    for ranks, firsts in starts:
        rows = np.flatnonzero(most < bounds)
        at_once = max(1, _ROWS // max(1, len(rows)))
        for number in range(0, len(firsts), at_once):
            some = firsts[number : number + at_once]
            own = links[np.tile(rows, len(some))]
            orders = _greedy(own, traffic, ranks, np.repeat(some, len(rows)))
            totals = _swap(orders, own, traffic).reshape(len(some), -1)
            start = totals.argmax(axis=0)
            found = totals.max(axis=0)
            better = found > most[rows]
            best[rows[better]] = orders[(start * len(rows) + np.arange(len(rows)))[better]]
            most[rows[better]] = found[better]
    return best, most


def _starts(traffic: NDArray[np.float64], rows: int) -> list[_Start]:
    """Return starts of the greedy search: an order of ranks, and GPUs of the first rank.

    The first start has the ranks in ascending order. Each other start begins with one rank on one
    GPU. The starts of the rank with the most traffic come first, one for each GPU. :data:`_WORK`
    limits the number of starts.
    """
    size = len(traffic)
    starts: list[_Start] = [(list(range(size)), [0])]
    remaining = _WORK // (rows * size**3)
    for rank in np.argsort(-traffic.sum(axis=0), kind="stable").tolist():
        if remaining > 0:
            starts.append((_by_traffic(traffic, rank), list(range(min(size, remaining)))))
            remaining -= size
    return starts


def _by_traffic(traffic: NDArray[np.float64], first: int) -> list[int]:
    """Order ranks: ``first``, then always the rank that exchanges most data with earlier ranks."""
    ranks = [first]
    while len(ranks) < len(traffic):
        joined = traffic[ranks].sum(axis=0)
        joined[ranks] = -1
        ranks.append(int(joined.argmax()))
    return ranks


def _greedy(
    links: _Numbers, traffic: _Numbers, ranks: list[int], first: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Place ``ranks`` one after another, each on the free GPU that adds the most bandwidth.

    ``first`` is [rows]: the GPU of the first rank.
    """
    rows = np.arange(len(links))
    orders = np.empty(links.shape[:2], dtype=np.intp)
    taken = np.zeros(links.shape[:2], dtype=bool)
    orders[:, ranks[0]], taken[rows, first] = first, True
    for place, rank in enumerate(ranks[1:], start=1):
        gains = np.zeros(links.shape[:2], dtype=links.dtype)
        for other in ranks[:place]:
            if weight := traffic[rank, other]:
                gains += weight * links[rows, orders[:, other]]
        np.copyto(gains, -1, where=taken)
        orders[:, rank] = chosen = gains.argmax(axis=1)
        taken[rows, chosen] = True
    return orders


def _swap(orders: NDArray[np.intp], links: _Numbers, traffic: _Numbers) -> _Numbers:
    """Swap ranks in each row of ``orders``, in place, until no swap increases the total.

    Each step makes the swap with the largest gain. The loop ends, because the total only rises.

    Returns:
        [rows] total of each order.
    """
    size = len(traffic)
    active = np.arange(len(orders))
    by_rank = _links_by_rank(orders, links)
    totals: _Numbers = (by_rank * traffic).sum(axis=(1, 2)) / 2
    while len(active):
        # moved[r, a, b]: total of rank b on the GPU of rank a, if no other rank moves.
        # One small matrix product for each set: a single large product would use all cores.
        moved = by_rank @ traffic
        own = np.diagonal(moved, axis1=1, axis2=2).copy()
        gains = by_rank * (2 * traffic)
        gains += moved
        gains += moved.transpose(0, 2, 1)
        gains -= own[:, :, None]
        gains -= own[:, None, :]
        pairs = gains.reshape(len(active), size * size)
        chosen = pairs.argmax(axis=1)
        gain = pairs[np.arange(len(active)), chosen]
        gaining = gain > 0
        active, chosen, by_rank = active[gaining], chosen[gaining], by_rank[gaining]
        totals[active] += gain[gaining]
        a, b = chosen // size, chosen % size
        orders[active, a], orders[active, b] = orders[active, b], orders[active, a]
        rows = np.arange(len(active))
        by_rank[rows, a], by_rank[rows, b] = by_rank[rows, b], by_rank[rows, a]
        by_rank[rows, :, a], by_rank[rows, :, b] = by_rank[rows, :, b], by_rank[rows, :, a]
    return totals


def _links_by_rank(orders: NDArray[np.intp], links: _Numbers) -> _Numbers:
    """Return [rows, size, size]: the bandwidth between the ranks of each order, in MB/s."""
    rows, size = orders.shape
    first = np.arange(0, rows * size * size, size * size)[:, None, None]
    by_rank: _Numbers = links.take(first + orders[:, :, None] * size + orders[:, None, :])
    return by_rank
