"""A measured sharing goes on, or ends and is not tried again."""

import pytest

from gputopo.sharing.judge import MeasuredJob, SharingVerdict, VerdictReason, judge_sharing
from gputopo.sharing.model import SharingError
from gputopo.sharing.speedup import GainMeasure
from support.sharing import gavel, measured


def job(
    name: str, speed: float | None, limit: int | None = None, error: int = 0, solo: float = 10
) -> MeasuredJob:
    shared = None if speed is None else solo * speed
    return MeasuredJob(f"pod-{name}", name, solo, shared, error, limit)


def test_sharing_with_a_gain_goes_on_and_becomes_a_fact() -> None:
    found = judge_sharing([job("t/b", 0.75), job("t/a", 0.5)])
    assert (found.verdict, found.reason) == (SharingVerdict.KEEP, VerdictReason.GAIN)
    assert found.fact == measured(("t/a", 0.5), ("t/b", 0.75))
    assert found.text == "measured summed speed 1.25"
    assert found.slowdowns == pytest.approx((100 / 3, 100))


def test_sharing_without_a_gain_ends() -> None:
    """The example of the module: 10 and 4 steps a second become 4 and 1.5."""
    found = judge_sharing([job("t/a", 0.4), job("t/b", 0.375, solo=4)])
    assert (found.verdict, found.reason) == (SharingVerdict.END, VerdictReason.NO_GAIN)
    assert found.fact == measured(("t/a", 0.4), ("t/b", 0.375))
    assert found.gain is not None
    assert found.gain.summed_speed == pytest.approx(0.775)


def test_sharing_ends_if_the_first_job_is_slower_than_its_limit() -> None:
    found = judge_sharing([job("t/a", 0.5, limit=90), job("t/b", 0.9)])
    assert (found.verdict, found.reason) == (SharingVerdict.END, VerdictReason.TOO_SLOW)
    assert found.text == "pod-t/a takes 100 % longer, at most 90 %"
    kept = judge_sharing([job("t/a", 0.5, limit=100), job("t/b", 0.9)])
    assert kept.verdict is SharingVerdict.KEEP


def test_error_of_the_rates_does_not_end_a_sharing() -> None:
    within, beyond = job("a", 0.49, error=50), job("a", 0.49, error=10)
    assert judge_sharing([within, job("b", 0.49)]).verdict is SharingVerdict.KEEP
    assert judge_sharing([beyond, job("b", 0.49)]).verdict is SharingVerdict.END
    slow = job("a", 0.5, limit=95, error=50)
    assert judge_sharing([slow, job("b", 0.9)]).verdict is SharingVerdict.KEEP


def test_delta_can_judge_too() -> None:
    jobs = [job("a", 0.5, solo=1.0), job("b", 0.9, solo=100.0)]
    assert judge_sharing(jobs).verdict is SharingVerdict.KEEP
    found = judge_sharing(jobs, GainMeasure.DELTA)
    assert (found.verdict, found.text) == (SharingVerdict.END, "measured delta 0.51")


def test_nothing_is_judged_without_all_rates() -> None:
    found = judge_sharing([job("a", 0.1), job("b", None)])
    assert (found.verdict, found.reason) == (SharingVerdict.KEEP, VerdictReason.NOT_MEASURED)
    assert (found.fact, found.gain, found.slowdowns) == (None, None, ())
    assert found.text == "rate of pod-b not measured alone and beside the others"
    unknown_solo = MeasuredJob("pod-c", "c", None, 1.0)
    assert judge_sharing([job("a", 0.1), unknown_solo]).fact is None


def test_job_without_a_profile_gives_no_fact() -> None:
    found = judge_sharing([job("a", 0.3), job("", 0.3)])
    assert (found.verdict, found.fact) == (SharingVerdict.END, None)


def test_one_job_cannot_be_judged() -> None:
    with pytest.raises(SharingError, match="jobs: 1; at least two"):
        judge_sharing([job("a", 1)])


def test_speed_of_an_unmeasured_job_is_unknown() -> None:
    assert job("a", None).speed is None
    assert job("a", None).most_speed == 0


def test_batch_256_that_was_shared_wrongly_ends() -> None:
    """No similar pair of Gavel loses as much as this one, so it is predicted as a gain."""
    pairs = gavel()
    names = "Recommendation (batch size 8192)", "ResNet-18 (batch size 256)"
    speeds = pairs.speeds[names], pairs.speeds[names[::-1]]
    found = judge_sharing([job(name, speed) for name, speed in zip(names, speeds, strict=True)])
    assert (found.verdict, found.text) == (SharingVerdict.END, "measured summed speed 0.47")
