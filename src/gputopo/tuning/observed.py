"""What kubelet and the profiler show of a sized pod, in the terms of the decision about sizes."""

from dataclasses import replace
from datetime import datetime

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.profiling import ProfilingState
from gputopo.api.tuning import Amounts, TunedRecord
from gputopo.tuning.model import ContainerAmounts, TunedPod


def requests_in_effect(spec: ContainerAmounts, status: ContainerAmounts) -> Amounts:
    """Return the requests that are in effect, computed from the limits in the status.

    kubelet reads the limits in the status from the cgroup, so these limits are in effect. The
    requests in the status can be rounded, or can be new while the old limits are still in effect.
    """
    return Amounts(
        _in_effect(
            spec.request.milli_cpu,
            spec.limit_milli_cpu,
            status.request.milli_cpu,
            status.limit_milli_cpu,
        ),
        _in_effect(
            spec.request.memory, spec.limit_memory, status.request.memory, status.limit_memory
        ),
    )


def _in_effect(request: int, limit: int | None, applied: int, applied_limit: int | None) -> int:
    if limit is None or applied_limit is None:
        return applied
    # Example: spec 3999m/4000m and limit 2000m in effect: the request in effect is 1999m.
    return request if applied_limit == limit else applied_limit - (limit - request)


def memory_of_kill(
    spec: ContainerAmounts, limit: int | None, record: TunedRecord | None, killed: str | None
) -> int:
    """Return the memory limit in bytes at which a container was killed for memory; 0 without one.

    The container status has only the limit of the current run. If the kill was before the newest
    resize, the function computes the limit before that resize from the operator's record.

    Args:
        spec: amounts of the container now.
        limit: memory limit in the container status; None if it has none.
        record: the operator's record of the newest resize.
        killed: RFC 3339 time of the kill, if known.
    """
    if not spec.limit_memory:
        return 0
    if (
        record is not None
        and killed
        and datetime.fromisoformat(killed) < datetime.fromisoformat(record.since)
    ):
        return record.last.memory + spec.limit_memory - spec.request.memory
    return limit or spec.limit_memory


def awaits_measurement(request: MeasuringRequest, seconds: float | None) -> bool:
    """Return whether a measurement of CPUs that a pod requests may still begin.

    ``seconds`` is how long the pod has run; None if it has not started. A pod that reports no steps
    is never measured, so its time ends.
    """
    return "CPUs" in request.targets and (seconds is None or seconds <= request.profiling_seconds)


def while_measured(tuned: TunedPod, state: ProfilingState | None, *, active: bool) -> TunedPod:
    """Mark a pod that must not be resized now: it is being measured or has not started.

    If a pod that has not started requests more than the node has free, kubelet rejects it for ever.

    Args:
        tuned: the pod.
        state: the state of its measurement with several CPU limits; None if it has not begun.
        active: whether another reason than ``state`` forbids a resize.
    """
    if state is None:
        return replace(tuned, measuring=active)
    points = {each.milli_cpu: each.micro_steps_per_second for each in state.points}
    return replace(
        tuned,
        measuring=active or not state.restored,
        own_milli_cpu=0 if state.restored else state.original.request,
        profiled_micro_steps_per_second=points.get(tuned.spec.limit_milli_cpu or 0, 0),
    )
