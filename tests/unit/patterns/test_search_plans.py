"""Order and cost of the exact search."""

from math import comb, factorial

import pytest

from gputopo.patterns.model import PatternEdge, all_to_all, chain, custom, ring, star, tree
from gputopo.patterns.plan import SearchPlan, search_plan


def test_every_rank_is_placed_once() -> None:
    for pattern in (ring(7), tree(7), star(7), all_to_all(7)):
        assert sorted(search_plan(pattern, 8).ranks) == list(range(7))


def test_a_ring_of_4_on_4_gpus_has_24_cases() -> None:
    # The example in the docstring of the module.
    assert search_plan(ring(4), 4) == SearchPlan((0, 1, 2, 3), pinned=True, steps=4 + 6 + 8 + 6)


def test_a_ring_starts_at_rank_0_on_the_lowest_gpu() -> None:
    assert search_plan(ring(6), 8).pinned
    assert search_plan(ring(6), 8).ranks[0] == 0
    assert not search_plan(chain(6), 8).pinned


def test_the_hub_of_a_star_is_placed_before_most_leaves() -> None:
    hub_last = custom(6, [PatternEdge(leaf, 5) for leaf in range(5)])
    assert 5 in search_plan(hub_last, 16).ranks[:3]


def test_a_pattern_of_all_pairs_has_all_orders_of_all_sets_as_cases() -> None:
    assert search_plan(all_to_all(5), 8).steps == sum(
        comb(8, k) * factorial(k) for k in range(1, 6)
    )


@pytest.mark.parametrize("size", range(3, 17))
def test_the_frontier_of_a_chain_is_its_last_rank(size: int) -> None:
    cases = sum(comb(16, k) * k * (k - 1) for k in range(2, size + 1))
    assert search_plan(chain(size), 16).steps == 16 + cases


@pytest.mark.parametrize("size", range(2, 17))
def test_trees_of_up_to_16_are_cheap(size: int) -> None:
    assert search_plan(tree(size), 16).steps < 13_000_000
