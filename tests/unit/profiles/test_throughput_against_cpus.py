"""The curve and the demand of CPUs."""

from collections.abc import Mapping
from math import log
from typing import Any

import pytest

from gputopo.api.profile import CpuFact, Sample
from gputopo.profiles.cpucurve import scatter_about_falling
from gputopo.profiles.cpus import cpu_facts
from support.builders.workload_runs import run_of, sample

KNEE = {1: 0.25, 2: 0.5, 4: 0.8, 8: 1.0, 16: 1.01}
"""Steps per second by CPUs: more than 8 CPUs bring little."""


def run_through(
    curve: Mapping[int, float],
    run: str = "run-0",
    *,
    level: float = 1.0,
    start: int = 0,
    **fields: Any,
) -> list[Sample]:
    """Return the samples of a run whose CPU limit went through the points of a curve."""
    return [
        sample(run, start + number, -log(level * rate), milli_cpu=1000 * cpus, **fields)
        for number, (cpus, rate) in enumerate(curve.items())
    ]


def only_fact(samples: list[Sample]) -> CpuFact:
    (fact,) = cpu_facts(samples)
    return fact


def rates(fact: CpuFact) -> dict[int, float]:
    return {
        point.milli_cpu // 1000: round(point.micro_steps_per_second / 1e6, 3)
        for point in fact.points
    }


def test_one_run_through_all_limits_shows_curve_and_demand() -> None:
    fact = only_fact(run_through(KNEE))
    assert rates(fact) == KNEE
    assert fact.demand_milli_cpu == 8000


def test_demand_of_the_worked_example() -> None:
    assert only_fact(run_through({2: 40, 4: 79, 8: 100, 16: 102})).demand_milli_cpu == 8000


def test_demand_is_unknown_while_more_cpus_still_bring_more() -> None:
    assert only_fact(run_through({2: 1.0, 4: 2.0, 8: 4.0})).demand_milli_cpu is None


def test_least_limit_is_the_demand_if_more_cpus_bring_nothing() -> None:
    assert only_fact(run_through({2: 1.0, 4: 1.0, 8: 1.0})).demand_milli_cpu == 2000


def test_demand_is_unknown_if_a_gain_is_near_the_limit() -> None:
    assert only_fact(run_through({2: 0.5, 4: 0.91, 8: 1.0, 16: 1.0})).demand_milli_cpu is None


def test_single_limit_has_a_point_and_no_demand() -> None:
    fact = only_fact(run_of("a", [0.0, 0.0], milli_cpu=4000))
    assert rates(fact) == {4: 1.0}
    assert fact.demand_milli_cpu is None


def test_noise_invents_no_demand() -> None:
    noisy = {1: 0.25, 2: 0.5, 4: 1.2, 8: 0.9, 16: 1.1, 24: 0.9}
    assert only_fact(run_through(noisy)).demand_milli_cpu is None


def test_noise_of_repeated_samples_invents_no_demand() -> None:
    samples = [
        *run_through({4: 1.2, 8: 1.0, 16: 1.0}),
        *run_through({4: 0.8, 8: 0.8, 16: 0.8}, start=10),
        *run_through({4: 0.5, 8: 1.3, 16: 1.25}, start=20),
    ]
    assert only_fact(samples).demand_milli_cpu is None


def test_samples_that_report_wide_intervals_show_no_demand() -> None:
    assert only_fact(run_through(KNEE, ci_permille=300)).demand_milli_cpu is None


def test_speed_of_the_run_does_not_change_the_shape_of_the_curve() -> None:
    slow = run_through(KNEE, "slow", level=0.5, effective_mb_per_s=10_000)
    fast = [each for n in range(4) for each in run_of(f"n-{n}", [-log(1.01)], milli_cpu=16_000)]
    fact = only_fact([*slow, *fast])
    assert fact.demand_milli_cpu == 8000
    assert rates(fact) == KNEE


def test_curves_of_several_runs_are_combined() -> None:
    samples = [
        each
        for number in range(3)
        for each in run_through(KNEE, f"run-{number}", level=1 + 0.2 * number, start=10 * number)
    ]
    fact = only_fact(samples)
    assert fact.demand_milli_cpu == 8000
    assert [point.milli_cpu for point in fact.points] == [1000, 2000, 4000, 8000, 16_000]


def test_runs_with_one_limit_each_show_the_demand_together() -> None:
    samples = [
        sample(f"{cpus}-{number}", number, -log(rate), milli_cpu=1000 * cpus)
        for cpus, rate in {2: 0.5, 4: 1.0, 8: 1.0}.items()
        for number in range(6)
    ]
    assert only_fact(samples).demand_milli_cpu == 4000


def test_runs_on_other_links_are_not_compared() -> None:
    samples = [
        *run_of("a", [0.0] * 3, milli_cpu=8000),
        *run_of("b", [0.0] * 3, milli_cpu=4000, effective_mb_per_s=10_000),
    ]
    assert rates(only_fact(samples)) == {8: 1.0}


def test_limit_above_the_profiled_ones_is_a_point() -> None:
    samples = [
        *run_through(KNEE),
        *(each for n in range(6) for each in run_of(f"n-{n}", [0.0], milli_cpu=16_000)),
        *(each for n in range(6) for each in run_of(f"m-{n}", [0.0], milli_cpu=32_000)),
    ]
    fact = only_fact(samples)
    assert rates(fact)[32] == pytest.approx(1.0, abs=0.02)
    assert fact.demand_milli_cpu == 8000


def test_demand_is_unknown_if_a_limit_above_the_profiled_ones_brings_more() -> None:
    samples = [
        *run_through(KNEE),
        *(each for n in range(6) for each in run_of(f"n-{n}", [0.0], milli_cpu=16_000)),
        *(each for n in range(6) for each in run_of(f"m-{n}", [-1.0], milli_cpu=32_000)),
    ]
    assert only_fact(samples).demand_milli_cpu is None


def test_samples_beside_neighbours_are_excluded_if_others_show_a_curve() -> None:
    beside = run_through({1: 0.01, 16: 0.9}, "b", start=50, socket_neighbours=["a/b"])
    assert cpu_facts([*run_through(KNEE), *beside]) == cpu_facts(run_through(KNEE))
    assert len(only_fact([*run_of("c", [0.0], milli_cpu=2000), *beside]).points) == 3


def test_samples_without_a_limit_have_no_curve() -> None:
    assert cpu_facts([sample(milli_cpu=None)]) == []


def test_each_number_of_gpus_has_its_own_curve() -> None:
    samples = [*run_through(KNEE), *run_through(KNEE, "one", gpus=1)]
    assert [fact.gpus for fact in cpu_facts(samples)] == [1, 2]


def test_scatter_about_a_falling_sequence_counts_what_rises() -> None:
    assert scatter_about_falling([(3.0, 1.0), (2.0, 1.0), (1.0, 1.0)]) == (0.0, 0)
    # The mean of 0 and 3, weighted 1 to 2, is 2; its distance to 1 before it merges all three.
    squares, freedom = scatter_about_falling([(1.0, 1.0), (0.0, 1.0), (3.0, 0.5)])
    assert freedom == 2
    assert squares == pytest.approx(0.75**2 + 1.75**2 + 2 * 1.25**2)
