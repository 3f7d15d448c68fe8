"""Decides about gputopo's queue: which child Jobs start now, and the ``status.queue`` of each job.

The decision depends on API objects only. A child Job that is suspended, although its GPUJob is not,
waits in the queue. A child Job that is not suspended was admitted. So an operator that was killed
continues where it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gputopo.queueing.decide import decide_queue
from gputopo.queueing.model import AdmittedJob, QueueDecision, QueueRules, QueueState, WaitingJob
from gputopo_operator.decision.conditions import COMPLETE, FAILED, holds
from gputopo_operator.decision.node_affinity import avoided_nodes, without_nodes
from gputopo_operator.decision.queue_status import queue_change
from gputopo_operator.parse import QUEUE_LABEL
from gputopo_operator.queued import (
    GpuPod,
    JobStart,
    QueueChange,
    QueuedJob,
    QueueInput,
    QueuePlan,
    QueueRole,
)

RECHECK_SECONDS: Final = 60.0
"""Interval while jobs wait: positions may change with time, and a watch may lose an event."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A GPUJob, the newest pod of its child Job, and the nodes that its pods may not use."""

    queued: QueuedJob
    role: QueueRole
    pod: GpuPod | None
    avoids: frozenset[str]

    @property
    def name(self) -> str:
        return str(self.queued.job.key)

    @property
    def gpus(self) -> int:
        spec = self.queued.job.spec
        return spec.gpus_per_replica if spec is not None else 0


def queue_plan(found: QueueInput, rules: QueueRules) -> QueuePlan:
    """Return the plan of the writes that the queue needs now."""
    members = _members(found)
    state = _state(found, members)
    decision = decide_queue(state, rules)
    return QueuePlan(
        starts=_starts(decision, members),
        changes=_changes(decision, members, found.now),
        waiting=len(decision.waiting),
        waiting_since=_waiting_since(state, decision),
        recheck_after_seconds=_recheck_after_seconds(state, decision, rules),
    )


def role_of(queued: QueuedJob) -> QueueRole:
    """Return whether a GPUJob waits in the queue, was admitted by it, or is not in the queue."""
    job, child, conditions = queued.job, queued.child, queued.job.status.conditions
    if job.spec is None or job.deleting or child is None or child.owner_uid != job.uid:
        return QueueRole.OUTSIDE
    if child.deleting or child.result or holds(conditions, COMPLETE) or holds(conditions, FAILED):
        return QueueRole.OUTSIDE
    if job.spec.suspend or child.queue or QUEUE_LABEL in job.labels:
        return QueueRole.OUTSIDE
    return QueueRole.WAITING if child.suspended else QueueRole.ADMITTED


def _members(found: QueueInput) -> tuple[_Member, ...]:
    pods: dict[str, list[GpuPod]] = {}
    for pod in found.pods:
        pods.setdefault(pod.owner_uid, []).append(pod)
    avoids = avoided_nodes(found.jobs, found.nodes, found.node_rules)
    return tuple(
        _Member(
            queued,
            role_of(queued),
            _newest(pods.get(queued.child.uid, ())) if queued.child else None,
            avoided,
        )
        for queued, avoided in zip(found.jobs, avoids, strict=True)
    )


def _newest(pods: Sequence[GpuPod]) -> GpuPod | None:
    return max(pods, key=lambda pod: (pod.created, pod.uid), default=None)


def _state(found: QueueInput, members: Sequence[_Member]) -> QueueState:
    now = _seconds(found.now)
    return QueueState(
        capacities=_capacities(found, members),
        admitted=tuple(_admitted(each, now) for each in members if each.role is QueueRole.ADMITTED),
        waiting=tuple(_waiting(each, now) for each in members if each.role is QueueRole.WAITING),
        now=now,
        rejected={str(key): text for key, text in found.rejected.items()},
    )


def _admitted(member: _Member, now: float) -> AdmittedJob:
    pod, queued = member.pod, member.queued
    since = (pod.started if pod else None) or queued.started
    return AdmittedJob(
        member.name,
        member.gpus,
        pod.node if pod else None,
        _seconds(since) if since else now,
        member.avoids,
    )


def _waiting(member: _Member, now: float) -> WaitingJob:
    queued = member.queued
    spec, status = queued.job.spec, queued.job.status.queue
    since = status.waiting_since if status else None
    return WaitingJob(
        job=member.name,
        gpus=member.gpus,
        created=_seconds(queued.created),
        waiting_since=_seconds(since) if since else now,
        ran_seconds=(status.ran_seconds or 0) if status else 0,
        expected_seconds=spec.expected.duration_seconds if spec else None,
        priority=queued.priority,
        avoids=member.avoids,
        can_avoid_nodes=queued.started is None,
    )


def _capacities(found: QueueInput, members: Sequence[_Member]) -> dict[str, int]:
    """Return the GPUs of each node that are free or used by admitted jobs.

    Another pod uses GPUs from its Binding until the agent reports that its GPUs are free.
    """
    admitted = {each.pod.uid for each in members if each.pod and each.role is QueueRole.ADMITTED}
    listed = {pod.uid for pod in found.pods}
    used: dict[str, int] = {}
    for pod in found.pods:
        if pod.node is not None and pod.uid not in admitted:
            used[pod.node] = used.get(pod.node, 0) + pod.gpus
    return {
        name: max(0, node.healthy - used.get(name, 0) - _used_by_unlisted(node.used, listed))
        for name, node in found.nodes.items()
    }


def _used_by_unlisted(used: Mapping[str, int], listed: set[str]) -> int:
    return sum(gpus for uid, gpus in used.items() if uid not in listed)


def _starts(decision: QueueDecision, members: Sequence[_Member]) -> tuple[JobStart, ...]:
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
    decision: QueueDecision, members: Sequence[_Member], now: str
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
    state: QueueState, decision: QueueDecision, rules: QueueRules
) -> float | None:
    """Return the time until a job becomes overdue, at most a minute; None if no job waits."""
    if not decision.waiting:
        return None
    waits = (rules.max_skip_seconds - (state.now - job.waiting_since) for job in state.waiting)
    return min((wait for wait in waits if 0 < wait < RECHECK_SECONDS), default=RECHECK_SECONDS)


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
