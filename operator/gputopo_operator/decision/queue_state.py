"""Computes the state of gputopo's queue from API objects: GPUs of the nodes, and the jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputopo.api.v1alpha1 import QueueStatus
from gputopo.queueing.model import AdmittedJob, JoinableGpu, QueueState, WaitingJob
from gputopo.runtime.times import unix_seconds
from gputopo_kube.document import ObjectKey
from gputopo_operator.model.queued import GpuPod, QueuedJob, QueueInput, QueueRole

_Joins = Mapping[ObjectKey, frozenset[JoinableGpu]]


@dataclass(frozen=True, slots=True)
class QueueMember:
    """A GPUJob, the newest pod of its child Job, and the nodes that its pods may not use."""

    queued: QueuedJob
    role: QueueRole
    pod: GpuPod | None
    avoids: frozenset[str]

    @property
    def name(self) -> str:
        """Namespace and name of the GPUJob."""
        return str(self.queued.job.key)

    @property
    def gpus(self) -> int:
        """GPUs of its pod."""
        spec = self.queued.job.spec
        return spec.gpus_per_replica if spec is not None else 0


def queue_state(found: QueueInput, members: Sequence[QueueMember]) -> QueueState:
    """Return the input of the decision: free GPUs, admitted and waiting jobs."""
    now, admitted = _seconds(found.now, 0.0), _admitted_pods(members)
    others = _shared_by_others(found, admitted)
    return QueueState(
        capacities=_capacities(found, admitted, others),
        admitted=tuple(
            _admitted(each, now, others, found.joins)
            for each in members
            if each.role is QueueRole.ADMITTED
        ),
        waiting=tuple(
            _waiting(each, now, found.joins) for each in members if each.role is QueueRole.WAITING
        ),
        now=now,
        rejected={**_delayed(members, now), **_rejected(found)},
        offered=found.offered,
    )


def _rejected(found: QueueInput) -> dict[str, str]:
    return {str(key): text for key, text in found.rejected.items()}


def _delayed(members: Sequence[QueueMember], now: float) -> dict[str, str]:
    """Return the jobs whose pod could not be created and that may not start again yet."""
    return {
        each.name: f"{not_created(status)}; gputopo starts the job again after {status.not_before}"
        for each in members
        if (status := each.queued.job.status.queue) and _seconds(status.not_before, 0.0) > now
    }


def not_created(status: QueueStatus) -> str:
    """Return why the pod of a job could not be created, as text for users."""
    return f"its pod could not be created: {status.pod_error or 'the reason is unknown'}"


def _admitted(
    member: QueueMember, now: float, others: Mapping[str, set[str]], joins: _Joins
) -> AdmittedJob:
    pod, queued = member.pod, member.queued
    node, shared = (pod.node, pod.shared) if pod else (None, None)
    since = (pod.started if pod else None) or queued.started
    return AdmittedJob(
        member.name,
        # The GPU is not free when this job ends.
        0 if shared is not None and shared in others.get(node or "", ()) else member.gpus,
        node,
        _seconds(since, now),
        member.avoids,
        shared,
        frozenset() if node else _joins_of(member, joins),
        pod.uid if pod and pod.unschedulable else None,
    )


def _waiting(member: QueueMember, now: float, joins: _Joins) -> WaitingJob:
    queued = member.queued
    spec, status = queued.job.spec, queued.job.status.queue
    return WaitingJob(
        job=member.name,
        gpus=member.gpus,
        created=_seconds(queued.created, now),
        waiting_since=_seconds(status.waiting_since if status else None, now),
        ran_seconds=(status.ran_seconds or 0) if status else 0,
        expected_seconds=spec.expected.duration_seconds if spec else None,
        priority=queued.priority,
        avoids=member.avoids,
        can_avoid_nodes=queued.started is None,
        sharing=spec is not None and spec.sharing.mode == "Allowed",
        joins=_joins_of(member, joins),
        failed_starts=(status.failed_starts or 0) if status else 0,
    )


def _joins_of(member: QueueMember, joins: _Joins) -> frozenset[JoinableGpu]:
    found = joins.get(member.queued.job.key, frozenset())
    return frozenset(each for each in found if each.node not in member.avoids)


def _admitted_pods(members: Sequence[QueueMember]) -> set[str]:
    return {each.pod.uid for each in members if each.pod and each.role is QueueRole.ADMITTED}


def _shared_by_others(found: QueueInput, admitted: set[str]) -> dict[str, set[str]]:
    """Return by node the GPUs of which pods have shares that are not of admitted jobs."""
    listed = {pod.uid for pod in found.pods}
    shared = {
        name: {gpu for gpu, users in node.shared.items() if users - listed}
        for name, node in found.nodes.items()
    }
    for pod in found.pods:
        if pod.shared is not None and pod.uid not in admitted and pod.node in shared:
            shared[pod.node].add(pod.shared)
    return shared


def _capacities(
    found: QueueInput, admitted: set[str], others: Mapping[str, set[str]]
) -> dict[str, int]:
    """Return the GPUs of each node that are free or used by admitted jobs only.

    Another pod uses GPUs from its Binding until the agent reports that its GPUs are free. A GPU
    that several pods share counts once.
    """
    listed = {pod.uid for pod in found.pods}
    used: dict[str, int] = {}
    for pod in found.pods:
        if pod.node is not None and pod.uid not in admitted and pod.shared is None:
            used[pod.node] = used.get(pod.node, 0) + pod.gpus
    return {
        name: max(
            0,
            node.healthy
            - used.get(name, 0)
            - len(others[name])
            - _used_by_unlisted(node.used, listed),
        )
        for name, node in found.nodes.items()
    }


def _used_by_unlisted(used: Mapping[str, int], listed: set[str]) -> int:
    return sum(gpus for uid, gpus in used.items() if uid not in listed)


def _seconds(time: str | None, otherwise: float) -> float:
    """Return a time in Unix time; ``otherwise`` if it is missing or impossible."""
    found = unix_seconds(time)
    return otherwise if found is None else found
