"""Local search for good embeddings of patterns that are too dense for the exact search.

A greedy search finds several start embeddings. From each start, the local search swaps two ranks as
long as a swap increases the total. It does this for all GPU sets at once. The problem is a
quadratic assignment problem (T. C. Koopmans, M. J. Beckmann, 1957). The number of starts depends
only on the pattern and the node and not on time, so every machine finds the same embeddings.
"""

from typing import Final

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

_Numbers = NDArray[np.float64]
"""Whole numbers below 2^53 as floats: their sums are exact, and matrix products are fast."""

_Start = tuple[list[int], int]


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
    """Return [size, size]: the total weight of the edges between two ranks."""
    traffic = np.zeros((pattern.size, pattern.size))
    for a, b, weight in pattern.edges:
        traffic[a, b] += weight
        traffic[b, a] += weight
    return traffic


def links_within(weights: NDArray[np.int64], members: NDArray[np.uint8]) -> _Numbers:
    """Return [rows, size, size]: the bandwidth between the members of each set, in MB/s."""
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
        totals = (_links_by_rank(orders, links[rows]) * traffic).sum(axis=(1, 2)) / 2
        better = totals > most[rows]
        best[rows[better]], most[rows[better]] = orders[better], totals[better]
    return best, most


def _starts(traffic: _Numbers, rows: int) -> list[_Start]:
    """Return starts of the greedy search: an order of ranks, and the GPU of the first rank.

    The first start has the ranks in ascending order. Each other start begins with one rank on one
    GPU. The starts of the rank with the most traffic come first, one for each GPU. :data:`_WORK`
    limits the number of starts.
    """
    size = len(traffic)
    busiest = np.argsort(-traffic.sum(axis=0), kind="stable").tolist()
    ascending = [(list(range(size)), 0)]
    others = [(_by_traffic(traffic, rank), member) for rank in busiest for member in range(size)]
    return ascending + others[: _WORK // (rows * size**3)]


def _by_traffic(traffic: _Numbers, first: int) -> list[int]:
    """Order ranks: ``first``, then always the rank that exchanges most data with earlier ranks."""
    ranks = [first]
    while len(ranks) < len(traffic):
        joined = traffic[ranks].sum(axis=0)
        joined[ranks] = -1
        ranks.append(int(joined.argmax()))
    return ranks


def _greedy(links: _Numbers, traffic: _Numbers, ranks: list[int], first: int) -> NDArray[np.intp]:
    """Place ``ranks`` one after another, each on the free GPU that adds the most bandwidth."""
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
    """Swap ranks in each row of ``orders``, in place, until no swap increases the total.

    Each step makes the swap with the largest gain. The loop ends, because the total only rises.
    """
    size = len(traffic)
    active = np.arange(len(orders))
    while len(active):
        by_rank = _links_by_rank(orders[active], links[active])
        # moved[r, a, b]: total of rank b on the GPU of rank a, if no other rank moves.
        # One small matrix product for each set: a single large product would use all cores.
        moved = by_rank @ traffic
        own = np.diagonal(moved, axis1=1, axis2=2)
        gains = moved + moved.transpose(0, 2, 1) - own[:, :, None] - own[:, None, :]
        gains += 2 * traffic * by_rank
        pairs = gains.reshape(len(active), size * size)
        chosen = pairs.argmax(axis=1)
        gaining = pairs[np.arange(len(active)), chosen] > 0
        active, chosen = active[gaining], chosen[gaining]
        a, b = chosen // size, chosen % size
        orders[active, a], orders[active, b] = orders[active, b], orders[active, a]


def _links_by_rank(orders: NDArray[np.intp], links: _Numbers) -> _Numbers:
    """Return [rows, size, size]: the bandwidth between the ranks of each order, in MB/s."""
    rows, size = orders.shape
    ends = orders[:, :, None] * size + orders[:, None, :]
    pairs = (rows, size * size)
    return np.take_along_axis(links.reshape(pairs), ends.reshape(pairs), axis=1).reshape(
        links.shape
    )
