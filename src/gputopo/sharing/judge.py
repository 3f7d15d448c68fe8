"""Judges a measured sharing: it goes on, or it ends because it does not pay.

The caller measures the rate of each job for a stated time, and calls :func:`judge_sharing`. A
sharing ends if the gain is below 1, or if a job is slower than its own limit, by more than the
error of the rates. Then the job that came last leaves. In both cases the measured speeds become a
fact, so that a set of workloads that does not pay is not tried again.

Example: alone, two jobs make 10 and 4 steps a second, together 4 and 1.5. The summed speed is
0.4 + 0.375 = 0.775, so the second job leaves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from gputopo.sharing.model import MeasuredSharing, SharingError
from gputopo.sharing.speedup import GainMeasure, SharingGain, gain_of, slowdown_percent
from gputopo.sharing.words import measured_text, slowdown_text


class SharingVerdict(StrEnum):
    """Whether a sharing goes on."""

    KEEP = "Keep"
    END = "End"


class VerdictReason(StrEnum):
    """Why a sharing goes on or ends."""

    GAIN = "Gain"
    NOT_MEASURED = "NotMeasured"
    NO_GAIN = "NoGain"
    TOO_SLOW = "TooSlow"


@dataclass(frozen=True, slots=True)
class MeasuredJob:
    """A job that shares a GPU, and its rates in steps per second.

    Attributes:
        name: name of the job in messages.
        workload: its GPUProfile, ``NAMESPACE/PROFILE``; empty if it names none.
        solo_rate: rate alone on a GPU of this model; None if it was not measured.
        shared_rate: rate now; None if it was not measured.
        error_permille: half of the width of the 95 % interval of the ratio of both rates, in
            thousandths of the ratio.
        max_slowdown_percent: how much longer its steps may take; None without limit.
    """

    name: str
    workload: str
    solo_rate: float | None
    shared_rate: float | None
    error_permille: int = 0
    max_slowdown_percent: int | None = None

    def __post_init__(self) -> None:
        for field, rate in (("solo_rate", self.solo_rate), ("shared_rate", self.shared_rate)):
            if rate is not None and not (rate > 0 and isfinite(rate)):
                raise SharingError(f"{field}: {rate} of {self.name!r}; must be above 0")

    @property
    def speed(self) -> float | None:
        """The normalised speed; None if a rate is unknown."""
        if self.solo_rate is None or self.shared_rate is None:
            return None
        return self.shared_rate / self.solo_rate

    @property
    def most_speed(self) -> float:
        """Upper end of the interval of the speed; only if both rates are known."""
        return (self.speed or 0.0) * (1 + self.error_permille / 1000)


@dataclass(frozen=True, slots=True)
class SharingJudgement:
    """Result of a measured sharing.

    Attributes:
        gain: measured gain; None if a rate is unknown.
        slowdowns: measured slowdown of each job in percent; empty if a rate is unknown.
        fact: the measured speeds; None if a rate or the name of a workload is unknown.
        text: the reason in words.
    """

    verdict: SharingVerdict
    reason: VerdictReason
    text: str
    gain: SharingGain | None = None
    slowdowns: tuple[float, ...] = ()
    fact: MeasuredSharing | None = None


def judge_sharing(
    jobs: Sequence[MeasuredJob], measure: GainMeasure = GainMeasure.SUMMED_SPEED
) -> SharingJudgement:
    """Judge the measured rates of the jobs of one GPU, in the order in which they started.

    Args:
        jobs: at least two jobs.
        measure: measure of the gain that must be at least 1.

    Raises:
        SharingError: if there are less than two jobs.
    """
    if len(jobs) < 2:  # noqa: PLR2004 - one job shares with none
        raise SharingError(f"jobs: {len(jobs)}; at least two share a GPU")
    speeds = [job.speed for job in jobs if job.speed is not None]
    if len(speeds) < len(jobs):
        names = ", ".join(job.name for job in jobs if job.speed is None)
        text = f"rate of {names} not measured alone and beside the others"
        return SharingJudgement(SharingVerdict.KEEP, VerdictReason.NOT_MEASURED, text)
    gain = gain_of(speeds, [job.solo_rate for job in jobs])
    reason, text = _reason(jobs, gain, measure)
    return SharingJudgement(
        SharingVerdict.KEEP if reason is VerdictReason.GAIN else SharingVerdict.END,
        reason,
        text,
        gain,
        tuple(map(slowdown_percent, speeds)),
        _fact(jobs, speeds),
    )


def _reason(
    jobs: Sequence[MeasuredJob], gain: SharingGain, measure: GainMeasure
) -> tuple[VerdictReason, str]:
    most = gain_of([job.most_speed for job in jobs], [job.solo_rate for job in jobs])
    if (most.by(measure) or 0.0) < 1:
        return VerdictReason.NO_GAIN, measured_text(measure, gain)
    for job in jobs:
        limit = job.max_slowdown_percent
        if limit is not None and slowdown_percent(job.most_speed) > limit:
            percent = slowdown_percent(job.speed or job.most_speed)
            return VerdictReason.TOO_SLOW, slowdown_text(job.name, percent, limit)
    return VerdictReason.GAIN, measured_text(measure, gain)


def _fact(jobs: Sequence[MeasuredJob], speeds: Sequence[float]) -> MeasuredSharing | None:
    if not all(job.workload for job in jobs):
        return None
    names = [job.workload for job in jobs]
    return MeasuredSharing.of(list(zip(names, speeds, strict=True)))
