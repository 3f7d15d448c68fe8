"""Facts against a known truth: errors, classes and intervals for simulated runs.

The noise is relative to the rate. Half of its variance is between runs and half between the samples
of a run. 5 % of the samples are wrong by a factor of 2 to 5, and the workload drifts by up to 1 %
from run to run. Samples report an interval of 1 %, whatever the noise is.
"""

from collections.abc import Sequence
from math import log, sqrt
from random import Random
from statistics import mean, median
from typing import Any, Final

import pytest

from gputopo.api.profile import Sample
from gputopo.profiles.cpus import cpu_facts
from support.builders.workload_runs import BEST_MB_PER_S, WORST_MB_PER_S, run_of
from support.facts import link_facts, neighbour_facts, scaling_facts

NOISES: Final = (0.05, 0.15, 0.30)
WORKLOADS: Final = 150
RUNS: Final = 8
SAMPLES: Final = 4
MIDDLE_MB_PER_S: Final = 21_000


class Runs:
    """Makes runs of one workload."""

    def __init__(self, seed: int, noise: float) -> None:
        self.random = Random(seed)  # noqa: S311 - a simulation
        self.noise = noise / sqrt(2)
        self.drift = self.random.uniform(-0.01, 0.01)
        self.count = 0

    def start(self) -> tuple[str, int, float]:
        """Return name, start and speed of a new run."""
        self.count += 1
        level = self.random.gauss(0, self.noise) + self.drift * self.count
        return f"run-{self.count}", 60 * self.count, level

    def sampled(self, log_time: float) -> float:
        wild = self.random.choice((-1, 1)) * log(self.random.uniform(2, 5))
        noise = self.random.gauss(0, self.noise)
        return log_time + noise + (wild if self.random.random() < 0.05 else 0.0)

    def run(self, log_time: float, **fields: Any) -> list[Sample]:
        """Return a run whose surroundings do not change."""
        name, start, level = self.start()
        times = [self.sampled(level + log_time) for _ in range(SAMPLES)]
        return run_of(name, times, start=start, ci_permille=10, **fields)


def log_slowdown(percent: float, bandwidth: float) -> float:
    best, worst = 1 / BEST_MB_PER_S, 1 / WORST_MB_PER_S
    return log(1 + percent / 100 * (1 / bandwidth - best) / (worst - best))


def runs_on_links(seed: int, noise: float, percent: float) -> list[Sample]:
    """Return runs on links of three bandwidths, of which each occurs at least twice."""
    runs = Runs(seed, noise)
    bandwidths = [BEST_MB_PER_S, MIDDLE_MB_PER_S, WORST_MB_PER_S] * 3
    runs.random.shuffle(bandwidths)
    return [
        sample
        for bandwidth in bandwidths[:RUNS]
        for sample in runs.run(log_slowdown(percent, bandwidth), effective_mb_per_s=bandwidth)
    ]


def share(found: Sequence[bool]) -> float:
    return mean(map(float, found))


@pytest.mark.parametrize(("noise", "least_right"), [(0.05, 0.6), (0.15, 0.3), (0.30, 0.1)])
def test_slowdown_on_slow_links_is_rarely_wrong_and_within_its_interval(
    noise: float, least_right: float
) -> None:
    truths = [0, 2, 5, 20, 45, 100]
    right, wrong, covered = [], [], []
    for seed in range(WORKLOADS):
        truth = truths[seed % len(truths)]
        for fact in link_facts(runs_on_links(seed, noise, truth)):
            expected = "Sensitive" if truth >= 10 else "Insensitive"
            right.append(fact.sensitivity == expected)
            wrong.append(fact.sensitivity not in {expected, "Unknown"})
            covered.append(fact.low_percent <= truth <= fact.high_percent)
    assert len(covered) >= 0.95 * WORKLOADS
    assert share(wrong) <= 0.02
    assert share(right) >= least_right
    assert 0.90 <= share(covered) <= 0.999


@pytest.mark.parametrize(("noise", "most_error"), [(0.05, 4), (0.15, 12), (0.30, 22)])
def test_error_of_the_slowdown_on_slow_links_follows_the_noise(
    noise: float, most_error: float
) -> None:
    errors = [
        abs(fact.percent - 45)
        for seed in range(WORKLOADS)
        for fact in link_facts(runs_on_links(seed, noise, 45))
    ]
    assert median(errors) <= most_error


def test_noise_of_one_percent_is_enough_for_every_class_after_eight_runs() -> None:
    truths = {0: "Insensitive", 2: "Insensitive", 20: "Sensitive", 45: "Sensitive"}
    found = [
        fact.sensitivity == expected
        for seed in range(30)
        for truth, expected in truths.items()
        for fact in link_facts(runs_on_links(seed, 0.01, truth))
    ]
    assert share(found) >= 0.95


@pytest.mark.parametrize("noise", NOISES)
def test_slowdown_beside_a_neighbour_is_within_its_interval(noise: float) -> None:
    covered = []
    for seed in range(WORKLOADS):
        runs = Runs(seed, noise)
        samples = []
        for _ in range(4):
            name, start, level = runs.start()
            alone = [runs.sampled(level) for _ in range(SAMPLES)]
            beside = [runs.sampled(level + log(1.25)) for _ in range(SAMPLES)]
            samples += run_of(name, alone, start=start)
            samples += run_of(name, beside, start=start + 30, socket_neighbours=["ml/bert"])
        (fact,) = neighbour_facts(samples)
        covered.append(fact.low_percent <= 25 <= fact.high_percent)
    assert share(covered) >= 0.90


@pytest.mark.parametrize("noise", NOISES)
def test_measured_and_extrapolated_rates_are_within_their_intervals(noise: float) -> None:
    covered: dict[bool, list[bool]] = {False: [], True: []}
    for seed in range(WORKLOADS // 2):
        runs = Runs(seed, noise)
        runs.drift = 0.0
        samples = [
            sample
            for gpus in (1, 2, 3, 4)
            for _ in range(4)
            for sample in runs.run(-log(gpus * 0.95 ** (gpus - 1)), gpus=gpus)
        ]
        for fact in scaling_facts(samples):
            truth = fact.gpus * 0.95 ** (fact.gpus - 1)
            ratio = fact.micro_steps_per_second / 1e6 / truth
            width = 1 + fact.ci_permille / 1000
            covered[fact.extrapolated].append(1 / width <= ratio <= width)
    assert share(covered[False]) >= 0.90
    assert share(covered[True]) >= 0.90


@pytest.mark.parametrize("noise", [0.005, 0.02, *NOISES])
def test_demand_of_cpus_is_rarely_wrong(noise: float) -> None:
    wrong, right = [], []
    limits = (1, 2, 4, 6, 8, 12, 16, 24)
    for seed in range(WORKLOADS):
        runs = Runs(seed, noise)
        need = runs.random.choice((1.5, 3, 5, 7, 10, 14))
        name, start, level = runs.start()
        samples = [
            sample
            for number, cpus in enumerate(limits)
            for sample in run_of(
                name,
                [runs.sampled(level + max(0.0, log(need / cpus)))],
                start=start + number,
                milli_cpu=1000 * cpus,
            )
        ]
        (fact,) = cpu_facts(samples)
        truth = next(cpus for cpus in limits if need / cpus < 1.1)
        wrong.append(fact.demand_milli_cpu not in {1000 * truth, None})
        right.append(fact.demand_milli_cpu == 1000 * truth)
    assert share(wrong) <= 0.02
    assert share(right) >= (0.4 if noise < 0.01 else 0.0)
