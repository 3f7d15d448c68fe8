"""The parser of GPUTopology objects, in which agents publish the GPUs of their nodes.

Decisions need ``GpuNode``, which is small: the extender keeps one for each node. What people see
also needs ``PublishedNode``, with the messages and names in the status.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from gputopo.api.model import Condition
from gputopo.api.names import MPS_READY_CONDITION, READY_CONDITION
from gputopo.api.shares import gpu_of
from gputopo.api.topology import parse_spec
from gputopo.api.v1alpha1 import (
    CounterStatus,
    GPUTopologyStatus,
    ObservedGpu,
    ObservedShare,
    SizedCapacity,
)
from gputopo.runtime.messages import first_error, shortened
from gputopo.topology.model import GpuIndex, GpuMask, GpuUuid, NodeTopology, TopologyError, mask_of
from gputopo_cluster.numa_rules import NumaRules, numa_rules

_LONGEST_REASON: Final = 160
_NO_GPUS: Final = GpuMask(0)

_USED_STATUS: Final = (
    "alignment",
    "conditions",
    "gpus",
    "observedGeneration",
    "observedPodsVersion",
    "sharing",
)
"""The other fields of the status have measurements, which change often and decide nothing here."""


@dataclass(frozen=True, slots=True)
class ReportedUser:
    """The pod that uses a GPU, as the agent reports it.

    Attributes:
        uid: UID of the pod, or None if the agent did not identify the pod.
        pod: namespace and name.
        deleted: whether the pod was deleted or has ended while one of its processes still runs.
        share: device ID of the share of the GPU that the pod uses; None if it uses the whole GPU.
    """

    gpu: GpuIndex
    uid: str | None
    pod: str
    deleted: bool = False
    share: GpuUuid | None = None


@dataclass(frozen=True, slots=True)
class GpuNode:
    """The GPUs of a node, as published in its GPUTopology.

    Attributes:
        generation: generation of the GPUTopology; it grows when the spec changes.
        healthy: GPUs that the agent reports as healthy. GPUs without a report are not healthy.
        users: the observed users of GPUs.
        not_ready: why the agent is not ready; None if the agent is ready or reports no condition.
        pods_version: when the agent wrote the status, it had seen all changes of the node's pods up
            to this resource version; None if the agent does not report the version.
        reported: whether an agent has written the status. A new GPUTopology has no status.
        sized_capacity: CPUs, memory and GPUs for pods that gputopo sizes; None if unknown. The
            extender ranks nodes by it. Whether a pod fits does not depend on it.
        numa: how kubelet takes NUMA nodes; None if this limits no choice.
        most_pods_per_gpu: how many pods can share a GPU; 0 if the node offers no shares.
        not_shareable: GPUs that take no further sharing pods now.
        not_whole: GPUs that no pod can get as a whole now, even if no pod uses them.
        mps_outage: whether the component for MPS does not respond.
        admitted: UIDs of the pods whose GPUs and exclusive CPUs kubelet counts as in use; empty
            without ``numa``.
    """

    node: str
    generation: int
    topology: NodeTopology
    healthy: GpuMask
    users: tuple[ReportedUser, ...]
    not_ready: str | None = None
    pods_version: int | None = None
    reported: bool = True
    sized_capacity: SizedCapacity | None = field(default=None, compare=False)
    numa: NumaRules | None = None
    admitted: frozenset[str] = frozenset()
    most_pods_per_gpu: int = 0
    not_shareable: GpuMask = _NO_GPUS
    not_whole: GpuMask = _NO_GPUS
    mps_outage: bool = False


@dataclass(frozen=True, slots=True)
class UnreadableTopology:
    """A node whose GPUTopology is not valid, and the reason."""

    node: str
    reason: str

    @property
    def offered(self) -> int:
        """How many GPUs the node gives to new pods."""
        return 0


@dataclass(frozen=True, slots=True)
class PublishedNode:
    """The GPUTopology of a node, for people and for decisions.

    Attributes:
        gpus: the node for decisions; it says whether the object is valid.
        index_of: indices of the node's GPUs, by UUID.
        observed: health and users of the GPUs in the status, by UUID.
        conditions: the agent's conditions, by type.
        behind: whether the status was written for an earlier generation of the spec.
        fault: why the object is invalid, in full; None if it is valid.
    """

    gpus: GpuNode | UnreadableTopology
    index_of: Mapping[str, int] = field(default_factory=dict)
    observed: Mapping[str, ObservedGpu] = field(default_factory=dict)
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    behind: bool = False
    fault: str | None = None

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.gpus.node

    @property
    def topology(self) -> NodeTopology | None:
        """The GPUs and links; None if the object is invalid."""
        return self.gpus.topology if isinstance(self.gpus, GpuNode) else None


def parse_gpu_node(document: Mapping[str, Any]) -> GpuNode | UnreadableTopology:
    """Parse a GPUTopology object; return an ``UnreadableTopology`` if its content is invalid."""
    return parse_published_node(document).gpus


def parse_published_node(document: Mapping[str, Any]) -> PublishedNode:
    """Parse a GPUTopology object. If its content is invalid, return a node with a ``fault``."""
    name, part = str(document["metadata"]["name"]), "spec"
    try:
        topology = parse_spec(document.get("spec") or {})
        part = "status"
        status = _parse_status(document.get("status") or {})
    except ValidationError as error:
        return _unreadable(name, first_error(error), first_error(error, prefix=part))
    except TopologyError as error:
        return _unreadable(name, str(error), str(error))
    gpus = _gpu_node(document, topology, status)
    return PublishedNode(
        gpus,
        {str(uuid): int(index) for uuid, index in topology.index_of.items()},
        {gpu.uuid: gpu for gpu in status.gpus},
        {condition.type: condition for condition in status.conditions},
        behind=(status.observed_generation or 0) < gpus.generation,
    )


def parse_counters(document: Mapping[str, Any]) -> list[CounterStatus]:
    """Return the counters of a GPUTopology object; none if they are in an unknown format."""
    with suppress(ValidationError):
        counters = (document.get("status") or {}).get("counters", [])
        return GPUTopologyStatus.model_validate({"counters": counters}).counters
    return []


def _unreadable(name: str, reason: str, fault: str) -> PublishedNode:
    return PublishedNode(UnreadableTopology(name, shortened(reason, _LONGEST_REASON)), fault=fault)


def _gpu_node(
    document: Mapping[str, Any], topology: NodeTopology, status: GPUTopologyStatus
) -> GpuNode:
    metadata, not_ready = document["metadata"], why_not_ready(status.conditions)
    version = status.observed_pods_version
    return GpuNode(
        node=str(metadata["name"]),
        generation=int(metadata.get("generation") or 0),
        topology=topology,
        healthy=known_mask(topology, (gpu.uuid for gpu in status.gpus if gpu.healthy)),
        users=_users(topology, status.gpus),
        not_ready=not_ready and shortened(not_ready, _LONGEST_REASON),
        pods_version=None if version is None else int(version),
        reported=bool(status.gpus or status.conditions),
        sized_capacity=_sized_capacity(document.get("status") or {}),
        numa=numa_rules(status.alignment, topology),
        admitted=frozenset(status.alignment.admitted if status.alignment else ()),
        most_pods_per_gpu=status.sharing.most_pods if status.sharing else 0,
        not_shareable=known_mask(
            topology, (gpu.uuid for gpu in status.gpus if gpu.sharing_fault is not None)
        ),
        not_whole=known_mask(
            topology, (gpu.uuid for gpu in status.gpus if gpu.whole_fault is not None)
        ),
        mps_outage=any(
            each.type == MPS_READY_CONDITION and each.status == "False"
            for each in status.conditions
        ),
    )


def _parse_status(status: Mapping[str, Any]) -> GPUTopologyStatus:
    return GPUTopologyStatus.model_validate(
        {field: status[field] for field in _USED_STATUS if field in status}
    )


def _users_of(gpu: ObservedGpu) -> Iterator[ObservedGpu | ObservedShare]:
    """Yield the users of shares, and that of the GPU as a whole unless it is one of them."""
    shares = gpu.shares or ()
    yield from shares
    if all((gpu.pod_uid, gpu.pod) != (each.pod_uid, each.pod) for each in shares):
        yield gpu


def _sized_capacity(status: Mapping[str, Any]) -> SizedCapacity | None:
    """Return ``status.sizedCapacity``; None if it is missing or in an unknown format."""
    with suppress(ValidationError):
        return SizedCapacity.model_validate(status.get("sizedCapacity"))
    return None


def why_not_ready(conditions: Iterable[Condition]) -> str | None:
    """Return why the agent is not ready, or None if the agent is ready or has no condition."""
    for condition in conditions:
        if condition.type == READY_CONDITION and condition.status == "False":
            message = " ".join(condition.message.split())
            return f"the node's agent is not ready: {condition.reason}: {message}"
    return None


def known_mask(topology: NodeTopology, uuids: Iterable[str]) -> GpuMask:
    """Return a mask of those GPUs of the topology whose UUIDs, or shares, are in ``uuids``."""
    known = topology.index_of
    return mask_of(known[gpu] for gpu in map(gpu_of, uuids) if gpu in known)


def _users(topology: NodeTopology, gpus: list[ObservedGpu]) -> tuple[ReportedUser, ...]:
    known = topology.index_of
    return tuple(
        ReportedUser(
            known[GpuUuid(gpu.uuid)],
            user.pod_uid,
            f"{user.namespace or ''}/{user.pod or user.pod_uid}",
            deleted=bool(user.pod_deleted),
            share=GpuUuid(user.id) if isinstance(user, ObservedShare) else None,
        )
        for gpu in gpus
        for user in _users_of(gpu)
        if (user.pod_uid or user.pod) and GpuUuid(gpu.uuid) in known
    )
