"""What hardware counters showed of the communication of a workload."""

from typing import Any

import pytest

from gputopo.api.known_facts import parse_facts
from gputopo.api.names import FACTS_ANNOTATION
from gputopo.api.profile import (
    CommunicationFact,
    GPUProfileSpec,
    GPUProfileStatus,
    LinkFact,
    Sample,
    WorkloadFacts,
)
from gputopo.profiles.amounts import MeanAmount, mean_amount
from gputopo.profiles.communication import communication_facts
from gputopo.profiles.known import facts_annotation
from gputopo.profiles.update import updated_status
from gputopo.profiles.words import summary
from support.builders.samples import BEST, WORST, sample

RATE = 10.0  # steps per second of the samples
GPUS = 4


def seen(number: int = 0, sent: int = 10**9, **fields: Any) -> Sample:
    """Return a sample of 4 GPUs that send this number of bytes per step in a ring."""
    traffic = {
        "source": fields.pop("source", "NVLinkPairs"),
        "bytesPerStep": sent,
        "pattern": fields.pop("shown", "Ring"),
        "confidencePermille": fields.pop("permille", 1000),
        "windows": fields.pop("windows", 12),
    }
    return sample(number, **{"gpus": GPUS, "traffic": traffic, "ciPermille": 0} | fields)


def only_fact(*samples: Sample, demand: int | None = None) -> CommunicationFact:
    (fact,) = communication_facts(samples, {GPUS: demand})
    return fact


def test_mean_of_amounts_leaves_outliers_out() -> None:
    assert mean_amount([100, 102, 500]).value == 101
    assert mean_amount([0, 0, 7]) == MeanAmount(0, 0, 0)
    assert mean_amount([2**53 - 1]).high == 2**53 - 1


def test_interval_is_narrower_with_more_samples_and_wider_with_more_scatter() -> None:
    def width(*amounts: int) -> int:
        found = mean_amount(amounts)
        assert found.low <= found.value <= found.high
        return found.high - found.low

    assert width(1000) > width(1000, 1000, 1000) > width(*[1000] * 9)
    assert width(900, 1000, 1100) > width(990, 1000, 1010)


def test_fact_has_the_mean_bytes_and_the_pattern_of_all_samples() -> None:
    fact = only_fact(seen(1, 10**9), seen(2, 1_010_000_000), seen(3, 990_000_000))
    assert (fact.gpus, fact.source, fact.samples) == (GPUS, "NVLinkPairs", 3)
    assert fact.bytes_per_step == 10**9
    assert 0.9e9 < fact.low_bytes_per_step < 10**9 < fact.high_bytes_per_step < 1.1e9
    assert (fact.pattern, fact.confidence_permille, fact.windows) == ("Ring", 1000, 36)


def test_jobs_with_one_gpu_and_samples_without_traffic_have_no_fact() -> None:
    assert communication_facts([sample(1), seen(2, gpus=1)]) == []
    assert communication_facts([seen(1, source="Newer")]) == []


def test_best_source_decides_about_the_bytes() -> None:
    pairs, totals, partial = (
        seen(number, sent, source=source)
        for number, (source, sent) in enumerate(
            [("NVLinkPairs", 10**9), ("NVLinkTotals", 2 * 10**9), ("Partial", 3 * 10**9)]
        )
    )
    assert only_fact(partial, totals, pairs).bytes_per_step == 10**9
    fact = only_fact(partial, totals)
    assert (fact.source, fact.bytes_per_step, fact.samples) == ("NVLinkTotals", 2 * 10**9, 1)
    assert fact.pattern == "Unknown"
    assert only_fact(partial).source == "Partial"


def test_confidence_is_weighted_by_windows() -> None:
    fact = only_fact(seen(1, windows=900), seen(2, windows=100, shown="AllToAll"))
    assert (fact.pattern, fact.confidence_permille, fact.windows) == ("Ring", 900, 1000)
    fact = only_fact(seen(1, windows=30, permille=800), seen(2, windows=10, permille=1000))
    assert fact.confidence_permille == 850


