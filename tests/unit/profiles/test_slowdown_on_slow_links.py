"""The slowdown against bandwidth."""

from math import exp, log
from typing import Any

import pytest

from gputopo.api.profile import LinkFact, Sample
from gputopo.profiles.linkfit import Line, RunPoint, fit_slowdown
from gputopo.profiles.links import link_facts, shortage, usable
from support.builders.workload_runs import BEST_MB_PER_S, WORST_MB_PER_S, run_of, sample

MIDDLE_MB_PER_S = 20_000


def slow_time(percent: float, bandwidth: float) -> float:
    """Return the logarithm of the time for a slowdown of ``percent`` from best to worst links."""
    best, worst = 1 / BEST_MB_PER_S, 1 / WORST_MB_PER_S
    return log(1 + percent / 100 * (1 / bandwidth - best) / (worst - best))


def runs_on(
    percent: float, *bandwidths: int, noise: tuple[float, ...] = (), **fields: Any
) -> list[Sample]:
    """Return runs of three samples, one hour apart, on links with these bandwidths."""
    return [
        each
        for number, bandwidth in enumerate(bandwidths)
        for each in run_of(
            f"run-{number}",
            [slow_time(percent, bandwidth) + (noise[number] if noise else 0.0)] * 3,
            start=60 * number,
            effective_mb_per_s=bandwidth,
            **fields,
        )
    ]


def only_fact(samples: list[Sample]) -> LinkFact:
    (fact,) = link_facts(samples)
    return fact


@pytest.mark.parametrize("percent", [0, 20, 45, 300])
def test_slowdown_follows_the_law_of_time_and_bandwidth(percent: float) -> None:
    fact = only_fact(runs_on(percent, *[BEST_MB_PER_S, MIDDLE_MB_PER_S, WORST_MB_PER_S] * 3))
    assert fact.percent == percent
    assert fact.low_percent <= percent <= fact.high_percent
    assert fact.samples == 27


def test_slowdown_is_extrapolated_to_the_best_and_worst_links_of_the_nodes() -> None:
    samples = runs_on(100, *[40_000, 20_000] * 4)
    fact = only_fact(samples)
    assert fact.percent == 100
    measured = only_fact(
        [
            each.model_copy(update={"best_mb_per_s": None, "worst_mb_per_s": None})
            for each in samples
        ]
    )
    # Only the links with samples are known: the slowdown from 40 to 20 GB/s.
    expected = exp(slow_time(100, 20_000) - slow_time(100, 40_000)) - 1
    assert measured.percent == round(100 * expected)


def test_slowdown_beyond_any_number_is_limited() -> None:
    # No time would be left on links of 100 GB/s, because 40 GB/s take four times as long as 41.
    samples = [
        *runs_on(0, 20_000, 20_000, noise=(1.4, 1.4)),
        *run_of("x", [0.0] * 3, start=500, effective_mb_per_s=26_000),
        *run_of("y", [0.0] * 3, start=600, effective_mb_per_s=26_000),
    ]
    assert only_fact(samples).high_percent == 100_000


@pytest.mark.parametrize(
    ("percent", "sensitivity"), [(2, "Insensitive"), (45, "Sensitive"), (10, "Unknown")]
)
def test_interval_decides_the_class(percent: float, sensitivity: str) -> None:
    fact = only_fact(runs_on(percent, *[BEST_MB_PER_S, WORST_MB_PER_S] * 4))
    assert fact.sensitivity == sensitivity


def test_scatter_between_runs_counts_although_each_run_reports_a_narrow_interval() -> None:
    noise = (0.2, -0.2, -0.2, 0.2, 0.2, -0.2, -0.2, 0.2)
    fact = only_fact(runs_on(30, *[BEST_MB_PER_S, WORST_MB_PER_S] * 4, noise=noise))
    assert fact.low_percent < 0
    assert fact.high_percent > 60
    assert fact.sensitivity == "Unknown"


@pytest.mark.parametrize("wild", range(8))
@pytest.mark.parametrize("factor", [0.2, 0.5, 2.0, 5.0])
@pytest.mark.parametrize(("percent", "sensitivity"), [(0, "Insensitive"), (45, "Sensitive")])
def test_one_wild_sample_of_eight_does_not_flip_the_class(
    wild: int, factor: float, percent: float, sensitivity: str
) -> None:
    samples = [
        sample(
            f"run-{number}",
            60 * number,
            slow_time(percent, bandwidth) + (log(factor) if number == wild else 0.0),
            effective_mb_per_s=bandwidth,
        )
        for number, bandwidth in enumerate([BEST_MB_PER_S, WORST_MB_PER_S] * 4)
    ]
    assert only_fact(samples).sensitivity in {sensitivity, "Unknown"}
    assert only_fact(samples).percent == pytest.approx(percent, abs=3)


def test_workload_that_becomes_slower_is_not_taken_for_a_sensitive_one() -> None:
    bandwidths = [BEST_MB_PER_S] * 4 + [WORST_MB_PER_S] * 4
    drift = tuple(0.02 * number for number in range(8))
    fact = only_fact(runs_on(0, *bandwidths, noise=drift))
    assert fact.sensitivity != "Sensitive"
    assert fact.low_percent <= 0


def test_few_runs_of_which_one_must_be_wrong_show_no_class() -> None:
    bandwidths = [BEST_MB_PER_S] * 3 + [WORST_MB_PER_S] * 2
    noise = (0.0,) * 4 + (1.0,)
    assert only_fact(runs_on(0, *bandwidths, noise=noise)).sensitivity == "Unknown"


