"""Facts of any samples: valid, independent of order, of units, and of repeated reports."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gputopo.api.profile import (
    MAX_SAMPLES,
    CpuPoint,
    GPUProfileSpec,
    GPUProfileStatus,
    Sample,
    SampleLoad,
    SampleTraffic,
    ScalingFact,
    WorkloadFacts,
)
from gputopo.profiles.comparable import in_order
from gputopo.profiles.facts import workload_facts
from gputopo.profiles.retention import _setting, retain
from gputopo.profiles.update import updated_status
from support.property_settings import fuzzed

INT64, INT32 = 2**63 - 1, 2**31 - 1
NOW = "2026-06-01T00:00:00Z"
START = datetime(2026, 1, 1, tzinfo=UTC)

workloads = st.sampled_from(["ml/bert", "ml/gpt", "ml/"])
bandwidths = st.none() | st.sampled_from([0, 1, 9_000, 12_000, 24_000, 48_000, INT64])
times = st.integers(0, 200_000).map(
    lambda minutes: (START + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
) | st.sampled_from(["0000-00-00T00:00:00Z", "2026-02-31T25:61:61Z"])

bytes_per_step = st.sampled_from([0, 1, 10**6, 10**9, 1_020_000_000, 2**53 - 1])
traffic = st.builds(
    SampleTraffic,
    source=st.sampled_from(["NVLinkPairs", "NVLinkPairs", "NVLinkTotals", "Partial", "Newer"]),
    bytes_per_step=bytes_per_step,
    pattern=st.sampled_from(["Ring", "AllToAll", "Star", "None", "Unknown", "Custom", "Torus"]),
    confidence_permille=st.integers(0, 1000),
    windows=st.integers(0, 10**6),
)
load = st.builds(
    SampleLoad,
    source=st.sampled_from(["GPM", "DCGM", "Utilization", "Newer"]),
    occupancy_us=bytes_per_step,
    dram_us=st.none() | bytes_per_step,
)

any_sample = st.builds(
    Sample,
    pod_uid=st.sampled_from([f"run-{number}" for number in range(9)]),
    container=st.just("main"),
    time=times,
    seconds=st.integers(1, INT32),
    source=st.sampled_from(["SDK", "Metrics", "Log"]),
    micro_steps_per_second=st.integers(900_000, 1_100_000) | st.integers(1, INT64),
    ci_permille=st.integers(0, 100) | st.integers(0, INT32),
    gpu_model=st.sampled_from(["V100"] * 9 + ["A100"]),
    gpus=st.sampled_from([1, 2, 2, 2, 3, 16]),
    image_digest=st.sampled_from([""] * 9 + ["sha256:1"]),
    model=st.sampled_from(["eq2", "eq2", "physical", None]),
    pattern=st.sampled_from(["Ring", "Ring", "Star", None]),
    traffic=st.none() | traffic,
    load=st.none() | load,
    effective_mb_per_s=bandwidths,
    best_mb_per_s=bandwidths,
    worst_mb_per_s=bandwidths,
    milli_cpu=st.none() | st.sampled_from([1, 2000, 4000, 8000, INT64]),
    socket_neighbours=st.lists(workloads, max_size=2),
    node_neighbours=st.lists(workloads, max_size=2),
)
any_samples = st.lists(any_sample, max_size=90)
different_samples = st.lists(any_sample, max_size=90, unique_by=lambda sample: sample.key)


def status_of(
    samples: Sequence[Sample],
    status: GPUProfileStatus | None = None,
    declared: int | None = None,
) -> GPUProfileStatus:
    return updated_status(
        status or GPUProfileStatus(),
        GPUProfileSpec(bandwidth_sensitivity_percent=declared),
        samples,
        name="bert",
        generation=1,
        now=NOW,
    )


def percentages(facts: WorkloadFacts | None) -> object:
    """Return everything in facts that does not depend on the unit of rates."""
    if facts is None:
        return None
    demands = [(fact.gpus, fact.demand_milli_cpu) for fact in facts.cpus]
    return facts.links, facts.neighbours, demands


@fuzzed
@given(samples=any_samples, declared=st.none() | st.integers(0, 100))
def test_status_of_any_samples_is_valid(samples: list[Sample], declared: int | None) -> None:
    status = status_of(samples, declared=declared)
    assert GPUProfileStatus.model_validate_json(status.model_dump_json(by_alias=True)) == status
    if status.facts:
        for link in status.facts.links:
            assert link.low_percent <= link.percent <= link.high_percent
        for sent in status.facts.communication:
            assert sent.low_bytes_per_step <= sent.bytes_per_step <= sent.high_bytes_per_step
            assert (sent.slowdown_high_percent or 0) >= 0
            assert (sent.confidence_permille == 0) == (sent.pattern == "Unknown")
        assert status.pod_annotation is None or len(status.pod_annotation) <= 4096
        points = [point for fact in status.facts.cpus for point in fact.points]
        rates: list[CpuPoint | ScalingFact] = [*points, *status.facts.scaling]
        for rate in rates:
            assert rate.micro_steps_per_second <= INT64
            assert rate.ci_permille <= INT32


@fuzzed
@given(samples=any_samples, random=st.randoms(use_true_random=False))
def test_order_of_samples_does_not_matter(samples: list[Sample], random: Random) -> None:
    shuffled = list(samples)
    random.shuffle(shuffled)
    assert status_of(shuffled) == status_of(samples)
    assert workload_facts(retain(shuffled)) == workload_facts(retain(samples))


@fuzzed
@given(samples=any_samples, data=st.data())
def test_samples_that_are_reported_again_change_nothing(
    samples: list[Sample], data: st.DataObject
) -> None:
    status = status_of(samples)
    again = data.draw(st.lists(st.sampled_from(samples), max_size=32)) if samples else []
    assert status_of(again, status) == status


@fuzzed
@given(samples=different_samples)
def test_settings_keep_their_newest_sample(samples: list[Sample]) -> None:
    kept = retain(samples)
    assert len(kept) == min(MAX_SAMPLES, len(samples))
    assert retain(kept) == kept
    newest = {_setting(sample): sample for sample in in_order(samples)}
    if len(newest) <= MAX_SAMPLES:
        assert {sample.key for sample in newest.values()} <= {sample.key for sample in kept}


@fuzzed
@given(samples=different_samples, exponent=st.integers(1, 20))
def test_unit_of_rates_does_not_matter(samples: list[Sample], exponent: int) -> None:
    scaled = [
        sample.model_copy(
            update={"micro_steps_per_second": sample.micro_steps_per_second * 2**exponent}
        )
        for sample in samples
    ]
    assert percentages(workload_facts(scaled)) == percentages(workload_facts(samples))
