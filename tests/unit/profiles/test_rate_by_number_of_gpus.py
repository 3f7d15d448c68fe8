"""Rates by number of GPUs, and FLEET's extrapolation."""

from collections.abc import Mapping
from math import log

import pytest

from gputopo.api.profile import Sample, ScalingFact
from gputopo.profiles.scaling import scaling_facts
from support.builders.workload_runs import run_of


def runs(rates: Mapping[int, float], number: int = 3, noise: float = 0.0) -> list[Sample]:
    """Return runs of three samples with each number of GPUs; noise alternates."""
    return [
        each
        for gpus, rate in rates.items()
        for run in range(number)
        for each in run_of(
            f"{gpus}-{run}", [noise * (-1) ** run - log(rate)] * 3, start=10 * run, gpus=gpus
        )
    ]


def by_gpus(facts: list[ScalingFact], *, extrapolated: bool) -> dict[int, float]:
    return {
        fact.gpus: fact.micro_steps_per_second / 1e6
        for fact in facts
        if fact.extrapolated is extrapolated
    }


def test_measured_rates_are_reported() -> None:
    facts = scaling_facts(runs({1: 1.0, 4: 3.5}))
    assert by_gpus(facts, extrapolated=False) == pytest.approx({1: 1.0, 4: 3.5})


def test_rate_of_gpus_that_divide_one_batch_follows_fleets_formula() -> None:
    facts = scaling_facts(runs({1: 1.0, 2: 1.9, 3: 2.7}))
    found = by_gpus(facts, extrapolated=True)
    assert list(found) == list(range(4, 17))
    loss = 2.7 / 1.9 * 2 / 3
    assert found == pytest.approx({m: m * 2.7 / 3 * loss ** (m - 3) for m in found}, rel=1e-4)


def test_rate_of_gpus_with_their_own_batches_follows_fleets_formula() -> None:
    facts = scaling_facts(runs({1: 10.0, 2: 9.8, 3: 9.6}))
    found = by_gpus(facts, extrapolated=True)
    assert found == pytest.approx({m: 9.6 * (9.6 / 9.8) ** (m - 3) for m in found}, rel=1e-4)
    assert found[4] == pytest.approx(9.4, abs=0.01)


def test_intervals_of_extrapolated_rates_grow() -> None:
    facts = [fact for fact in scaling_facts(runs({1: 1.0, 2: 1.9})) if fact.extrapolated]
    widths = [fact.ci_permille for fact in facts]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def test_nothing_is_extrapolated_without_the_number_before_the_largest() -> None:
    assert by_gpus(scaling_facts(runs({1: 1.0, 2: 1.9, 4: 3.5})), extrapolated=True) == {}
    assert by_gpus(scaling_facts(runs({1: 1.0})), extrapolated=True) == {}
    assert scaling_facts([]) == []


def test_nothing_is_extrapolated_if_it_is_unknown_whether_gpus_divide_a_batch() -> None:
    assert by_gpus(scaling_facts(runs({1: 1.0, 2: 1.41})), extrapolated=True) == {}
    noisy = runs({1: 1.0, 2: 1.9}, noise=0.4)
    assert by_gpus(scaling_facts(noisy), extrapolated=True) == {}


def test_nothing_is_extrapolated_beyond_the_gpus_of_a_pod() -> None:
    facts = scaling_facts(runs({15: 1.0, 16: 1.0}))
    assert by_gpus(facts, extrapolated=True) == {}


def test_two_samples_of_one_run_are_not_enough() -> None:
    assert scaling_facts(runs({1: 1.0}, number=1)[:2]) == []


def test_samples_on_slow_links_are_left_out() -> None:
    slow = run_of("x", [2.0] * 3, effective_mb_per_s=30_000)
    assert scaling_facts(slow) == []
    assert scaling_facts([*slow, *runs({2: 1.0})]) == scaling_facts(runs({2: 1.0}))


def test_best_link_with_samples_counts_if_the_node_reports_none() -> None:
    slow = run_of("x", [0.0] * 3, effective_mb_per_s=30_000, best_mb_per_s=None)
    assert len(scaling_facts(slow)) == 1
    assert scaling_facts(run_of("x", [0.0] * 3, effective_mb_per_s=None)) == []


def test_one_gpu_needs_no_bandwidth() -> None:
    assert len(scaling_facts(run_of("x", [0.0] * 3, gpus=1, effective_mb_per_s=None))) == 1


def test_samples_beside_neighbours_or_with_few_cpus_are_left_out() -> None:
    clean = runs({2: 1.0})
    beside = run_of("x", [1.0] * 3, start=99, socket_neighbours=["a/b"])
    few = run_of("y", [1.0] * 3, start=99, milli_cpu=1000)
    assert scaling_facts([*clean, *beside, *few], {2: 4000}) == scaling_facts(clean)
    assert len(scaling_facts(beside)) == 1
