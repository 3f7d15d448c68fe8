"""All samples in one regression: terms, scatter and wild values."""

from math import exp, log, log1p
from typing import Any

import pytest

from gputopo.profiles.ratefit import Effect, RateFit, fit_rates, rate_fits
from gputopo.profiles.ratemodel import rate_data
from gputopo.profiles.runs import RUN_SCATTER, SAMPLE_SCATTER
from gputopo.profiles.terms import MAX_NEIGHBOURS, ON_NODE, ON_SOCKET, OTHERS, terms_of
from support.builders.workload_runs import WORST_MB_PER_S, run_of, sample


def effect(fit: RateFit, kind: str, name: str = "") -> Effect:
    (found,) = (each.effect for each in fit.effects if (each.kind, each.name) == (kind, name))
    return found


def test_terms_of_samples() -> None:
    samples = [
        sample("a", socket_neighbours=["ml/x", "ml/x"], node_neighbours=["ml/x", "ml/x", "ml/y"]),
        sample("b", milli_cpu=16_000),
        sample("b"),
    ]
    found = {(term.kind, term.name): (term.deviation, term.column) for term in terms_of(samples)}
    assert found == {
        ("Base", ""): (5.0, [1.0, 1.0, 1.0]),
        ("Drift", ""): (0.01, [-0.5, 0.5, 0.5]),
        ("CPUs", "16000"): (1.0, [0.0, 1.0, 0.0]),
        ("Socket", "ml/x"): (ON_SOCKET, [2.0, 0.0, 0.0]),
        ("Node", "ml/y"): (ON_NODE, [1.0, 0.0, 0.0]),
    }


def test_rare_neighbours_share_one_term() -> None:
    names = [f"ml/{number:02}" for number in range(MAX_NEIGHBOURS)]
    samples = [
        sample("a", socket_neighbours=[*names, "ml/rare", "ml/seldom"]),
        sample("b", socket_neighbours=[*names, "ml/a-rare"]),
        sample("c"),
    ]
    found = {term.name: term.column for term in terms_of(samples) if term.kind == "Socket"}
    assert list(found) == [*names, OTHERS]
    assert found[names[0]] == [1.0, 1.0, 0.0]
    assert found[OTHERS] == [2.0, 1.0, 0.0]


def test_one_run_has_no_drift() -> None:
    assert [term.kind for term in terms_of(run_of("a", [0.0] * 3))] == ["Base"]


def test_the_worked_example() -> None:
    neighbour: dict[str, Any] = {"socket_neighbours": ["ml/x"]}
    two = [
        *run_of("a", [log(0.10)] * 3),
        *run_of("b", [log(0.15)] * 3, start=60, effective_mb_per_s=WORST_MB_PER_S, **neighbour),
    ]
    fit = fit_rates(two)
    assert fit.links is not None
    low, high = fit.links.interval
    assert low < log(1.25) < log(1.5) < high
    fit = fit_rates([*two, *run_of("c", [log(0.12)] * 3, start=120, **neighbour)])
    assert fit.links is not None
    assert fit.links.value == pytest.approx(log(1.25), abs=0.02)
    assert effect(fit, "Socket", "ml/x").value == pytest.approx(log(1.2), abs=0.02)
    assert fit.links.interval[1] - fit.links.interval[0] < high - low


def test_effects_of_surroundings_that_change_together_are_separated() -> None:
    slow, beside, limit = log(1.4), log(1.1), log(0.8)
    samples = []
    for number in range(12):
        bad, near, more = number % 2, number % 3 == 0, number % 4 == 0
        samples += run_of(
            f"run-{number}",
            [slow * bad + beside * near + limit * more] * 3,
            start=60 * number,
            effective_mb_per_s=WORST_MB_PER_S if bad else 48_000,
            socket_neighbours=["ml/x"] if near else [],
            milli_cpu=16_000 if more else 8000,
        )
    fit = fit_rates(samples)
    assert fit.links is not None
    assert fit.links.value == pytest.approx(slow, abs=0.01)
    assert effect(fit, "Socket", "ml/x").value == pytest.approx(beside, abs=0.01)
    assert effect(fit, "CPUs", "16000").value == pytest.approx(limit, abs=0.01)
    assert fit.log_seconds.value == pytest.approx(0, abs=0.01)


