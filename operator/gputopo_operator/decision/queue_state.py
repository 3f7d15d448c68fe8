"""Computes the state of gputopo's queue from API objects: GPUs of the nodes, and the jobs."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from gputopo.api.annotations import AnnotationError
from gputopo.api.shares import gpu_of
from gputopo.api.v1alpha1 import QueueStatus
from gputopo.queueing.model import AdmittedJob, JoinableGpu, QueueState, WaitingJob
from gputopo.runtime.times import unix_seconds
from gputopo.topology.model import GpuMask
from gputopo_cluster.topologies import UnreadableTopology
from gputopo_cluster.usage import NodeUsage
from gputopo_kube.document import ObjectKey
from gputopo_kube.own_gpus import own_gpus
from gputopo_kube.pods import PodView
from gputopo_operator.decision.pod_creation import on_probation
from gputopo_operator.model.queued import GpuPod, QueuedJob, QueueInput, QueueRole

_Joins = Mapping[ObjectKey, frozenset[JoinableGpu]]


class QueueOffer(NamedTuple):
    """The GPUs of a node for jobs of the queue.

    Attributes:
        capacity: how many are free or used by admitted jobs only.
        used: how many of them each pod of an admitted job uses, by UID; 0 if it is missing.
    """

    capacity: int
    used: Mapping[str, int]


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
    def namespace(self) -> str:
        """Namespace of the GPUJob."""
        return self.queued.job.key.namespace

    @property
    def gpus(self) -> int:
        """GPUs of its pod."""
        spec = self.queued.job.spec
        return spec.gpus_per_replica if spec is not None else 0


def queue_state(found: QueueInput, members: Sequence[QueueMember]) -> QueueState:
    """Return the input of the decision: free GPUs, admitted and waiting jobs."""
    now = _seconds(found.now, 0.0)
    admitted = [each for each in members if each.role is QueueRole.ADMITTED]
    offers = _offers(found, frozenset(each.pod.uid for each in admitted if each.pod))
    return QueueState(
        capacities={name: offer.capacity for name, offer in offers.items()},
        admitted=tuple(_admitted(each, now, offers, found.joins) for each in admitted),
        waiting=tuple(
            _waiting(each, now, found.joins) for each in members if each.role is QueueRole.WAITING
        ),
        now=now,
        rejected=_delayed(members, now) | {str(key): text for key, text in found.rejected.items()},
        offers=found.offers,
        probation=on_probation(found.failed, now),
    )


def _offers(found: QueueInput, admitted: frozenset[str]) -> dict[str, QueueOffer]:
    """Return for each node the GPUs that are free or used by pods of admitted jobs only."""
    others = found.cluster.without_pods(admitted).usages
    return {
        name: _offer(usage, others[name], admitted) for name, usage in found.cluster.usages.items()
    }


def _offer(
    usage: NodeUsage | UnreadableTopology,
    others: NodeUsage | UnreadableTopology,
    admitted: frozenset[str],
) -> QueueOffer:
    """Return the GPUs of one node; ``others`` is its usage without the pods of admitted jobs.

    An admitted pod gives back only the GPUs that are healthy and that no other pod uses.
    """
    if isinstance(usage, UnreadableTopology) or isinstance(others, UnreadableTopology):
        return QueueOffer(0, {})
    unused, free = others.healthy & ~others.used, others.free
    used = {}
    for each in usage.occupants:
        if each.uid in admitted:
            returned = GpuMask(each.gpus & unused)
            used[each.uid] = returned.bit_count() + each.unknown
            free = GpuMask(free | returned)
    takes_pods = usage.blocked is None and usage.not_ready is None
    return QueueOffer(max(0, free.bit_count() - others.unknown) if takes_pods else 0, used)


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
    member: QueueMember, now: float, offers: Mapping[str, QueueOffer], joins: _Joins
) -> AdmittedJob:
    pod, queued = member.pod, member.queued
    node = pod.node if pod else None
    offer = offers.get(node or "")
    since = (pod.started if pod else None) or queued.started
    return AdmittedJob(
        member.name,
        offer.used.get(pod.uid, 0) if pod and offer else member.gpus,
        node,
        _seconds(since, now),
        member.avoids,
        _shared_gpu(pod.view) if pod and node and pod.view.shares else None,
        frozenset() if node else _joins_of(member, joins),
        tenant=member.namespace,
        rejected=pod.rejected if pod else False,
    )


def _shared_gpu(pod: PodView) -> str:
    """Return the GPU of which a pod has a share; a name of its own if its annotation is wrong."""
    devices: list[str] = []
    with suppress(AnnotationError):
        chosen = own_gpus(pod)
        devices = [
            each for found in (chosen.containers if chosen else {}).values() for each in found
        ]
    return gpu_of(devices[0]) if devices else f"of pod {pod.uid}"


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
        tenant=member.namespace,
    )


def _joins_of(member: QueueMember, joins: _Joins) -> frozenset[JoinableGpu]:
    found = joins.get(member.queued.job.key, frozenset())
    return frozenset(each for each in found if each.node not in member.avoids)


def _seconds(time: str | None, otherwise: float) -> float:
    """Return a time in Unix time; ``otherwise`` if it is missing or impossible."""
    found = unix_seconds(time)
    return otherwise if found is None else found
