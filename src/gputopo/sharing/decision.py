"""Decides whether a job shares a GPU with the jobs that run on it now.

A job shares only if all of this holds:

- the predicted gain (:class:`gputopo.sharing.speedup.GainMeasure`) exceeds a margin;
- no job, the newcomer or a running one, becomes slower than its own limit;
- the speeds are known: measured, learnt from similar pairs, or computed from loads;
- all jobs use one GPU, MPS is ready on the GPU, and the GPU has not too many jobs already.

An empty GPU takes the first job without a prediction. Whether the memory of the jobs fits is not
decided here: the caller adds up what they declare.

All inputs and results are plain values, so that a recorded decision can be repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gputopo.sharing.estimate import SpeedEstimate, SpeedSource
from gputopo.sharing.model import SharingError, SharingJob
from gputopo.sharing.predictor import SetPrediction, SharingPredictor
from gputopo.sharing.speedup import GainMeasure, SharingGain, slowdown_percent
from gputopo.sharing.words import gain_text, slowdown_text, unknown_text

_ROUNDING: Final = 1e-9


class SharingChoice(StrEnum):
    """Whether the newcomer gets a part of the GPU."""

    SHARE = "Share"
    DO_NOT_SHARE = "DoNotShare"


class SharingReason(StrEnum):
    """Why a job shares a GPU or not."""

    EMPTY_GPU = "EmptyGpu"
    GAIN = "Gain"
    SEVERAL_GPUS = "SeveralGpus"
    MPS_NOT_READY = "MpsNotReady"
    TOO_MANY_JOBS = "TooManyJobs"
    UNKNOWN_SPEED = "UnknownSpeed"
    NO_GAIN = "NoGain"
    TOO_SLOW = "TooSlow"


@dataclass(frozen=True, slots=True)
class SharingSettings:
    """Settings of an installation.

    Attributes:
        margin: least predicted gain, above which a job shares.
        measure: measure of the gain. The summed speed minimises completion times in the simulator
            (docs/studies/sharing.md).
        max_jobs: most jobs of one GPU.
    """

    margin: float = 1.05
    measure: GainMeasure = GainMeasure.SUMMED_SPEED
    max_jobs: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.margin <= 100:  # noqa: PLR2004 - also rejects NaN
            raise SharingError(f"margin: {self.margin}; must be in 1..100")
        if self.max_jobs < 1:
            raise SharingError(f"max_jobs: {self.max_jobs}; must be at least 1")


@dataclass(frozen=True, slots=True)
class JobSlowdown:
    """Predicted slowdown of one job, in percent of the time of a step alone.

    Attributes:
        job: name of the job.
        low: lower end of the 95 % interval.
        high: upper end.
        limit: the job's own limit; None without limit.
        source: where the prediction comes from.
    """

    job: str
    percent: float
    low: float
    high: float
    limit: int | None
    source: SpeedSource

    @property
    def exceeds_limit(self) -> bool:
        """Whether the predicted slowdown is above the limit of the job."""
        return self.limit is not None and self.percent > self.limit + _ROUNDING


@dataclass(frozen=True, slots=True)
class SharingDecision:
    """Whether a job shares a GPU, and why.

    Attributes:
        gain: predicted gain; None if it is unknown or was not needed.
        least: gain at the lower ends of the speeds' 95 % intervals.
        most: gain at the upper ends.
        slowdowns: predicted slowdown of each job, the newcomer last; empty if not needed.
        text: the reason in words, with the values that decided.
    """

    choice: SharingChoice
    reason: SharingReason
    text: str
    gain: SharingGain | None = None
    least: SharingGain | None = None
    most: SharingGain | None = None
    slowdowns: tuple[JobSlowdown, ...] = ()

    @property
    def shares(self) -> bool:
        """Whether the newcomer gets a part of the GPU."""
        return self.choice is SharingChoice.SHARE


def decide_sharing(
    newcomer: SharingJob,
    present: Sequence[SharingJob],
    predictor: SharingPredictor,
    settings: SharingSettings,
    *,
    mps_ready: bool,
) -> SharingDecision:
    """Return whether ``newcomer`` shares a GPU with the jobs that run on it.

    The cost is some microseconds for each pair of workloads that the predictor has seen before.

    Args:
        newcomer: the job that needs a GPU.
        present: jobs that share the GPU now, in any order.
        predictor: the facts for the GPU's model.
        settings: margin, measure and highest number of jobs.
        mps_ready: whether the MPS daemon of the GPU is ready for clients.
    """
    rejected = _rejected(newcomer, present, settings, mps_ready=mps_ready)
    if rejected is not None:
        return rejected
    workloads = [job.workload for job in (*present, newcomer)]
    return judge_prediction(newcomer, present, predictor.predict(workloads), settings)


def judge_prediction(
    newcomer: SharingJob,
    present: Sequence[SharingJob],
    prediction: SetPrediction,
    settings: SharingSettings,
) -> SharingDecision:
    """Return the decision for predicted speeds of ``present`` and ``newcomer``, in this order."""
    if not present:
        return SharingDecision(SharingChoice.SHARE, SharingReason.EMPTY_GPU, "the GPU is empty")
    slowdowns = tuple(map(_slowdown, (*present, newcomer), prediction.speeds))
    gain, least, most = prediction.gain, prediction.least, prediction.most
    value = None if gain is None else gain.by(settings.measure)
    reason, text = SharingReason.UNKNOWN_SPEED, _unknown(slowdowns, settings)
    if gain and least and most and value is not None:
        reason = _reason(value, slowdowns, settings)
        described = gain_text(settings.measure, gain, least, most)
        text = f"predicted {described}, margin {settings.margin:g}; {_slowest(slowdowns)}"
    choice = SharingChoice.DO_NOT_SHARE
    if reason is SharingReason.GAIN:
        choice = SharingChoice.SHARE
    return SharingDecision(choice, reason, text, gain, least, most, slowdowns)


def _rejected(
    newcomer: SharingJob,
    present: Sequence[SharingJob],
    settings: SharingSettings,
    *,
    mps_ready: bool,
) -> SharingDecision | None:
    """Return the decision that needs no prediction; None if a prediction decides."""
    several = [job for job in (*present, newcomer) if job.gpus != 1]
    jobs = len(present) + 1
    if several:
        job = several[0]
        reason, text = SharingReason.SEVERAL_GPUS, f"{job.name} uses {job.gpus} GPUs; must be 1"
    elif not mps_ready:
        reason, text = SharingReason.MPS_NOT_READY, "MPS is not ready on the GPU"
    elif jobs > settings.max_jobs:
        reason = SharingReason.TOO_MANY_JOBS
        text = f"{jobs} jobs on the GPU; at most {settings.max_jobs}"
    else:
        return None
    return SharingDecision(SharingChoice.DO_NOT_SHARE, reason, text)


def _slowdown(job: SharingJob, speed: SpeedEstimate) -> JobSlowdown:
    return JobSlowdown(
        job.name,
        slowdown_percent(speed.value),
        slowdown_percent(speed.high),
        slowdown_percent(speed.low),
        job.max_slowdown_percent,
        speed.source,
    )


def _reason(
    gain: float, slowdowns: Sequence[JobSlowdown], settings: SharingSettings
) -> SharingReason:
    if gain <= settings.margin:
        return SharingReason.NO_GAIN
    if any(each.exceeds_limit for each in slowdowns):
        return SharingReason.TOO_SLOW
    return SharingReason.GAIN


def _unknown(slowdowns: Sequence[JobSlowdown], settings: SharingSettings) -> str:
    """Describe why the gain is unknown: a speed is unknown, or a solo rate that delta needs."""
    unknown = [each.job for each in slowdowns if each.source is SpeedSource.UNKNOWN]
    if unknown:
        return unknown_text(unknown)
    return f"{settings.measure.value} needs the rate of each job alone, and one is unknown"


def _slowest(slowdowns: Sequence[JobSlowdown]) -> str:
    """Describe the job that decides: one above its limit if there is one, else the slowest."""
    slowest = max(slowdowns, key=lambda each: (each.exceeds_limit, each.percent))
    return slowdown_text(slowest.job, slowest.percent, slowest.limit)
