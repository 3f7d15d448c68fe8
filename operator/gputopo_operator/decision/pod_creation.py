"""Decides whether the pod of a started Job cannot be created, and when the Job may start again.

Only a report of the Job controller counts. A Job without a pod and without such a report keeps its
GPUs: the controller manager may be down, or late.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from gputopo.api.model import Condition
from gputopo.api.v1alpha1 import QueueStatus
from gputopo.runtime.times import timestamp, unix_seconds
from gputopo_kube.document import Document, ObjectKey
from gputopo_operator.decision.conditions import POD_NOT_CREATED, truncated
from gputopo_operator.decision.situation import JobSituation
from gputopo_operator.model.jobs import (
    ChildJob,
    CreatedPod,
    FailedCreate,
    ObjectEvent,
    ReconcilePlan,
)
from gputopo_operator.model.queued import JobStop, QueuedJob

MISSING_SECONDS: Final = 60.0
"""For how long a pod cannot be created until its Job is suspended again."""

_FIRST_FAILURE_SECONDS: Final = 10.0
"""For how long after its start a Job has normally failed to create its pod, at most."""

PROBATION_SECONDS: Final = 600.0
"""For how long after a failure a namespace starts the next job only when the last has a node."""

_LONGEST_DELAY_SECONDS: Final = 1800
_MOST_COUNTED: Final = 2**31 - 1
_DOUBLED: Final = 5  # 60 * 2**5 is more than the longest delay


class FailedStarts(NamedTuple):
    """The failed starts of a job in a row, as its status has them; None without failures.

    Attributes:
        pod_error: the last error.
        failed_starts: the number of failures.
        not_before: RFC 3339 time before which the job does not start again.
    """

    pod_error: str | None = None
    failed_starts: int | None = None
    not_before: str | None = None

    def delays(self, now: str) -> bool:
        """Return whether the job may not start yet."""
        return (unix_seconds(self.not_before) or 0.0) > (unix_seconds(now) or 0.0)


def after_failed_start(before: FailedStarts, error: str, now: str) -> FailedStarts:
    """Return the failures with one more. The delay grows from 1 to 30 minutes."""
    failed = (before.failed_starts or 0) + 1
    seconds = min(_LONGEST_DELAY_SECONDS, MISSING_SECONDS * 2 ** min(failed - 1, _DOUBLED))
    time = datetime.fromisoformat(now) + timedelta(seconds=seconds)
    return FailedStarts(truncated(error), min(failed, _MOST_COUNTED), timestamp(time))


def check_after_seconds(started: str, now: str) -> float:
    """Return when to look again at a Job without a pod: when its first failure is a minute old."""
    elapsed = (unix_seconds(now) or 0.0) - (unix_seconds(started) or 0.0)
    left = MISSING_SECONDS + _FIRST_FAILURE_SECONDS - elapsed
    return left if left > 0 else MISSING_SECONDS


def with_pod_check(found: JobSituation, plan: ReconcilePlan) -> ReconcilePlan:
    """Let the operator look again at a started Job without a pod."""
    started, missing = found.state.started, found.pod is None and found.result is None
    if not missing or started is None or plan.recheck_after_seconds is not None:
        return plan
    seconds = check_after_seconds(started, found.state.now)
    return replace(plan, recheck_after_seconds=seconds)


def lacks_pod(started: str | None, ended: str | None, now: str) -> bool:
    """Return whether a Job without a live pod could have had one for a minute.

    Args:
        started: RFC 3339 time at which the Job controller started the Job.
        ended: time of its suspension; the Job controller removes it when it starts the Job again.
        now: RFC 3339 time.
    """
    begin, current = unix_seconds(started), unix_seconds(now) or 0.0
    return begin is not None and ended is None and current - begin >= MISSING_SECONDS


def creation_error(
    child: ChildJob,
    begins: Sequence[str | None],
    failures: Collection[FailedCreate],
    pods: Collection[CreatedPod],
    placed: Condition | None,
    now: str,
) -> str:
    """Return why a started Job has had no pod for a minute; empty if no error is known.

    Args:
        child: a Job that is not suspended and has no live pod with GPUs.
        begins: RFC 3339 times before which a failure is one of an earlier start.
        failures: what the Job controller reports.
        pods: pods of the Job; failures before their creation are over.
        placed: condition Placed; failures before the loss of the last pod are over.
        now: RFC 3339 time.
    """
    current = unix_seconds(now) or 0.0
    begin = max((unix_seconds(each) or 0.0 for each in begins), default=0.0)
    if child.parallelism == 0 and current - begin >= MISSING_SECONDS:
        return "spec.parallelism of the Job is 0, so it creates no pod; set it to 1"
    for pod in pods:
        if pod.without_gpus and current - max(begin, _created(pod)) >= MISSING_SECONDS:
            return f"pod {pod.name} of the Job requests no GPUs; delete this pod"
    begin = max(begin, _lost(placed, pods, current))
    created = max(map(_created, pods), default=0.0)
    found = [each for each in failures if each.last >= begin and each.last > created]
    since = max(begin, created, min((each.first for each in found), default=current))
    if current - since < MISSING_SECONDS:
        return ""
    return max(found, key=lambda each: each.last).message or "the event has no message"


def _created(pod: CreatedPod) -> float:
    return unix_seconds(pod.created) or 0.0


def _lost(placed: Condition | None, pods: Collection[CreatedPod], now: float) -> float:
    """Return when the last pod on a node was lost; 0 if there was none, or it has only ended."""
    if placed is None:
        return 0.0
    if placed.status == "True":
        return 0.0 if pods else now  # it was deleted, and this is not in the condition yet
    return unix_seconds(placed.last_transition_time) or 0.0


def queue_stops(
    jobs: Iterable[QueuedJob], errors: Mapping[ObjectKey, str], now: str
) -> tuple[JobStop, ...]:
    """Return which of the started jobs without a pod are suspended again.

    Args:
        jobs: the started jobs without a pod.
        errors: for each job whose pod cannot be created, the message.
        now: RFC 3339 time.
    """
    stops = []
    for queued in jobs:
        status, child = queued.job.status.queue or QueueStatus(), queued.child
        # An operator that was killed has written the status, but has not suspended the Job.
        recorded = FailedStarts(not_before=status.not_before).delays(now)
        error = errors.get(queued.job.key, "")
        if child is not None and (recorded or error):
            after = None if recorded else _after_failure(status, error, now)
            stops.append(JobStop(queued, after, _suspend_patch(child)))
    return tuple(stops)


def on_probation(failed: Mapping[str, float], now: float) -> frozenset[str]:
    """Return the namespaces that start the next job only when the pod of the last one has a node.

    Each failed start holds GPUs for minutes. Without this rule a tenant who creates new jobs all
    the time, whose pods a quota forbids or which fit on no node, would hold all GPUs.

    Args:
        failed: Unix time of the last failed start by namespace.
        now: Unix time.
    """
    return frozenset(name for name, at in failed.items() if now - at < PROBATION_SECONDS)


def stop_event(after: QueueStatus) -> ObjectEvent:
    """Return the event about a job that was suspended again."""
    note = f"suspended again, not before {after.not_before}: {after.pod_error}"
    return ObjectEvent("Warning", POD_NOT_CREATED, truncated(note))


def _after_failure(before: QueueStatus, error: str, now: str) -> QueueStatus:
    """Return the status of a job that waits behind the others, each time twice as long."""
    failed = FailedStarts(before.pod_error, before.failed_starts, before.not_before)
    changes = after_failed_start(failed, error, now)._asdict()
    return before.model_copy(update={**changes, "waiting_since": now})


def _suspend_patch(child: ChildJob) -> Document:
    """Return the merge patch that suspends a Job.

    It has no resource version: the owner of the Job could change the Job all the time, and keep its
    GPUs.
    """
    return {"metadata": {"uid": child.uid}, "spec": {"suspend": True}}
