"""In which order the ranks of a pattern are placed, and what that costs."""

from math import comb, factorial

import pytest

from gputopo.patterns.model import PatternEdge, all_to_all, chain, custom, ring, star, tree
from gputopo.patterns.plan import plan


def test_every_rank_is_placed_once() -> None:
    for pattern in (ring(7), tree(7), star(7), all_to_all(7)):
        assert sorted(plan(pattern, 8).ranks) == list(range(7))


def test_a_ring_starts_at_rank_0_on_the_lowest_gpu() -> None:
    assert plan(ring(6), 8).pinned
    assert plan(ring(6), 8).ranks[0] == 0
    assert not plan(chain(6), 8).pinned


def test_the_hub_of_a_star_is_placed_before_most_leaves() -> None:
    hub_last = custom(6, [PatternEdge(leaf, 5) for leaf in range(5)])
    assert 5 in plan(hub_last, 16).ranks[:3]


def test_where_every_rank_stays_open_all_orders_of_all_sets_are_cases() -> None:
    assert plan(all_to_all(5), 8).steps == sum(comb(8, k) * factorial(k) for k in range(1, 6))


@pytest.mark.parametrize("size", range(3, 17))
def test_of_a_chain_only_the_last_rank_stays_open(size: int) -> None:
    cases = sum(comb(16, k) * k * (k - 1) for k in range(2, size + 1))
    assert plan(chain(size), 16).steps == 16 + cases


@pytest.mark.parametrize("size", range(2, 17))
def test_trees_of_up_to_16_stay_cheap(size: int) -> None:
    assert plan(tree(size), 16).steps < 13_000_000