def test_samples_beside_neighbours_are_excluded_if_enough_others_are_left() -> None:
    clean = runs_on(0, *[BEST_MB_PER_S, WORST_MB_PER_S] * 3)
    slow = run_of("x", [1.0] * 3, start=900, effective_mb_per_s=WORST_MB_PER_S)
    beside = [each.model_copy(update={"socket_neighbours": ["a/b"]}) for each in slow]
    assert only_fact([*clean, *beside]) == only_fact(clean)


def test_samples_beside_neighbours_count_if_others_are_not_enough() -> None:
    samples = runs_on(0, *[BEST_MB_PER_S, WORST_MB_PER_S] * 3)
    beside = [each.model_copy(update={"socket_neighbours": ["a/b"]}) for each in samples]
    assert only_fact(beside).samples == 18


def test_samples_with_fewer_cpus_than_the_demand_are_excluded() -> None:
    clean = runs_on(0, *[BEST_MB_PER_S, WORST_MB_PER_S] * 3)
    slow = run_of("x", [1.0] * 3, start=900, effective_mb_per_s=WORST_MB_PER_S, milli_cpu=1000)
    assert link_facts([*clean, *slow], {2: 4000}) == link_facts(clean)


def test_samples_of_another_bandwidth_model_are_not_compared() -> None:
    samples = runs_on(45, *[BEST_MB_PER_S, WORST_MB_PER_S] * 3)
    older = runs_on(45, *[BEST_MB_PER_S, WORST_MB_PER_S] * 3, model="physical")
    newer = sample("z", 9000)
    assert only_fact([*samples, newer]).samples == 19
    assert link_facts([*older, newer]) == []


def test_bandwidths_of_two_patterns_are_not_compared() -> None:
    ring = runs_on(0, *[BEST_MB_PER_S] * 4, pattern="Ring")
    star = runs_on(45, *[WORST_MB_PER_S] * 4, pattern="Star")
    renamed = [each.model_copy(update={"pod_uid": f"{each.pod_uid}-star"}) for each in star]
    assert link_facts([*ring, *renamed]) == []
    same = [each.model_copy(update={"pattern": "Ring"}) for each in renamed]
    assert only_fact([*ring, *same]).sensitivity == "Sensitive"


def test_each_number_of_gpus_has_its_own_fact_and_one_gpu_has_none() -> None:
    pairs = [BEST_MB_PER_S, WORST_MB_PER_S] * 3
    samples = [
        *runs_on(45, *pairs),
        *(each.model_copy(update={"gpus": 4}) for each in runs_on(0, *pairs)),
        *(each.model_copy(update={"gpus": 1}) for each in runs_on(0, *pairs)),
    ]
    assert [(fact.gpus, fact.percent) for fact in link_facts(samples)] == [(2, 45), (4, 0)]


def test_missing_bandwidth_is_reported() -> None:
    assert shortage([]) == "no sample has the bandwidth of its GPUs"
    assert link_facts([sample(effective_mb_per_s=None)]) == []


def test_missing_contrast_is_reported() -> None:
    samples = runs_on(0, *[20_000, 24_999] * 4)
    assert link_facts(samples) == []
    assert shortage(usable(samples)) == (
        "all samples have similar links (20000..24999 MB/s); run once on other links"
    )


def test_missing_samples_on_slow_links_are_reported() -> None:
    samples = runs_on(0, *[BEST_MB_PER_S] * 4, WORST_MB_PER_S)[:-1]
    assert link_facts(samples) == []
    assert shortage(samples) == "2 of 3 samples on slow links; run again on such links"


def test_single_samples_of_two_runs_on_slow_links_are_enough() -> None:
    samples = runs_on(45, *[BEST_MB_PER_S] * 4, WORST_MB_PER_S, WORST_MB_PER_S)
    assert only_fact([*samples[:13], samples[-1]]).sensitivity == "Sensitive"


def test_two_runs_of_which_one_must_be_wrong_make_no_fact() -> None:
    bandwidths = [BEST_MB_PER_S] * 8 + [WORST_MB_PER_S] * 2
    assert link_facts(runs_on(0, *bandwidths, noise=(0.0,) * 9 + (1.0,))) == []


def test_missing_samples_on_fast_links_are_reported() -> None:
    samples = runs_on(0, BEST_MB_PER_S, *[WORST_MB_PER_S] * 4)[2:]
    assert shortage(samples) == "1 of 3 samples on fast links; run again on such links"


def test_two_runs_do_not_show_how_much_runs_scatter() -> None:
    samples = runs_on(45, BEST_MB_PER_S, WORST_MB_PER_S)
    assert link_facts(samples) == []
    assert shortage(samples) == "2 of 3 runs"


def test_three_runs_show_a_large_slowdown() -> None:
    fact = only_fact(runs_on(100, BEST_MB_PER_S, WORST_MB_PER_S, BEST_MB_PER_S))
    assert fact.sensitivity == "Sensitive"


def test_line_passes_through_its_points() -> None:
    line = Line((0.0, 0.0), (1.0, log(2)))
    assert line.log_time(0.5) == pytest.approx(log(1.5))
    assert line.log_time(1.0) == pytest.approx(log(2))


def test_fit_has_the_values_of_the_worked_example() -> None:
    points = [RunPoint(u, 0.0, log(0.1 + 0.06 * u), 4e-4) for u in (0.0, 0.25, 1.0, 0.0, 0.25, 1.0)]
    found = fit_slowdown(points)
    assert found is not None
    assert exp(found.value) == pytest.approx(1.6)
    assert found.freedom == 4
    assert found.squares == pytest.approx(0.0, abs=1e-9)
