"""Means, differences and intervals of logarithms."""

import math

import pytest

from gputopo.profiles.estimate import (
    MAX_HALF_WIDTH,
    Estimate,
    combined,
    difference,
    student_t,
    total,
)
from gputopo.profiles.percent import Slowdown, to_slowdown
from gputopo.profiles.rates import Rate, to_rate

# 97.5 % quantiles, from numerical integration of the density.
QUANTILES = {2: 4.3027, 2.5: 3.5747, 3: 3.1824, 4: 2.7764, 5: 2.5706, 8: 2.3060, 30: 2.0423}
BELOW_TWO = {1: 12.7062, 1.1: 10.2768, 1.25: 8.0280, 1.5: 6.0167, 1.75: 4.9488}


@pytest.mark.parametrize(("freedom", "quantile"), QUANTILES.items())
def test_quantile_of_students_distribution_is_exact_to_a_thousandth(
    freedom: float, quantile: float
) -> None:
    assert student_t(freedom) == pytest.approx(quantile, rel=1e-3)


@pytest.mark.parametrize(("freedom", "quantile"), BELOW_TWO.items())
def test_quantile_below_two_degrees_is_never_too_small(freedom: float, quantile: float) -> None:
    assert quantile * (1 - 1e-6) <= student_t(freedom) <= 1.03 * quantile


def test_quantile_is_continuous_where_the_formula_changes() -> None:
    assert student_t(2 - 1e-9) == pytest.approx(student_t(2 + 1e-9), rel=1e-4)


def test_mean_is_weighted_by_the_inverse_variances() -> None:
    found = combined([Estimate(1.0, 0.1), Estimate(4.0, 0.2)])
    assert found.value == pytest.approx(2.0)
    assert found.variance == pytest.approx(1 / 15)
    assert found.squares == pytest.approx(1 / 0.1 + 4 / 0.2)
    assert found.freedom == 1


def test_mean_keeps_the_scatter_of_its_parts() -> None:
    found = combined([Estimate(1.0, 1.0, 3.0, 2), Estimate(1.0, 1.0, 4.0, 3)])
    assert (found.squares, found.freedom) == (7.0, 6)


def test_mean_of_nothing_is_rejected() -> None:
    with pytest.raises(ValueError, match="estimates: the list is empty"):
        combined([])


def test_variances_add_in_sum_and_difference() -> None:
    one, other = Estimate(5.0, 1.0, 2.0, 3), Estimate(3.0, 4.0, 5.0, 6)
    assert total(one, other) == Estimate(8.0, 5.0, 7.0, 9)
    assert difference(one, other) == Estimate(2.0, 5.0, 7.0, 9)


def test_interval_is_that_of_students_distribution_if_the_scatter_is_as_assumed() -> None:
    found = Estimate(1.0, 0.04, 7.0, 7)
    assert found.half_width == pytest.approx(2.306 * 0.2, rel=1e-3)
    assert found.interval == (1.0 - found.half_width, 1.0 + found.half_width)


def test_large_scatter_outweighs_the_assumption() -> None:
    assert Estimate(0.0, 1e-4, 400.0, 4).half_width == pytest.approx(0.2776, rel=0.02)


def test_accidental_agreement_of_two_values_gives_no_narrow_interval() -> None:
    agreeing = Estimate(0.0, 1.0, 0.0, 1)
    assert agreeing.half_width == pytest.approx(4.303 * math.sqrt(0.5), rel=1e-3)


def test_half_width_is_limited() -> None:
    assert Estimate(0.0, 1e6).half_width == MAX_HALF_WIDTH


def test_slowdown_is_rounded_and_its_interval_is_rounded_outwards() -> None:
    half = math.log(1.2)
    estimate = Estimate(math.log(1.254), (half / student_t(1)) ** 2)
    assert to_slowdown(estimate) == Slowdown(25, 4, 51)


def test_slowdown_stays_within_the_limits_of_the_api() -> None:
    assert to_slowdown(Estimate(0.0, 1e6)) == Slowdown(0, -100, 100_000)


def test_rate_has_the_larger_half_of_its_interval() -> None:
    half = math.log(1.1)
    rate = to_rate(Estimate(math.log(0.5), (half / student_t(1)) ** 2))
    assert rate.micro_steps_per_second == 2_000_000
    assert rate.ci_permille in {100, 101}


def test_rate_fits_into_64_bits() -> None:
    assert to_rate(Estimate(-1000.0, 1.0)).micro_steps_per_second == pytest.approx(10**18)
    assert to_rate(Estimate(1000.0, 1.0)) == Rate(0, to_rate(Estimate(0.0, 1.0)).ci_permille)
