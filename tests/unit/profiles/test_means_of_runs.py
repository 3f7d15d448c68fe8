"""Samples of one run count as one value."""

import pytest

from gputopo.profiles.runs import (
    MAX_RUNS,
    RUN_SCATTER,
    SAMPLE_SCATTER,
    across_runs,
    cells_of,
    level,
    newest_runs,
    run_means,
    without_outliers,
)
from support.builders.workload_runs import run_of, sample


def kept(values: list[float], *others: list[float]) -> list[float]:
    """Return the values of a cell that are no outliers, beside cells with other values."""
    runs = [values, *others]
    samples = [each for number, run in enumerate(runs) for each in run_of(f"run-{number}", run)]
    cell = cells_of((each, None) for each in samples)["run-0", None]
    return [round(each.log_time, 4) for each in cell]


def test_one_wild_sample_of_three_is_dropped() -> None:
    assert kept([0.0, 0.01, 1.0]) == [0.0, 0.01]


def test_wild_sample_of_two_stays_because_neither_can_be_blamed() -> None:
    assert kept([0.0, 1.0]) == [0.0, 1.0]


def test_samples_within_15_percent_are_no_outliers() -> None:
    assert kept([0.0, 0.0, 0.0, 0.14]) == [0.0, 0.0, 0.0, 0.14]


def test_samples_within_the_scatter_of_all_runs_are_no_outliers() -> None:
    noisy = [0.0, 0.2, -0.2, 0.3, -0.3]
    assert kept([0.0, 0.0, 0.5], noisy, noisy) == [0.0, 0.0, 0.5]


def test_majority_of_a_run_stays() -> None:
    assert kept([-1.0, -1.0, 1.0, 1.0]) == [-1.0, -1.0, 1.0, 1.0]


def test_single_samples_have_the_variance_that_they_report() -> None:
    means = run_means(cells_of([(sample(ci_permille=196), None)]))
    assert means["run-0", None].variance == pytest.approx(SAMPLE_SCATTER**2 + 0.1**2)


def test_repeated_samples_show_the_variance_even_if_they_report_less() -> None:
    samples = run_of("a", [-0.1, 0.1]) + run_of("b", [0.9, 1.1])
    means = run_means(cells_of((each, None) for each in samples))
    # Each run has squares 2 * 0.1^2 and one degree of freedom; a mean of two has half the variance.
    assert means["a", None].value == pytest.approx(0.0, abs=1e-6)
    assert means["b", None].value == pytest.approx(1.0, abs=1e-6)
    assert means["a", None].variance == pytest.approx(SAMPLE_SCATTER**2 + 0.02 / 2, rel=1e-3)


def test_many_samples_of_one_run_are_still_one_value() -> None:
    one = run_means(cells_of((each, None) for each in run_of("a", [0.0] * 50)))["a", None]
    assert across_runs(one).variance > RUN_SCATTER**2
    assert level([one]).freedom == 0


def test_wild_run_of_six_does_not_change_the_mean() -> None:
    samples = [sample(f"run-{number}", log_time=value) for number, value in enumerate([0.0] * 5)]
    means = run_means(cells_of((each, None) for each in [*samples, sample("x", log_time=1.0)]))
    assert level(means.values()).value == pytest.approx(0.0, abs=1e-6)


def test_few_runs_do_not_show_which_of_them_is_wild() -> None:
    assert without_outliers([0.0, 0.0, 0.0, 0.0, 9.0]) == [True] * 5


def test_no_run_is_dropped_if_more_than_a_quarter_is_wild() -> None:
    assert without_outliers([0.0] * 6 + [9.0] * 2) == [True] * 6 + [False] * 2
    assert without_outliers([0.0] * 5 + [9.0] * 2) == [True] * 7


def test_newest_runs_count() -> None:
    samples = [sample(f"run-{number}", number) for number in range(MAX_RUNS + 2)]
    late = sample("run-0", 100)
    assert newest_runs([*samples, late]) == [samples[0], *samples[3:], late]
