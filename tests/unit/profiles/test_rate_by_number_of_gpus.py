"""Rates by number of GPUs, and FLEET's extrapolation."""

from collections.abc import Mapping
from math import log

import pytest

from gputopo.api.profile import Sample, ScalingFact
from support.builders.workload_runs import run_of
from support.facts import scaling_facts


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
    loss = 2.7 / 1.9 * 2 / 3
    assert list(found) == [4, 5, 6]
    assert found == pytest.approx({m: m * 2.7 / 3 * loss ** (m - 3) for m in found}, rel=1e-4)


def test_rate_of_gpus_with_their_own_batches_follows_fleets_formula() -> None:
    facts = scaling_facts(runs({1: 10.0, 2: 9.8, 3: 9.6}))
    found = by_gpus(facts, extrapolated=True)
    assert found == pytest.approx({m: 9.6 * (9.6 / 9.8) ** (m - 3) for m in found}, rel=1e-4)
    assert found[4] == pytest.approx(9.4, abs=0.01)


def test_loss_between_numbers_of_gpus_is_divided_equally() -> None:
    found = by_gpus(scaling_facts(runs({1: 1.0, 2: 2 * 0.9, 4: 4 * 0.81})), extrapolated=True)
    assert list(found) == [5, 6, 7, 8]
    assert found[6] == pytest.approx(6 * 0.729, rel=1e-4)
    assert found[8] == pytest.approx(8 * 0.6561, rel=1e-4)


def test_intervals_of_extrapolated_rates_grow() -> None:
    facts = [fact for fact in scaling_facts(runs({2: 1.9, 4: 3.6})) if fact.extrapolated]
    widths = [fact.ci_permille for fact in facts]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def test_nothing_is_extrapolated_from_one_gpu() -> None:
    assert by_gpus(scaling_facts(runs({1: 1.0, 4: 3.9})), extrapolated=True) == {}
    assert by_gpus(scaling_facts(runs({4: 1.0})), extrapolated=True) == {}
    assert scaling_facts([]) == []


def test_rates_that_are_unknown_by_more_than_a_factor_of_2_are_no_facts() -> None:
    noisy = [run_of(f"run-{gpus}", [-1.0, 0.0, 1.0], gpus=gpus) for gpus in (1, 2)]
    assert scaling_facts([*noisy[0], *noisy[1]]) == []
    steep = by_gpus(scaling_facts(runs({7: 5.0, 8: 3.0})), extrapolated=True)
    assert 9 in steep
    assert 16 not in steep


def test_nothing_is_extrapolated_if_it_is_unknown_whether_gpus_divide_a_batch() -> None:
    assert by_gpus(scaling_facts(runs({2: 1.0, 4: 1.41})), extrapolated=True) == {}
    noisy = runs({2: 1.0, 4: 1.9}, number=2, noise=0.2)
    assert by_gpus(scaling_facts(noisy), extrapolated=True) == {}


def test_nothing_is_extrapolated_beyond_the_gpus_of_a_pod() -> None:
    facts = scaling_facts(runs({15: 1.0, 16: 1.0}))
    assert by_gpus(facts, extrapolated=True) == {}


def test_two_samples_of_one_run_are_not_enough() -> None:
    assert scaling_facts(runs({1: 1.0}, number=1)[:2]) == []


def test_rate_is_that_on_the_best_links() -> None:
    slow = [each for run in "xy" for each in run_of(run, [0.5] * 3, effective_mb_per_s=10_000)]
    assert scaling_facts(slow) == []
    (fact,) = scaling_facts([*slow, *runs({2: 1.0})])
    assert fact.micro_steps_per_second == pytest.approx(1e6, rel=0.01)


def test_one_gpu_needs_no_bandwidth() -> None:
    assert len(scaling_facts(run_of("x", [0.0] * 3, gpus=1, effective_mb_per_s=None))) == 1


def test_rate_is_that_alone_with_the_usual_cpus() -> None:
    clean = runs({2: 1.0})
    beside = [
        each
        for run in "xyz"
        for each in run_of(run, [0.2] * 3, start=99, socket_neighbours=["a/b"])
    ]
    few = run_of("few", [1.0] * 3, start=99, milli_cpu=1000)
    (fact,) = scaling_facts([*clean, *beside, *few])
    assert fact.micro_steps_per_second == pytest.approx(1e6, rel=0.02)
    assert scaling_facts([*clean, *few], {2: 4000}) == scaling_facts(clean)
