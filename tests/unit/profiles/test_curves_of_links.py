"""Times against the slowness of links."""

from math import exp, inf, log
from typing import Any

import pytest

from gputopo.profiles.linkcurve import (
    LINEAR,
    SHAPES,
    CurveMisfit,
    CurveShape,
    LinkCurve,
    best_curve,
    log_times,
    slowdown_interval,
)
from gputopo.profiles.slowness import sides, slowness_of
from support.builders.workload_runs import BEST_MB_PER_S, WORST_MB_PER_S, sample

LEVELS = (0.0, 0.25, 0.6, 1.0)


def misfit_of(times: list[float], variance: float = 1e-4) -> CurveMisfit:
    """Return the misfit of samples at LEVELS, if only a common factor of times is unknown.

    The products are those of W = (1 - 11' / n) / variance, which removes the mean.
    """
    columns = [times, *([float(place == level) for place in range(4)] for level in range(4))]
    centred = [[each - sum(column) / 4 for each in column] for column in columns]
    products = [
        [sum(a * b for a, b in zip(one, other, strict=True)) / variance for other in centred]
        for one in centred
    ]
    return CurveMisfit(LEVELS, products)


@pytest.mark.parametrize(("hidden", "seconds"), [(0.0, 0.115), (0.25, 0.10)])
def test_the_worked_example(hidden: float, seconds: float) -> None:
    (time,) = log_times([0.25], log(1.6), CurveShape(hidden))
    assert 0.1 * exp(time) == pytest.approx(seconds)


@pytest.mark.parametrize("slowdown", [0.0, 0.12, 0.6, 2.0, -0.2])
@pytest.mark.parametrize("hidden", [0.0, 0.5])
def test_curve_without_noise_is_found(slowdown: float, hidden: float) -> None:
    misfit = misfit_of(
        [0.3 + each for each in log_times(LEVELS, log(1 + slowdown), CurveShape(hidden))]
    )
    curve = best_curve(misfit)
    assert exp(curve.log_slowdown) - 1 == pytest.approx(slowdown, abs=1e-3)
    if slowdown:
        assert curve.shape == CurveShape(hidden)
    low, high = slowdown_interval(misfit, curve, 4)
    assert low < curve.log_slowdown < high


def test_misfit_is_the_sum_of_the_squared_residuals() -> None:
    times = [0.0, 0.0, 0.0, 0.08]
    # The mean is 0.02, so the squares are 3 * 0.02^2 + 0.06^2 = 0.0048.
    assert misfit_of(times).of(0.0, LINEAR) == pytest.approx(0.0048 / 1e-4)


def test_interval_ends_where_the_misfit_exceeds_the_limit() -> None:
    misfit = misfit_of(log_times(LEVELS, log(1.3), LINEAR))
    curve = best_curve(misfit)
    for end in slowdown_interval(misfit, curve, 4):
        best = min(misfit.of(end, shape) for shape in misfit.shapes)
        assert best == pytest.approx(misfit.of(*curve) + 4, abs=0.01)


def test_interval_without_ends_is_infinite() -> None:
    misfit = misfit_of([0.0] * 4, variance=100)
    assert slowdown_interval(misfit, LinkCurve(0.0, LINEAR), 4) == (-inf, inf)


def test_shapes_that_are_constant_over_all_samples_are_left_out() -> None:
    assert CurveMisfit((0.0, 0.4), []).shapes == list(SHAPES[:4])


def test_slowness_has_the_values_of_the_worked_example() -> None:
    reported: dict[str, Any] = {"best_mb_per_s": 50_000, "worst_mb_per_s": 10_000}
    samples = [sample(effective_mb_per_s=mb, **reported) for mb in (50_000, 25_000, 10_000, None)]
    assert slowness_of(samples) == pytest.approx([0.0, 0.25, 1.0, 0.0])


def test_links_with_samples_count_if_nodes_report_no_others() -> None:
    unknown: dict[str, Any] = {"best_mb_per_s": None, "worst_mb_per_s": 0}
    samples = [sample(effective_mb_per_s=mb, **unknown) for mb in (40_000, 20_000)]
    assert slowness_of(samples) == [0.0, 1.0]
    assert slowness_of(samples[:1]) == [0.0]
    assert slowness_of([sample(effective_mb_per_s=None, **unknown)]) == [0.0]


def test_middle_of_the_slowness_divides_fast_and_slow_links() -> None:
    fast, middle, slow = (
        sample(effective_mb_per_s=mb) for mb in (BEST_MB_PER_S, 20_000, WORST_MB_PER_S)
    )
    assert sides([slow, fast, middle]) == ([fast, middle], [slow])
    assert sides([fast, fast]) == ([fast, fast], [])
    assert sides([]) == ([], [])


def test_the_slowdown_is_uncertain_without_samples_on_the_worst_links() -> None:
    # As measured on a simulated DGX-1: 35 GB/s were predicted, the links had 25 GB/s, and the
    # slowdown of 60 % on the worst links (8 GB/s) was 11 % there.
    slowness = (0.005, 0.114)
    times = [0.0, log(1.11)]
    columns = [times, [1.0, 0.0], [0.0, 1.0]]
    centred = [[each - sum(column) / 2 for each in column] for column in columns]
    products = [
        [1e6 * sum(a * b for a, b in zip(one, other, strict=True)) for other in centred]
        for one in centred
    ]
    misfit = CurveMisfit(slowness, products)
    low, high = slowdown_interval(misfit, best_curve(misfit), 4)
    assert low < log(1.6) < high
    assert low > log(1.3)