def test_drift_is_no_effect_of_other_terms() -> None:
    samples = [
        each
        for number in range(10)
        for each in run_of(
            f"run-{number}",
            [0.02 * number] * 3,
            start=60 * number,
            socket_neighbours=["ml/x"] if number % 2 else [],
        )
    ]
    fit = fit_rates(samples)
    assert effect(fit, "Drift").value == pytest.approx(0.02, abs=0.003)
    assert effect(fit, "Socket", "ml/x").value == pytest.approx(0, abs=0.01)


def test_samples_on_equal_links_show_no_slowdown() -> None:
    assert fit_rates(run_of("a", [0.0] * 3)).links is None
    worst = fit_rates(run_of("a", [0.0] * 3, effective_mb_per_s=WORST_MB_PER_S))
    assert worst.links is None
    assert worst.log_seconds.deviation > 1  # the rate on the best links is unknown


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_wild_sample_of_a_run_has_little_weight(factor: float) -> None:
    samples = [each for run in "abcd" for each in run_of(run, [0.0, 0.01, -0.01, 0.0])]
    samples[5] = sample("b", 1, log(factor))
    assert fit_rates(samples).log_seconds.value == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_wild_run_has_little_weight(factor: float) -> None:
    samples = [each for run in "abcdef" for each in run_of(run, [0.0] * 3)]
    fit = fit_rates([*samples, *run_of("wild", [log(factor)] * 3, start=99)])
    assert fit.log_seconds.value == pytest.approx(0, abs=0.03)


def test_scatter_between_runs_widens_the_interval() -> None:
    def width(scatter: float) -> float:
        runs = [
            each
            for number in range(8)
            for each in run_of(f"run-{number}", [scatter * (-1) ** number] * 3, start=number)
        ]
        low, high = fit_rates(runs).log_seconds.interval
        return high - low

    assert width(0.1) > 3 * width(0.0)
    assert width(0.0) > RUN_SCATTER / 2  # the assumed scatter counts


def test_scatter_of_samples_is_that_within_runs_and_the_reported_one() -> None:
    def scatter(*log_times: float, **fields: int) -> float:
        samples = [each for run in "abcdefgh" for each in run_of(run, list(log_times), **fields)]
        return rate_data(samples).scatter

    assert scatter(0.0, 0.0, ci_permille=0) < SAMPLE_SCATTER
    assert scatter(0.0, ci_permille=196) == pytest.approx(0.1, rel=0.01)
    assert 0.1 < scatter(-0.1, 0.0, 0.1, ci_permille=0) < 0.2
    assert scatter(0.0, ci_permille=2**31 - 1) == 1.0


def test_samples_of_other_surroundings_in_a_run_are_no_scatter() -> None:
    samples = [*run_of("a", [0.0] * 3), *run_of("a", [1.0] * 3, socket_neighbours=["ml/x"])]
    assert rate_data(samples).scatter < 2 * SAMPLE_SCATTER


def test_interval_of_an_effect_has_its_quantile() -> None:
    assert Effect(1.0, 0.1, 2.0).interval == pytest.approx((0.8, 1.2))


def test_each_number_of_gpus_has_its_own_regression() -> None:
    samples = [*run_of("a", [0.0] * 3), *run_of("b", [log1p(1)] * 3, gpus=4)]
    fits = rate_fits(samples)
    assert {gpus: round(exp(fit.log_seconds.value), 3) for gpus, fit in fits.items()} == {
        2: 1.0,
        4: 2.0,
    }


def test_too_few_cpus_leave_no_sample_to_fit() -> None:
    assert rate_fits([sample(milli_cpu=1000)], {2: 2000}) == {}


def test_newest_runs_on_each_side_count() -> None:
    samples = [sample(f"run-{number}", number) for number in range(20)]
    slow = sample("slow", 0, effective_mb_per_s=WORST_MB_PER_S)
    assert rate_fits([slow, *samples])[2].samples == [slow, *samples[4:]]
