"""95 % intervals of simulated training hold the true rate in 90 to 99 % of the runs."""

from bisect import bisect_right
from itertools import takewhile
from random import Random
from statistics import fmean

import pytest

from gputopo.throughput.message import StepMessage
from gputopo.throughput.phases import PhaseTracker, SteadyRate
from support.training import Training, blocks

RUNS = 250

SCENARIOS = {
    **{
        f"{noise:.0%} noise, {rate} steps/s": Training(rate, noise)
        for noise in (0.05, 0.15, 0.30)
        for rate in (0.025, 1, 10)
    },
    **{
        f"{noise:.0%} noise, a checkpoint of 3 s each 60 s": Training(10, noise, pause_every=60)
        for noise in (0.05, 0.15, 0.30)
    },
    "5% noise, correlation 0.3, 1 step/s": Training(1, 0.05, correlation=0.3),
    "15% noise, correlation 0.3, 1 step/s": Training(1, 0.15, correlation=0.3),
    "15% noise, correlation 0.7, 10 steps/s": Training(10, 0.15, correlation=0.7),
    "30% noise, correlation 0.7, 10 steps/s": Training(10, 0.30, correlation=0.7),
    "5% noise, correlation 0.9, 10 steps/s": Training(10, 0.05, correlation=0.9),
}


def first_sample(training: Training, seed: int) -> SteadyRate:
    tracker = PhaseTracker("alone")
    samples = (tracker.add(block) for block in blocks(training.messages(seed)))
    return next(sample.rate for sample in samples if sample)


@pytest.mark.parametrize("training", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_95_percent_intervals_hold_the_truth_in_90_to_99_percent(training: Training) -> None:
    rates = [first_sample(training, seed) for seed in range(RUNS)]
    held = [
        abs(rate.steps_per_second - training.rate) <= rate.steps_per_second * rate.ci_permille / 1e3
        for rate in rates
    ]
    assert 0.90 <= sum(held) / RUNS <= 0.99


def test_rate_of_10_000_steps_per_second_is_known_to_one_permille() -> None:
    rates = [first_sample(Training(10_000, 0.15, unit=1000), seed) for seed in range(RUNS)]
    assert {rate.ci_permille for rate in rates} <= {1, 2}
    assert all(abs(rate.steps_per_second / 10_000 - 1) < 0.001 for rate in rates)


@pytest.mark.parametrize("poll_seconds", [1, 5, 15])
def test_polled_counter_of_slow_steps_has_an_unbiased_rate(poll_seconds: int) -> None:
    errors = []
    for seed in range(20):
        steps = Training(0.3, 0.1).steps(Random(seed))  # noqa: S311 - repeatable noise
        ends = [at for _, at in takewhile(lambda step: step[1] < 3000, steps)]
        polls = range(0, 3000, poll_seconds)
        counts = [StepMessage("endpoint", bisect_right(ends, at), float(at)) for at in polls]
        tracker = PhaseTracker("alone")
        found = [sample for block in blocks(counts) if (sample := tracker.add(block))]
        errors += [sample.rate.steps_per_second / 0.3 - 1 for sample in found]
        assert found
    assert abs(fmean(errors)) < 0.01
