"""Outliers, drift and the confidence interval of a sequence of blocks."""

import random

import pytest

from gputopo.throughput.blocks import Block, batches, without_outliers
from gputopo.throughput.interval import (
    MIN_BLOCKS,
    drifts,
    rate_interval,
    steady_interval,
    student_quantile,
)


def sequence(*seconds: float, steps: int = 30) -> list[Block]:
    """Return consecutive blocks of equal steps."""
    return [Block(0, 3.0 * n, 3.0 * n + 3, steps, each) for n, each in enumerate(seconds)]


NOISE = (3.0, 3.1, 2.9, 3.05, 2.95, 3.1, 2.9, 3.0, 3.02, 2.98)


def test_pause_and_jump_of_steps_are_outliers() -> None:
    normal = sequence(*NOISE)
    pause, jump = Block(0, 0, 3, 30, 6.0), Block(0, 0, 3, 10**9, 3.0)
    assert without_outliers([*normal[:3], pause, *normal[3:], jump]) == normal


def test_without_noise_a_difference_of_2_percent_is_no_outlier() -> None:
    blocks = sequence(*[3.0] * 9, 3.05)
    assert without_outliers(blocks) == blocks


def test_difference_of_one_step_is_no_outlier() -> None:
    polled = [Block(0, 0, 0, 1, 5.0)] * 9 + [Block(0, 0, 0, 2, 5.0)]
    assert without_outliers(polled) == polled


def test_polled_counts_of_a_regular_loop_have_no_outliers() -> None:
    for seed in range(50):
        rng, time, polled = random.Random(seed), 0.0, []  # noqa: S311 - repeatable
        for _ in range(20):
            waited = 5.0 + rng.gauss(0, 0.005)
            steps = int(2.48 * (time + waited)) - int(2.48 * time)
            polled.append(Block(0, 0, 0, steps, waited))
            time += waited
        assert without_outliers(polled) == polled


def test_a_sequence_with_pauses_in_more_than_a_quarter_has_no_usual_blocks() -> None:
    assert without_outliers(sequence(*[3.0] * 9, *[6.0] * 3)) is not None
    assert without_outliers(sequence(*[3.0] * 9, *[6.0] * 4)) is None


@pytest.mark.parametrize(
    ("blocks", "sizes"), [(10, [1] * 10), (20, [1] * 20), (50, [3] * 16 + [2])]
)
def test_blocks_are_merged_into_at_most_20_batches(blocks: int, sizes: list[int]) -> None:
    assert batches(sequence(*[3.0] * blocks, steps=1)) == [(size, 3.0 * size) for size in sizes]


def test_interval_is_that_of_the_worked_example() -> None:
    found = rate_interval(sequence(1.0, 1.1, 0.9, 1.0, steps=10))
    assert found.steps_per_second == pytest.approx(10)
    assert found.half_width == pytest.approx(0.130, abs=0.001)
    assert (found.seconds, found.ci_permille) == (4.0, 130)


def test_dependent_blocks_have_a_wider_interval() -> None:
    mixed = rate_interval(sequence(*[2.9, 3.1] * 10)).half_width
    slow_waves = rate_interval(sequence(*([2.9] * 5 + [3.1] * 5) * 2)).half_width
    assert slow_waves > 2.9 * mixed


def test_interval_without_noise_is_one_permille() -> None:
    assert rate_interval(sequence(*[3.0] * MIN_BLOCKS)).ci_permille == 1


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(3, 3.1824), (4, 2.7764), (9, 2.2622), (19, 2.0930), (239, 1.9699)],
)
def test_quantiles_are_those_of_published_tables(degrees: int, quantile: float) -> None:
    assert student_quantile(degrees) == pytest.approx(quantile, rel=0.0012)


def test_rise_is_a_drift() -> None:
    assert drifts(sequence(*[3.2 - 0.02 * n for n in range(12)]))
    assert drifts(sequence(*[3.0 + 0.02 * n for n in range(12)]))


def test_noise_and_a_rise_below_half_a_percent_are_no_drift() -> None:
    assert not drifts(sequence(*NOISE))
    assert not drifts(sequence(*[3.0 + 0.001 * n for n in range(12)]))


def test_steady_interval_needs_10_blocks_few_outliers_and_no_drift() -> None:
    assert steady_interval(sequence(*NOISE)) == rate_interval(sequence(*NOISE))
    assert steady_interval(sequence(*NOISE, 9.0)) == rate_interval(sequence(*NOISE))
    assert steady_interval(sequence(*NOISE[:9])) is None
    assert steady_interval(sequence(*[3.0] * 9, *[6.0] * 4)) is None
    assert steady_interval(sequence(*[3.2 - 0.02 * n for n in range(12)])) is None
