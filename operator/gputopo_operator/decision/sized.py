"""Decides the condition Sized and ``status.resources``: CPU and memory of the current pod."""

from collections.abc import Mapping, Sequence

from gputopo.api.job_resources import JobResources
from gputopo.api.profile import Measurement
from gputopo.api.quantity import format_bytes
from gputopo.api.v1alpha1 import GPUJobStatus, JobPlacement, JobThroughput
from gputopo.tuning.gain import current_rate, gain_percent
from gputopo.tuning.state import resize_state
from gputopo_operator.decision.conditions import SIZED, ConditionUpdate, truncated
from gputopo_operator.decision.initial_amounts import tuning_request
from gputopo_operator.decision.situation import JobSituation
from gputopo_operator.decision.spec_error import SpecError
from gputopo_operator.model.jobs import PodSize

_CREATED = "the amounts with which the pod was created"
_MEASURED = "gputopo measures the pod with several CPU limits"


def sized(found: JobSituation) -> list[ConditionUpdate]:
    """Return the condition Sized of a job with a child Job.

    The list is empty if the mode is ``Fixed``, or if the job has ended. An empty list leaves the
    current condition unchanged.
    """
    spec, pod = found.spec, found.pod
    if spec.resources.mode == "Fixed" or found.result is not None:
        return []
    try:
        tuning_request(spec.resources)
    except SpecError as error:
        return [ConditionUpdate(SIZED, False, "SpecRefused", str(error))]
    if pod is None or pod.size is None or not pod.view.running:
        return [ConditionUpdate(SIZED, False, "NotRunning", "")]
    return [_sized(pod.size)]


def _sized(size: PodSize) -> ConditionUpdate:
    record, now = size.record, _text(size.milli_cpu, size.memory)
    if size.obstacle:
        return ConditionUpdate(SIZED, False, "NotPossible", size.obstacle)
    if size.measuring:
        return ConditionUpdate(SIZED, False, "Measuring", f"has {now} now: {_MEASURED}")
    if record is None:
        return ConditionUpdate(SIZED, False, "NotResized", f"has {now}, {_CREATED}")
    reason = resize_state(record, size.problem.reason if size.problem else None)
    if record.pinned or record.done:
        return ConditionUpdate(SIZED, reason == "Resized", reason, f"{record.reason}; has {now}")
    message = f"{record.reason}; still has {now}"
    if size.problem is not None:
        message = f"{message}: {size.problem.message}"
    return ConditionUpdate(SIZED, False, reason, message)


def job_resources(
    before: GPUJobStatus,
    placements: Sequence[JobPlacement],
    size: PodSize | None,
    throughput: JobThroughput | None,
    measured: Mapping[str, Measurement],
) -> JobResources | None:
    """Return the CPU and memory that the new status shows: those of the pod in ``placements``.

    Args:
        before: the current status.
        placements: the new value of ``status.placements``.
        size: CPU and memory of the pod; None if gputopo does not decide about them.
        throughput: the new value of ``status.throughput``.
        measured: the agents' measurements by UID of the pod.
    """
    uids = {place.pod_uid for place in placements}
    kept = uids & {place.pod_uid for place in before.placements}
    shown = before.resources if kept else None
    if size is None or size.milli_cpu is None or not uids:
        return shown
    found = next((each for uid, each in measured.items() if uid in uids), None)
    changed = shown is None or shown.milli_cpu != size.milli_cpu
    known = None if changed or shown is None else shown.gain_percent
    return JobResources(
        milli_cpu=size.milli_cpu,
        memory=None if size.memory is None else format_bytes(size.memory),
        reason=truncated(_reason(size)),
        gain_percent=known if found is None else _gain(size, throughput, found),
    )


def _gain(size: PodSize, throughput: JobThroughput | None, found: Measurement) -> int | None:
    """Return by how much the last resize has changed the rate, in percent; None if unknown.

    ``throughput`` has the rate. It changes only if a measurement differs by more than noise.
    """
    if throughput is None or throughput.state != "Steady":
        return None
    if current_rate(found, size.milli_cpu) is None:
        return None
    return gain_percent(size.record, throughput.micro_steps_per_second)


def _reason(size: PodSize) -> str:
    if size.measuring:
        return _MEASURED
    return (size.record.reason if size.record else "") or _CREATED


def _text(milli_cpu: int | None, memory: int | None) -> str:
    """Return amounts in words.

    >>> _text(4500, 16 * 2**30), _text(None, None)
    ('4500m CPU, 16Gi memory', 'no CPU limit, no memory limit')
    """
    cpus = "no CPU limit" if milli_cpu is None else f"{milli_cpu}m CPU"
    return f"{cpus}, " + ("no memory limit" if memory is None else f"{format_bytes(memory)} memory")
