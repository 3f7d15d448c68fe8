"""Decides the ``status.queue`` of a GPUJob, and the event when the queue admits it."""

from math import floor
from typing import Final

from gputopo.api.v1alpha1 import QueueStatus
from gputopo.queueing.model import QueueOrder, QueuePlace
from gputopo.runtime.times import unix_seconds
from gputopo_operator.decision.conditions import truncated
from gputopo_operator.model.jobs import ObjectEvent
from gputopo_operator.model.queued import GpuPod, QueueChange, QueuedJob, QueueRole

_MOST_SECONDS: Final = 2**53 - 1
"""The largest number that every JSON parser reads exactly."""

_CREATED: Final = dict.fromkeys(("pod_error", "failed_starts", "not_before"))
"""The fields about failed starts of a job whose pod was created, or that has ended."""


def queue_change(
    queued: QueuedJob, role: QueueRole, place: QueuePlace | None, pod: GpuPod | None, now: str
) -> QueueChange | None:
    """Return the change of ``status.queue``, or None if it does not change.

    Args:
        queued: the GPUJob with its current status.
        role: whether the job was waiting or admitted before this decision.
        place: the place of a job that keeps waiting; None for other jobs.
        pod: the pod of the child Job.
        now: RFC 3339 time.
    """
    before = queued.job.status.queue or QueueStatus()
    started = pod.started if pod and role is QueueRole.ADMITTED else None
    if role is QueueRole.WAITING and before.waiting_since is None:
        before = before.model_copy(update={"waiting_since": now})
    if pod is not None or queued.child is None:
        before = before.model_copy(update=_CREATED)
    end = _end_of_run(queued, before.running_since, pod, now)
    after = _with_run_time(_with_wait(before, place, now), started, end)
    if after == (queued.job.status.queue or QueueStatus()):
        return None
    admitted = place is None and before.waiting_since and role is not QueueRole.OUTSIDE
    return QueueChange(
        queued,
        None if after == QueueStatus() else after,
        _elapsed(before.waiting_since, now) if admitted else None,
        entered=place is not None and _waiting_since(queued) is None,
    )


def queue_event(order: QueueOrder, change: QueueChange) -> ObjectEvent | None:
    """Return the event for a job that has begun to wait or has started; None if it did neither."""
    if change.waited_seconds is not None:
        note = f"the queue (order {order}) has started the job after {change.waited_seconds} s"
        return ObjectEvent("Normal", "Admitted", note)
    if change.entered and change.after is not None:
        place = f"position {change.after.position}: {change.after.reason}"
        return ObjectEvent("Normal", "Queued", f"in the queue (order {order}) at {place}")
    return None


def _waiting_since(queued: QueuedJob) -> str | None:
    status = queued.job.status.queue
    return status.waiting_since if status else None


def _with_wait(before: QueueStatus, place: QueuePlace | None, now: str) -> QueueStatus:
    if place is not None:
        waits = {
            "position": place.position,
            "reason": truncated(place.reason),
            "reserved_node": place.node,
        }
        return before.model_copy(update=waits)
    ended: dict[str, object] = dict.fromkeys(
        ("position", "reason", "reserved_node", "waiting_since")
    )
    if before.waiting_since is not None:
        waited_seconds = (before.waited_seconds or 0) + _elapsed(before.waiting_since, now)
        ended["waited_seconds"] = min(_MOST_SECONDS, waited_seconds)
    return before.model_copy(update=ended)


def _end_of_run(queued: QueuedJob, since: str | None, pod: GpuPod | None, now: str) -> str:
    """Return the time at which the pod that started at ``since`` has ended, at most ``now``.

    The operator may see this much later, for example after it was down. The Job has the time of its
    suspension, and creates the next pod when the former one has ended.
    """
    next_pod = pod.created if pod and pod.started != since else None
    begin, last = unix_seconds(since or now) or 0.0, unix_seconds(now) or 0.0
    known = {unix_seconds(each): each for each in (queued.ended, next_pod) if each}
    ends = {at: each for at, each in known.items() if at is not None and begin <= at <= last}
    return ends[min(ends)] if ends else now


def _with_run_time(before: QueueStatus, started: str | None, end: str) -> QueueStatus:
    """Record the start of the current pod; after its end, add its run time to ``ran_seconds``."""
    since = before.running_since
    if started == since:
        return before
    runs: dict[str, object] = {"running_since": started}
    if since is not None:
        ran_seconds = (before.ran_seconds or 0) + _elapsed(since, end)
        runs["ran_seconds"] = min(_MOST_SECONDS, ran_seconds)
    return before.model_copy(update=runs)


def _elapsed(since: str | None, now: str) -> int:
    """Return the whole seconds from one time to another; 0 if one is missing or impossible."""
    begin, end = unix_seconds(since), unix_seconds(now)
    return 0 if begin is None or end is None else max(0, floor(end - begin))
