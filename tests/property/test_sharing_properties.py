"""Properties of predictions and decisions, for any facts, workloads, loads and limits."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gputopo.sharing.choice import SharingReason, SharingSettings
from gputopo.sharing.decision import decide_sharing
from gputopo.sharing.judge import MeasuredJob, SharingVerdict, VerdictReason, judge_sharing
from gputopo.sharing.loadlaw import LoadCapacity
from gputopo.sharing.model import MeasuredSharing, SharingJob, SharingWorkload, StepLoad
from gputopo.sharing.predictor import SharingPredictor
from gputopo.sharing.speedup import GainMeasure
from support.property_settings import fuzzed

NAMES = ("t/a", "t/b", "t/c", "t/d")
speeds = st.floats(0.02, 1.2)
rates = st.floats(1e-4, 1e5)
loads = st.builds(StepLoad, st.floats(0, 1e9), st.none() | st.floats(0, 1e9))


@st.composite
def workloads(draw: st.DrawFn) -> tuple[SharingWorkload, ...]:
    """Draw one workload of each name, so that equal names are equal workloads."""
    families = st.sampled_from(["", "f", "g"])
    return tuple(
        SharingWorkload(name, draw(families), draw(st.none() | rates), draw(st.none() | loads))
        for name in NAMES
    )


@st.composite
def facts(draw: st.DrawFn) -> MeasuredSharing:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=3))
    return MeasuredSharing.of([(name, draw(speeds)) for name in names], draw(st.integers(1, 9)))


@st.composite
def cases(draw: st.DrawFn) -> tuple[SharingPredictor, list[SharingJob], SharingSettings]:
    known = draw(workloads())
    capacity = draw(st.none() | st.builds(LoadCapacity, st.floats(0.1, 2)))
    predictor = SharingPredictor(draw(st.lists(facts(), max_size=8)), known, capacity)
    limits = st.none() | st.integers(0, 300)
    jobs = [
        SharingJob(f"job-{number}", draw(st.sampled_from(known)), 1, draw(limits))
        for number in range(draw(st.integers(2, 4)))
    ]
    measure = draw(st.sampled_from(GainMeasure))
    return predictor, jobs, SharingSettings(draw(st.floats(1, 2)), measure, 4)


@fuzzed
@given(cases())
def test_predicted_speeds_are_possible_and_in_their_intervals(
    case: tuple[SharingPredictor, list[SharingJob], SharingSettings],
) -> None:
    predictor, jobs, _ = case
    found = predictor.predict([job.workload for job in jobs])
    for speed in found.speeds:
        assert 0 < speed.low <= speed.value <= speed.high <= 1
    if found.gain and found.least and found.most:
        assert found.least.summed_speed <= found.gain.summed_speed <= found.most.summed_speed
        for low, high in ((found.least, found.gain), (found.gain, found.most)):
            assert low.delta is None or low.delta <= (high.delta or 0) * (1 + 1e-9)


@fuzzed
@given(cases())
def test_prediction_does_not_depend_on_the_order(
    case: tuple[SharingPredictor, list[SharingJob], SharingSettings],
) -> None:
    predictor, jobs, _ = case
    known = [job.workload for job in jobs]
    one, other = predictor.predict(known), predictor.predict(known[::-1])
    for speed, same in zip(one.speeds, other.speeds[::-1], strict=True):
        assert abs(speed.value - same.value) < 1e-9
        assert speed.source is same.source


@fuzzed
@given(cases())
def test_shared_jobs_gain_and_keep_their_limits(
    case: tuple[SharingPredictor, list[SharingJob], SharingSettings],
) -> None:
    predictor, jobs, settings = case
    found = decide_sharing(jobs[-1], jobs[:-1], predictor, settings, mps_available=True)
    again = decide_sharing(jobs[-1], jobs[:-1], predictor, settings, mps_available=True)
    assert found == again
    assert found.text
    if found.shares:
        assert not any(each.exceeds_limit for each in found.slowdowns)
        assert all(each.source.value != "Unknown" for each in found.slowdowns)
        strict = replace(settings, margin=100.0)  # no pair of jobs gains as much
        other = decide_sharing(jobs[-1], jobs[:-1], predictor, strict, mps_available=True)
        assert len(jobs) == 1 or other.reason is SharingReason.NO_GAIN
    else:
        assert found.reason not in {SharingReason.GAIN, SharingReason.EMPTY_GPU}


@fuzzed
@given(cases(), st.integers(0, 8).filter(lambda gpus: gpus != 1))
def test_never_shared(
    case: tuple[SharingPredictor, list[SharingJob], SharingSettings], gpus: int
) -> None:
    """Jobs of several GPUs, and any job without MPS."""
    predictor, jobs, settings = case
    large = SharingJob("large", jobs[0].workload, gpus)
    for newcomer, present in ((large, jobs), (jobs[0], [*jobs[1:], large])):
        assert not decide_sharing(newcomer, present, predictor, settings, mps_available=True).shares
    assert not decide_sharing(jobs[0], jobs[1:], predictor, settings, mps_available=False).shares


@fuzzed
@given(st.lists(facts(), max_size=8), st.randoms(), workloads())
def test_order_of_the_facts_changes_nothing(
    found: list[MeasuredSharing], source: object, known: tuple[SharingWorkload, ...]
) -> None:
    shuffled = list(found)
    source.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = SharingPredictor(found, known), SharingPredictor(shuffled, known)
    assert one.predict(known) == other.predict(known)


@fuzzed
@given(st.lists(st.tuples(rates, rates, st.none() | st.integers(0, 300)), min_size=2, max_size=4))
def test_sharing_ends_exactly_if_it_loses_or_a_limit_is_exceeded(
    measured: list[tuple[float, float, int | None]],
) -> None:
    jobs = [
        MeasuredJob(f"job-{number}", f"t/{number}", solo, shared, 0, limit)
        for number, (solo, shared, limit) in enumerate(measured)
    ]
    found = judge_sharing(jobs)
    slow = [
        100 * (solo / shared - 1) > limit + 1e-6
        for solo, shared, limit in measured
        if limit is not None
    ]
    if sum(shared / solo for solo, shared, _ in measured) < 1 - 1e-9 or any(slow):
        assert found.verdict is SharingVerdict.END
    assert (found.reason is VerdictReason.GAIN) == (found.verdict is SharingVerdict.KEEP)
    assert found.fact is not None
    assert found.fact.workloads == tuple(job.workload for job in jobs)
