"""Decides whether a job shares a GPU with the jobs that run on it now.

A job shares only if all of this holds:

- with it, the predicted gain (:class:`gputopo.sharing.speedup.GainMeasure`) is higher than without
  it by more than a margin. One job alone has the gain 1;
- no job, the newcomer or a running one, becomes slower than its own limit;
- the speeds are known: measured, learnt from similar pairs, or computed from loads;
- all jobs use one GPU, MPS is available on it, and it has not too many jobs already.

Example: two jobs have a summed speed of 1.6. With a third one it would be 1.5, so the third job
waits or gets another GPU, although 1.5 is a gain over one job.

An empty GPU takes the first job without a prediction. Whether the memory of the jobs fits is not
decided here: the caller adds up what they declare.

All inputs and results are plain values, so that a recorded decision can be repeated.
"""

from collections.abc import Sequence

from gputopo.sharing.choice import (
    JobSlowdown,
    SharingChoice,
    SharingDecision,
    SharingReason,
    SharingSettings,
)
from gputopo.sharing.estimate import SpeedEstimate, SpeedSource
from gputopo.sharing.model import SharingJob
from gputopo.sharing.predictor import SetPrediction, SharingPredictor
from gputopo.sharing.speedup import slowdown_percent
from gputopo.sharing.words import gain_text, slowdown_text, unknown_text


def decide_sharing(
    newcomer: SharingJob,
    present: Sequence[SharingJob],
    predictor: SharingPredictor,
    settings: SharingSettings,
    *,
    mps_available: bool,
) -> SharingDecision:
    """Return whether ``newcomer`` shares a GPU with the jobs that run on it.

    It takes less than 0.1 ms if the predictor has seen the pairs of workloads before.

    Args:
        newcomer: the job that needs a GPU.
        present: jobs that share the GPU now, in any order.
        predictor: the facts for the GPU's model.
        settings: margin, measure and highest number of jobs.
        mps_available: whether the MPS daemon of the GPU is ready for clients, or can be started
            because the GPU is empty.
    """
    at_once = _without_prediction(newcomer, present, settings, mps_available=mps_available)
    if at_once is not None:
        return at_once
    workloads = [job.workload for job in (*present, newcomer)]
    before = predictor.predict(workloads[:-1])
    return judge_prediction(newcomer, present, before, predictor.predict(workloads), settings)


def judge_prediction(
    newcomer: SharingJob,
    present: Sequence[SharingJob],
    before: SetPrediction,
    prediction: SetPrediction,
    settings: SharingSettings,
) -> SharingDecision:
    """Return the decision for the predictions of ``present`` without and with ``newcomer``.

    There must be at least one running job.
    """
    slowdowns = tuple(map(_slowdown, (*present, newcomer), prediction.speeds))
    gain, least, most = prediction.gain, prediction.least, prediction.most
    improvement = _improvement(before, prediction, settings)
    reason, text = SharingReason.UNKNOWN_SPEED, _unknown(slowdowns)
    if improvement is not None and gain and least and most:
        reason = _reason(improvement, slowdowns, settings)
        described = gain_text(settings.measure, gain, least, most)
        change = f"{improvement:.2f} times that without it, margin {settings.margin:g}"
        text = f"predicted {described}, {change}; {_slowest(slowdowns)}"
    choice = SharingChoice.DO_NOT_SHARE
    if reason is SharingReason.GAIN:
        choice = SharingChoice.SHARE
    return SharingDecision(choice, reason, text, gain, least, most, slowdowns)


def _improvement(
    before: SetPrediction, prediction: SetPrediction, settings: SharingSettings
) -> float | None:
    """Return the gain with the newcomer divided by that without it; None if one is unknown."""
    gains = [
        None if each.gain is None else each.gain.by(settings.measure)
        for each in (prediction, before)
    ]
    value, base = gains
    return None if value is None or base is None else value / base


def _without_prediction(
    newcomer: SharingJob,
    present: Sequence[SharingJob],
    settings: SharingSettings,
    *,
    mps_available: bool,
) -> SharingDecision | None:
    """Return the decision that needs no prediction; None if a prediction decides."""
    several = [job for job in (*present, newcomer) if job.gpus != 1]
    jobs = len(present) + 1
    if several:
        job = several[0]
        reason, text = SharingReason.SEVERAL_GPUS, f"{job.name} uses {job.gpus} GPUs; must be 1"
    elif not mps_available:
        reason, text = SharingReason.MPS_NOT_AVAILABLE, "MPS is not available on the GPU"
    elif jobs > settings.max_jobs:
        reason = SharingReason.TOO_MANY_JOBS
        text = f"{jobs} jobs on the GPU; at most {settings.max_jobs}"
    elif present:
        return None
    else:
        return SharingDecision(SharingChoice.SHARE, SharingReason.EMPTY_GPU, "the GPU is empty")
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
    improvement: float, slowdowns: Sequence[JobSlowdown], settings: SharingSettings
) -> SharingReason:
    if improvement <= settings.margin:
        return SharingReason.NO_GAIN
    if any(each.exceeds_limit for each in slowdowns):
        return SharingReason.TOO_SLOW
    return SharingReason.GAIN


def _unknown(slowdowns: Sequence[JobSlowdown]) -> str:
    """Describe why the gain is unknown: a speed is unknown, or a rate alone that delta needs."""
    unknown = [each.job for each in slowdowns if each.source is SpeedSource.UNKNOWN]
    return unknown_text(unknown or [each.job for each in slowdowns])


def _slowest(slowdowns: Sequence[JobSlowdown]) -> str:
    """Describe the job that decides: one above its limit if there is one, else the slowest."""
    slowest = max(slowdowns, key=lambda each: (each.exceeds_limit, each.percent))
    return slowdown_text(slowest.job, slowest.percent, slowest.limit)
