"""The exact search with keys finds the same embeddings as with separate totals and codes."""

from collections.abc import Callable
from itertools import combinations, permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from gputopo.catalogue import named
from gputopo.patterns import exact
from gputopo.patterns.bound import bounds
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.exact import best_embeddings, completed
from gputopo.patterns.graph import link_weights
from gputopo.patterns.improve import improved_embeddings
from gputopo.patterns.model import (
    Pattern,
    PatternEdge,
    PatternKind,
    build,
    chain,
    custom,
    ring,
    ring_tree,
    tree,
)
from gputopo.patterns.plan import search_plan
from gputopo.patterns.subsets import subsets
from support.builders.links import random_weights

COMMON = (12_000, 25_000, 50_000)
HUGE = (2**46 + 1, 2**46 + 3, 2**45 + 7)
"""With these bandwidths, few ranks of 9 fit into a key."""

_Orders = tuple[NDArray[np.uint8], NDArray[np.int64]]


def uneven(size: int) -> Pattern:
    """Return a ring with different weights."""
    return custom(size, [PatternEdge(rank, (rank + 1) % size, 1 + rank) for rank in range(size)])


def searched(weights: NDArray[np.int64], pattern: Pattern) -> _Orders:
    return best_embeddings(weights, pattern, search_plan(pattern, len(weights)))


def require_equal(one: _Orders, other: _Orders) -> None:
    assert one[0].dtype == other[0].dtype
    assert np.array_equal(one[0], other[0])
    assert np.array_equal(one[1], other[1])


@pytest.mark.parametrize("rates", [COMMON, HUGE])
@pytest.mark.parametrize("kind", [ring, tree, ring_tree, chain, uneven])
@pytest.mark.parametrize(("gpus", "size"), [(9, 4), (9, 7), (9, 9), (12, 10)])
def test_keys_give_the_embeddings_of_totals_and_codes(
    monkeypatch: pytest.MonkeyPatch,
    gpus: int,
    size: int,
    kind: Callable[[int], Pattern],
    rates: tuple[int, ...],
) -> None:
    pattern = kind(size)
    if search_plan(pattern, gpus).steps > 3_000_000:
        pattern = chain(size)
    weights = random_weights(gpus, rates, seed=size)
    found = searched(weights, pattern)
    monkeypatch.setattr(exact, "_MAX_COMPLETIONS", 0)
    require_equal(found, searched(weights, pattern))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [ring, tree, ring_tree, uneven])
def test_keys_give_the_lowest_best_order(kind: Callable[[int], Pattern], seed: int) -> None:
    pattern = kind(5)
    weights = random_weights(7, COMMON, seed)
    orders, totals = searched(weights, pattern)
    for row, members in enumerate(combinations(range(7), 5)):
        by_order = {
            order: sum(weight * weights[order[a], order[b]] for a, b, weight in pattern.edges)
            for order in permutations(members)
        }
        assert totals[row] == max(by_order.values())
        lowest = min(order for order, total in by_order.items() if total == totals[row])
        assert tuple(orders[row].tolist()) == lowest


@pytest.mark.parametrize("kind", [ring, tree, chain, uneven])
def test_orders_of_16_gpus_are_permutations_with_the_total(kind: Callable[[int], Pattern]) -> None:
    pattern = kind(16)
    weights = link_weights(named("torus-2d-16"))
    orders, totals = searched(weights, pattern)
    (order,) = orders.tolist()
    assert sorted(order) == list(range(16))
    assert totals[0] == sum(weight * weights[order[a], order[b]] for a, b, weight in pattern.edges)


def test_last_ranks_get_the_lowest_of_the_best_orders() -> None:
    weights = random_weights(8, COMMON, seed=5)
    pattern = ring(6)
    members = subsets(8, 6).members
    orders, _ = searched(weights, pattern)
    for placed in (2, 3, 5):
        assert np.array_equal(completed(weights, pattern, members, orders[:, :placed]), orders)


@pytest.mark.parametrize("kind", [kind for kind in PatternKind if kind is not PatternKind.CUSTOM])
@pytest.mark.parametrize("size", [4, 8])
def test_equal_links_need_no_search(kind: PatternKind, size: int) -> None:
    topology = named("dgx-a100")
    pattern = build(kind, size)
    table, weights = embeddings(topology, pattern), link_weights(topology)
    limits = bounds(weights, pattern)
    require_equal(
        (table.orders, table.aggregate_mb_per_s), improved_embeddings(weights, pattern, limits)
    )
    assert np.array_equal(table.bound_mb_per_s, limits)
    if kind is not PatternKind.ALL_TO_ALL:
        require_equal((table.orders, table.aggregate_mb_per_s), searched(weights, pattern))
