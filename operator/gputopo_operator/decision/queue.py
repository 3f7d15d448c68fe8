"""Decides about gputopo's queue: which child Jobs start now, and the ``status.queue`` of each job.

The decision depends on API objects only. A child Job that is suspended, although its GPUJob is not,
waits in the queue. A child Job that is not suspended was admitted. So an operator that was killed
continues where it was.
"""

from collections.abc import Sequence
from typing import Final

from gputopo.queueing.decide import CREDIT_SECONDS, decide_queue
from gputopo.queueing.model import QueueDecision, QueueRules, QueueState
from gputopo.runtime.times import unix_seconds
from gputopo_operator.decision.conditions import COMPLETE, FAILED, holds
from gputopo_operator.decision.node_affinity import avoided_nodes, without_nodes
from gputopo_operator.decision.pod_creation import lacks_pod
from gputopo_operator.decision.queue_state import QueueMember, queue_state
from gputopo_operator.decision.queue_status import queue_change
from gputopo_operator.model.queued import (
    GpuPod,
    JobStart,
    QueueChange,
    QueuedJob,
    QueueInput,
    QueuePlan,
    QueueRole,
)
from gputopo_operator.parse.jobs import QUEUE_LABEL

RECHECK_SECONDS: Final = 60.0
"""Interval while jobs wait: positions may change with time, and a watch may lose an event."""

POD_CHECK_SECONDS: Final = 20.0
"""Interval while a started job has no pod."""


def queue_plan(found: QueueInput, rules: QueueRules) -> QueuePlan:
    """Return the plan of the writes that the queue needs now."""
    members = _members(found)
    state = queue_state(found, members)
    decision = decide_queue(state, rules)
    return QueuePlan(
        starts=_starts(decision, members),
        changes=_changes(decision, members, found.now),
        waiting=len(decision.waiting),
        waiting_since=_waiting_since(state, decision),
        recheck_after_seconds=_recheck_after_seconds(found, members, state, decision, rules),
        offers=decision.offers,
        failing=decision.failing,
    )


def jobs_without_pod(found: QueueInput) -> tuple[QueuedJob, ...]:
    """Return the started jobs that have had no pod for a minute, as far as this is known.

    The Job controller has seen the start of these Jobs. A Job that it has not seen, because it is
    down, is none of them.
    """
    owners = {pod.owner_uid for pod in found.pods}
    return tuple(
        queued
        for queued in found.jobs
        if role_of(queued) is QueueRole.ADMITTED
        and queued.child is not None
        and queued.child.uid not in owners
        and lacks_pod(queued.started, queued.ended, found.now)
    )


def role_of(queued: QueuedJob) -> QueueRole:
    """Return whether a GPUJob waits in the queue, was admitted by it, or is not in the queue."""
    job, child, conditions = queued.job, queued.child, queued.job.status.conditions
    if job.spec is None or job.deleting or child is None or child.owner_uid != job.uid:
        return QueueRole.OUTSIDE
    if (
        not child.own_pods
        or child.deleting
        or holds(conditions, COMPLETE)
        or holds(conditions, FAILED)
    ):
        return QueueRole.OUTSIDE
    if job.spec.suspend or child.queue or QUEUE_LABEL in job.labels:
        return QueueRole.OUTSIDE
    return QueueRole.WAITING if child.suspended else QueueRole.ADMITTED


def _members(found: QueueInput) -> tuple[QueueMember, ...]:
    pods: dict[str, list[GpuPod]] = {}
    for pod in found.pods:
        pods.setdefault(pod.owner_uid, []).append(pod)
    avoids = avoided_nodes(found.jobs, found.cluster.nodes, found.node_rules)
    return tuple(
        QueueMember(
            queued,
            role_of(queued),
            _newest(pods.get(queued.child.uid, ())) if queued.child else None,
            avoided,
        )
        for queued, avoided in zip(found.jobs, avoids, strict=True)
    )


def _newest(pods: Sequence[GpuPod]) -> GpuPod | None:
    return max(pods, key=lambda pod: (pod.created, pod.uid), default=None)


def _starts(decision: QueueDecision, members: Sequence[QueueMember]) -> tuple[JobStart, ...]:
    by_name = {each.name: each.queued for each in members}
    return tuple(_start(by_name[each.job], each.avoids) for each in decision.admitted)


def _start(queued: QueuedJob, avoids: Sequence[str]) -> JobStart:
    child = queued.child
    identity = {"uid": child.uid, "resourceVersion": child.resource_version} if child else {}
    spec: dict[str, object] = {"suspend": False}
    if avoids:
        affinity = without_nodes(queued.pod_rules.get("affinity"), avoids)
        spec["template"] = {"spec": {"affinity": affinity}}
    return JobStart(queued.job.key, {"metadata": identity, "spec": spec})


def _changes(
    decision: QueueDecision, members: Sequence[QueueMember], now: str
) -> tuple[QueueChange, ...]:
    """Return the changes: first of jobs that left or entered the queue, then in queue order."""
    places = {each.job: each for each in decision.waiting}
    found = [
        change
        for each in members
        if (change := queue_change(each.queued, each.role, places.get(each.name), each.pod, now))
    ]

    def key(change: QueueChange) -> tuple[bool, int]:
        before, after = change.job.job.status.queue, change.after
        position = (after.position or 0) if after else 0
        known = before is not None and before.waiting_since is not None
        return (known and position > 0, position)

    return tuple(sorted(found, key=key))


def _waiting_since(state: QueueState, decision: QueueDecision) -> float | None:
    still = {place.job for place in decision.waiting}
    return min((job.waiting_since for job in state.waiting if job.job in still), default=None)


def _recheck_after_seconds(
    found: QueueInput,
    members: Sequence[QueueMember],
    state: QueueState,
    decision: QueueDecision,
    rules: QueueRules,
) -> float | None:
    """Return the time until a job becomes overdue or may start again, at most a minute.

    None if no job waits, and each started job has a pod.
    """
    podless = any(
        each.role is QueueRole.ADMITTED and each.pod is None and each.queued.started
        for each in members
    )
    if not decision.waiting and not podless:
        return None
    times = [job.waiting_since + rules.max_skip_seconds for job in state.waiting]
    times += [at for each in found.jobs if (at := _not_before(each)) is not None]
    if any(offer.at is not None for offer in decision.offers.values()):
        times.append(state.now + CREDIT_SECONDS)
    waits = [at - state.now for at in times] + [POD_CHECK_SECONDS] * podless
    return min((wait for wait in waits if 0 < wait < RECHECK_SECONDS), default=RECHECK_SECONDS)


def _not_before(queued: QueuedJob) -> float | None:
    status = queued.job.status.queue
    return unix_seconds(status.not_before) if status else None
