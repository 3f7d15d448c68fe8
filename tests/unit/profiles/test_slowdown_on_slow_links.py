"""The slowdown against bandwidth."""

from math import exp, log
from typing import Any

import pytest

from gputopo.api.profile import LinkFact, Sample
from gputopo.profiles.comparable import usable
from gputopo.profiles.links import shortage
from support.builders.workload_runs import BEST_MB_PER_S, WORST_MB_PER_S, run_of, sample
from support.facts import link_facts

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
    assert fact.percent == pytest.approx(100, abs=1)
    measured = only_fact(
        [
            each.model_copy(update={"best_mb_per_s": None, "worst_mb_per_s": None})
            for each in samples
        ]
    )
    # Only the links with samples are known: the slowdown from 40 to 20 GB/s.
    expected = exp(slow_time(100, 20_000) - slow_time(100, 40_000)) - 1
    assert measured.percent == pytest.approx(100 * expected, abs=1)


def test_hidden_communication_makes_the_slowdown_on_the_worst_links_uncertain() -> None:
    # Half of the range of 1 / bandwidth has no samples. If communication is hidden up to 20 GB/s,
    # the slowdown on the worst links is higher than a straight line shows.
    straight = runs_on(100, *[40_000, 20_000] * 4)
    fact = only_fact(straight)
    assert fact.low_percent > 80
    assert fact.high_percent > 170
    complete = only_fact(runs_on(100, *[40_000, 20_000, WORST_MB_PER_S] * 4))
    assert complete.high_percent < 110


def test_flat_curve_up_to_a_bandwidth_is_fitted() -> None:
    best, worst = 1 / BEST_MB_PER_S, 1 / WORST_MB_PER_S
    middle = round(1 / (best + 0.5 * (worst - best)))
    noise = (0.0, 0.0, log(1.6)) * 3
    fact = only_fact(runs_on(0, *[BEST_MB_PER_S, middle, WORST_MB_PER_S] * 3, noise=noise))
    assert fact.percent == pytest.approx(60, abs=1)


def test_slowdown_without_an_end_is_limited() -> None:
    # Links of nearly equal slowness, compared with the worst, show no upper end.
    samples = runs_on(100, *[40_000, 30_000] * 2, noise=(0.5, -0.5, -0.5, 0.5))
    assert only_fact(samples).high_percent == 100_000
    assert only_fact(samples).low_percent == -100


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


def test_neighbours_on_bad_links_are_not_taken_for_the_links() -> None:
    clean = runs_on(0, *[BEST_MB_PER_S, WORST_MB_PER_S] * 3)
    beside = [
        each
        for run, bandwidth in zip("uvwxyz", [BEST_MB_PER_S] + [WORST_MB_PER_S] * 5, strict=True)
        for each in run_of(
            run, [0.25] * 3, start=900, effective_mb_per_s=bandwidth, socket_neighbours=["a/b"]
        )
    ]
    fact = only_fact([*clean, *beside])
    assert (fact.sensitivity, fact.samples) == ("Insensitive", 36)
    assert fact.percent == pytest.approx(0, abs=2)


def test_samples_with_fewer_cpus_than_the_demand_are_excluded() -> None:
    clean = runs_on(0, *[BEST_MB_PER_S, WORST_MB_PER_S] * 3)
    slow = run_of("x", [1.0] * 3, start=900, effective_mb_per_s=WORST_MB_PER_S, milli_cpu=1000)
    assert link_facts([*clean, *slow], {2: 4000}) == link_facts(clean)
    assert link_facts([*clean, *slow]) == link_facts(clean)


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
    assert shortage([]) == "no sample with enough CPUs has the bandwidth of its GPUs"
    assert link_facts([sample(effective_mb_per_s=None)]) == []


def test_missing_contrast_is_reported() -> None:
    samples = runs_on(0, *[20_000, 24_999] * 4)
    assert link_facts(samples) == []
    assert shortage(usable(samples, None)) == (
        "all samples have similar links (20000..24999 MB/s); run once on other links"
    )


def test_one_sample_on_each_side_shows_a_large_slowdown() -> None:
    # Two short runs on purpose give one sample each.
    best, worst = runs_on(60, BEST_MB_PER_S, WORST_MB_PER_S)[::3]
    fact = only_fact([best, worst])
    assert (fact.percent, fact.sensitivity, fact.samples) == (60, "Sensitive", 2)
    best, worst = runs_on(12, BEST_MB_PER_S, WORST_MB_PER_S)[::3]
    assert only_fact([best, worst]).sensitivity == "Unknown"


def test_faster_runs_on_slow_links_are_a_fault_and_show_no_class() -> None:
    # The sample on the best links was taken under a throttle.
    best, worst = runs_on(0, BEST_MB_PER_S, WORST_MB_PER_S, noise=(1.0, 0.0))[::3]
    fact = only_fact([best, worst])
    assert fact.high_percent < -5
    assert fact.sensitivity == "Unknown"


def test_two_runs_of_which_one_must_be_wrong_show_no_class() -> None:
    bandwidths = [BEST_MB_PER_S] * 8 + [WORST_MB_PER_S] * 2
    fact = only_fact(runs_on(0, *bandwidths, noise=(0.0,) * 9 + (1.0,)))
    assert fact.sensitivity == "Unknown"


def test_wrong_first_runs_are_outvoted_by_later_ones() -> None:
    first = runs_on(0, BEST_MB_PER_S, WORST_MB_PER_S, noise=(0.0, 0.5))
    assert only_fact(first).sensitivity == "Sensitive"
    later = [
        each.model_copy(update={"pod_uid": f"later {each.pod_uid}"})
        for each in runs_on(0, *[BEST_MB_PER_S, WORST_MB_PER_S] * 4)
    ]
    assert only_fact([*first, *later]).sensitivity == "Insensitive"
