"""Costs become terms from 0.01 to 1, and terms become one utility."""

import math

import pytest

from gputopo.utility.cost import FLOOR, Cost, UtilityError
from gputopo.utility.utility import (
    PlacementCosts,
    UtilityWeights,
    job_utility,
    placement_utility,
    utility,
)

IDEAL = Cost(1.0, best=1.0, worst=3.0)
MIDDLE = Cost(2.0, best=1.0, worst=3.0)
WORST = Cost(3.0, best=1.0, worst=3.0)


@pytest.mark.parametrize(
    ("cost", "term"),
    [
        (IDEAL, 1.0),
        (MIDDLE, 0.505),
        (WORST, FLOOR),
        (Cost(9.0, best=1.0, worst=3.0), FLOOR),
        (Cost(0.5, best=1.0, worst=3.0), 1.0),
        (Cost(0.0, best=0.0, worst=0.0), 1.0),
        (Cost(7.0, best=2.0, worst=2.0), 1.0),
    ],
)
def test_term_falls_in_a_straight_line_from_the_best_case_to_the_worst(
    cost: Cost, term: float
) -> None:
    assert cost.term == pytest.approx(term)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((-1.0, 0.0, 1.0), r"cost\.value: -1\.0; must be a finite number of at least 0"),
        ((1.0, -2.0, 1.0), r"cost\.best: -2\.0; must be"),
        ((1.0, 0.0, math.inf), r"cost\.worst: inf; must be"),
        ((math.nan, 0.0, 1.0), r"cost\.value: nan; must be"),
        ((1.0, 2.0, 1.0), r"cost\.worst: 1\.0 is below the best case 2\.0"),
    ],
)
def test_impossible_cost_is_rejected(values: tuple[float, float, float], message: str) -> None:
    with pytest.raises(UtilityError, match=message):
        Cost(*values)


def test_utility_is_the_weighted_sum_of_three_terms() -> None:
    costs = PlacementCosts(IDEAL, MIDDLE, WORST, WORST)
    weights = UtilityWeights(0.5, 0.3, 0.2)
    assert utility(costs, weights) == pytest.approx(0.5 * 1 + 0.3 * 0.505 + 0.2 * 0.01)


def test_utility_for_the_job_has_what_the_job_suffers_and_no_fragmentation() -> None:
    costs = PlacementCosts(IDEAL, WORST, MIDDLE, WORST)
    weights = UtilityWeights(0.5, 0.3, 0.2)
    assert job_utility(costs, weights) == pytest.approx((0.5 * 1 + 0.3 * 0.505) / 0.8)


def test_weights_are_a_third_each_by_default() -> None:
    costs = PlacementCosts(IDEAL, MIDDLE, WORST, WORST)
    assert utility(costs) == pytest.approx((1 + 0.505 + 0.01) / 3)
    assert job_utility(costs) == pytest.approx((1 + 0.01) / 2)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((-0.1, 0.6, 0.5), r"weights\.communication: -0\.1 is not in 0\.\.1"),
        ((0.5, 1.5, 0.0), r"weights\.interference: 1\.5 is not in 0\.\.1"),
        ((0.5, 0.2, math.nan), r"weights\.fragmentation: nan is not in 0\.\.1"),
        ((0.5, 0.2, 0.2), r"weights: their sum is 0\.9; must be 1"),
        ((0.0, 0.0, 1.0), r"weights\.fragmentation: 1 leaves no weight"),
    ],
)
def test_impossible_weights_are_rejected(weights: tuple[float, float, float], message: str) -> None:
    with pytest.raises(UtilityError, match=message):
        UtilityWeights(*weights)


def test_fragmentation_may_have_no_weight() -> None:
    assert UtilityWeights(0.0, 1.0, 0.0).interference == 1


def test_weights_in_percent_are_parsed_and_formatted() -> None:
    weights = UtilityWeights.parse("50,40,10")
    assert weights == UtilityWeights(0.5, 0.4, 0.1)
    assert (weights.percents, weights.text) == ((50, 40, 10), "50,40,10")


@pytest.mark.parametrize("first", range(101))
def test_every_whole_percent_is_kept(first: int) -> None:
    assert UtilityWeights.of_percents(first, 100 - first, 0).percents == (first, 100 - first, 0)


@pytest.mark.parametrize("text", ["", "50,50", "50,40,10,0", "50, 40, 10", "a,b,c", "0.5,0.4,0.1"])
def test_weights_in_another_form_are_rejected(text: str) -> None:
    with pytest.raises(UtilityError, match="is not written as 34,33,33"):
        UtilityWeights.parse(text)


def test_weights_with_another_sum_are_rejected() -> None:
    with pytest.raises(UtilityError, match=r"weights: their sum is 0\.9; must be 1"):
        UtilityWeights.parse("50,40,0")


def test_utility_of_a_placement_is_in_billionths() -> None:
    costs = PlacementCosts(IDEAL, WORST, WORST, WORST)
    found = placement_utility(costs, UtilityWeights(0.3, 0.3, 0.4))
    assert found.job_value == 505_000_000
