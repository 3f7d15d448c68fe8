"""The local search and its bound are those of plain searches that evaluate one set at a time."""

from collections.abc import Callable, Iterator
from itertools import combinations, permutations

import numpy as np
import pytest

from gputopo.patterns.bound import bounds
from gputopo.patterns.improve import improved_embeddings, traffic_matrix
from gputopo.patterns.model import Pattern, PatternEdge, custom, ring, ring_tree, star, tree
from support.builders.links import random_weights

COMMON = (12_000, 25_000, 50_000)
LARGE = (2**40 + 1, 2**40 + 3, 2**39 + 7)
"""The totals of these bandwidths need 64-bit floats."""


def uneven(size: int) -> Pattern:
    """Return a pattern whose ranks all differ."""
    return custom(size, [PatternEdge(a, b, 1 + a * b) for a, b in combinations(range(size), 2)])


def starts(traffic: list[list[int]]) -> Iterator[tuple[list[int], int]]:
    """Generate all starts in their order: the order of the ranks, and the first rank's member."""
    size = len(traffic)
    yield list(range(size)), 0
    for first in sorted(range(size), key=lambda rank: -sum(traffic[rank])):
        ranks = [first]
        while len(ranks) < size:
            joined = {
                rank: sum(traffic[rank][other] for other in ranks)
                for rank in range(size)
                if rank not in ranks
            }
            ranks.append(max(joined, key=lambda rank: (joined[rank], -rank)))
        yield from ((ranks, member) for member in range(size))


def plain_search(
    weights: list[list[int]], traffic: list[list[int]], members: tuple[int, ...]
) -> tuple[int, list[int]]:
    """Return the best total of all starts and its order, by loops over ranks and swaps."""
    size = len(members)
    pairs = list(combinations(range(size), 2))

    def total(order: list[int]) -> int:
        return sum(traffic[a][b] * weights[order[a]][order[b]] for a, b in pairs)

    def swapped(order: list[int], a: int, b: int) -> list[int]:
        new = list(order)
        new[a], new[b] = order[b], order[a]
        return new

    best: tuple[int, list[int]] = (-1, [])
    for ranks, first in starts(traffic):
        at = {ranks[0]: members[first]}
        for rank in ranks[1:]:
            free = [gpu for gpu in members if gpu not in at.values()]
            gains = [sum(traffic[rank][o] * weights[gpu][at[o]] for o in at) for gpu in free]
            at[rank] = free[gains.index(max(gains))]
        order = [at[rank] for rank in range(size)]
        while True:
            gains = [total(swapped(order, a, b)) - total(order) for a, b in pairs]
            if max(gains) <= 0:
                break
            order = swapped(order, *pairs[gains.index(max(gains))])
        if total(order) > best[0]:
            best = total(order), order
    return best


@pytest.mark.parametrize("rates", [COMMON, LARGE])
@pytest.mark.parametrize("kind", [ring, tree, ring_tree, star, uneven])
def test_local_search_finds_the_embeddings_of_a_plain_search(
    kind: Callable[[int], Pattern], rates: tuple[int, ...]
) -> None:
    pattern = kind(6)
    weights = random_weights(8, rates, seed=6)
    traffic = traffic_matrix(pattern).astype(np.int64).tolist()
    orders, totals = improved_embeddings(weights, pattern, bounds(weights, pattern))
    for row, members in enumerate(combinations(range(8), 6)):
        assert (totals[row], orders[row].tolist()) == plain_search(
            weights.tolist(), traffic, members
        )


@pytest.mark.parametrize("rates", [COMMON, LARGE])
@pytest.mark.parametrize("kind", [ring, tree, ring_tree, star, uneven])
def test_the_bound_is_that_of_the_best_assignment(
    kind: Callable[[int], Pattern], rates: tuple[int, ...]
) -> None:
    pattern = kind(5)
    weights = random_weights(7, rates, seed=7)
    traffic = traffic_matrix(pattern).astype(np.int64)
    found = bounds(weights, pattern)
    for row, members in enumerate(combinations(range(7), 5)):
        links = weights[np.ix_(members, members)]
        values = [
            [int((np.sort(rank) * np.sort(link)).sum()) for rank in traffic] for link in links
        ]
        assigned = (
            sum(values[gpu][rank] for gpu, rank in enumerate(order))
            for order in permutations(range(5))
        )
        assert found[row] == max(assigned) // 2