@pytest.mark.parametrize(
    "samples",
    [
        (seen(1), seen(2, shown="Star")),
        (seen(1, windows=60), seen(2, shown="Unknown", permille=0, windows=40)),
        (seen(1, windows=0),),
        (seen(1, shown="Unknown", permille=0),),
        (seen(1, shown="None", permille=850),),
    ],
)
def test_samples_that_contradict_each_other_or_show_nothing_give_no_pattern(
    samples: tuple[Sample, ...],
) -> None:
    fact = only_fact(*samples)
    assert (fact.pattern, fact.confidence_permille) == ("Unknown", 0)


def test_gpus_that_do_not_communicate_need_nearly_all_windows() -> None:
    fact = only_fact(seen(1, 0, shown="None", permille=950))
    assert (fact.pattern, fact.bytes_per_step, fact.slowdown_high_percent) == ("None", 0, 0)
    annotation = facts_annotation("bert", None, facts(fact))
    assert annotation is not None
    assert annotation.patterns == {}


def expected_percent(high_bytes: float, carried: float = 1.0) -> float:
    """Return the longest extra time on the worst links, in percent of a step on the best."""
    seconds = carried * high_bytes / 1e6 * (1 / WORST - 1 / BEST)
    return min(100 * seconds * RATE, 100 * (BEST / WORST - 1))


@pytest.mark.parametrize(
    ("shown", "assumed", "carried"),
    [
        ("Ring", "Ring", 1.0),
        ("Ring", "Tree", 1.0),
        ("AllToAll", "Ring", 16 / 12),
        ("AllToAll", "AllToAll", 1.0),
        ("Star", "Ring", 2.0),
        ("Star", "Star", 2.0),
        ("Unknown", "RingTree", 2.0),
        ("None", "Ring", 2.0),
    ],
)
def test_slowdown_is_limited_by_the_bytes_that_links_carry_at_most(
    shown: str, assumed: str, carried: float
) -> None:
    fact = only_fact(*(seen(n, 10**7, shown=shown, pattern=assumed) for n in range(3)))
    expected = expected_percent(fact.high_bytes_per_step, carried)
    assert fact.slowdown_high_percent == pytest.approx(expected, abs=1)
    assert (fact.slowdown_high_percent or 0) >= expected


def test_share_of_a_step_is_limited_too() -> None:
    # 1 GB takes 0.021 s of the 0.1 s of a step.
    fact = only_fact(*(seen(n) for n in range(3)))
    share = 100 * fact.high_bytes_per_step / 1e6 / BEST * RATE
    assert fact.share_high_percent == pytest.approx(share, abs=1)
    assert only_fact(seen(1, 10**12)).share_high_percent == 100


def test_slowdown_never_exceeds_the_ratio_of_the_bandwidths() -> None:
    assert only_fact(seen(1, 10**12)).slowdown_high_percent == 300


def test_time_on_the_best_links_is_at_most_the_measured_time() -> None:
    # On the worst links, 1 GB takes 0.083 s of the 0.1 s of a step, and 0.021 s on the best.
    fact = only_fact(*(seen(n, effectiveMBps=WORST) for n in range(3)))
    high = fact.high_bytes_per_step / 1e6
    longer = high / WORST - high / BEST
    assert fact.slowdown_high_percent == pytest.approx(100 * longer / (0.1 - longer), abs=1)


@pytest.mark.parametrize(
    "fields",
    [
        {"shown": "Unknown", "pattern": "Star"},
        {"pattern": None},
        {"effectiveMBps": None},
        {"bestMBps": None},
        {"worstMBps": 0},
        {"effectiveMBps": BEST + 1},
        {"worstMBps": 1, "sent": 2**53 - 1},
    ],
)
def test_bandwidths_that_do_not_fit_limit_nothing(fields: dict[str, Any]) -> None:
    fact = only_fact(seen(1, **fields))
    assert (fact.slowdown_high_percent, fact.share_high_percent) == (None, None)


def test_largest_limit_of_all_samples_counts() -> None:
    small, large = (
        seen(n, 10**7, microStepsPerSecond=rate) for n, rate in enumerate((10**6, 10**7))
    )
    assert only_fact(small, large).slowdown_high_percent == (
        only_fact(large, large).slowdown_high_percent
    )


def test_steps_that_wait_for_cpus_do_not_limit_the_slowdown() -> None:
    fast = seen(1, 10**7, milliCPU=8000)
    slow = seen(2, 10**7, milliCPU=1000, microStepsPerSecond=10**5)
    assert only_fact(slow, demand=4000).slowdown_high_percent is None
    assert only_fact(fast, slow, demand=4000).slowdown_high_percent == (
        only_fact(fast, fast.model_copy(update={"pod_uid": "x"})).slowdown_high_percent
    )


def facts(*communication: CommunicationFact, **fields: Any) -> WorkloadFacts:
    return WorkloadFacts(gpu_model="V100", communication=[*communication], **fields)


def fact(gpus: int = GPUS, **fields: Any) -> CommunicationFact:
    values = {"source": "NVLinkPairs", "samples": 3, "bytes_per_step": 10}
    values |= {"low_bytes_per_step": 9, "high_bytes_per_step": 11}
    return CommunicationFact.model_validate({"gpus": gpus, **values, **fields})


MEASURED = LinkFact(
    gpus=2, percent=45, low_percent=40, high_percent=50, samples=8, sensitivity="Sensitive"
)


def test_limit_is_used_only_while_no_measurement_shows_the_slowdown() -> None:
    limited = facts(
        fact(2, slowdown_high_percent=4), fact(4, slowdown_high_percent=5), links=[MEASURED]
    )
    found = facts_annotation("bert", None, limited)
    assert found is not None
    assert (found.source, [*found.links]) == ("Measured", [2, 4])
    assert (found.links[2].low, found.links[2].source) == (40, None)
    assert (found.links[4].high, found.links[4].source) == (5, "Counters")


def test_declared_slowdown_has_priority_and_patterns_stay() -> None:
    known = facts(fact(pattern="Star", confidence_permille=900, windows=30))
    declared = facts_annotation("bert", 45, known)
    assert declared is not None
    assert (declared.source, [*declared.links], [*declared.patterns]) == ("Declared", [0], [4])
    learnt = facts_annotation("bert", None, known)
    assert learnt is not None
    assert (learnt.source, learnt.links) == ("Counters", {})
    assert str(learnt.patterns[4]) == "Star, seen in 90 % of 30 windows"


def test_nothing_known_gives_no_annotation() -> None:
    assert facts_annotation("bert", None, None) is None
    assert facts_annotation("bert", None, facts(fact(pattern="Torus"))) is None


def test_summary_names_the_counters_and_measurements_have_priority() -> None:
    few = fact(4, slowdown_high_percent=4)
    assert summary(None, [], [few]) == "insensitive, at most 4 % by counters"
    assert summary(None, [], [fact(slowdown_high_percent=10), fact(2)]) == "unknown"
    assert summary(None, [MEASURED], [few, fact(2, slowdown_high_percent=1)]) == (
        "2 GPUs: 45 % (40..50); 4 GPUs: insensitive, at most 4 % by counters"
    )
    assert summary(30, [], [few]) == "30 % (declared)"


def test_status_after_one_run_has_the_facts_for_the_second() -> None:
    status = updated_status(
        GPUProfileStatus(),
        GPUProfileSpec(),
        [seen(n, 10**6, podUID="u1", shown="AllToAll") for n in range(3)],
        name="bert",
        generation=1,
        now="2026-11-22T12:00:00Z",
    )
    assert status.summary == "insensitive, at most 1 % by counters"
    measured = next(each for each in status.conditions if each.type == "Measured")
    assert (measured.status, measured.reason) == ("False", "NotEnoughData")
    assert measured.message == (
        "4 GPUs: at most 1 % by counters; all samples have similar links (48000..48000 MB/s); "
        "run once on other links"
    )
    found = parse_facts({FACTS_ANNOTATION: status.pod_annotation or ""})
    assert found is not None
    assert str(found.slowdown(4)) == "at most 1 % slower on the worst links by counters, 3 samples"
    assert str(found.patterns[4]) == "AllToAll, seen in 100 % of 36 windows"
