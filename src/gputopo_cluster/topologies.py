"""Parses GPUTopology objects into the form that the ledger keeps.

The reflector of topologies calls this module for each object. An invalid object becomes an
``UnreadableTopology`` with the reason, which filter reports.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from gputopo.api.model import Condition
from gputopo.api.names import MPS_READY_CONDITION, READY_CONDITION
from gputopo.api.shares import gpu_of
from gputopo.api.topology import from_spec
from gputopo.api.v1alpha1 import (
    GPUTopologySpec,
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

_USED_STATUS: Final = ("alignment", "conditions", "gpus", "observedPodsVersion", "sharing")
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


def parse_gpu_node(document: Mapping[str, Any]) -> GpuNode | UnreadableTopology:
    """Parse a GPUTopology object; return an ``UnreadableTopology`` if its content is invalid."""
    metadata = document["metadata"]
    node = str(metadata["name"])
    try:
        topology = from_spec(GPUTopologySpec.model_validate(document.get("spec") or {}))
        status = _parse_status(document.get("status") or {})
    except ValidationError as error:
        return UnreadableTopology(node, shortened(first_error(error), _LONGEST_REASON))
    except TopologyError as error:
        return UnreadableTopology(node, shortened(str(error), _LONGEST_REASON))
    return GpuNode(
        node=node,
        generation=int(metadata.get("generation") or 0),
        topology=topology,
        healthy=known_mask(topology, (gpu.uuid for gpu in status.gpus if gpu.healthy)),
        users=_users(topology, status.gpus),
        not_ready=_not_ready(status.conditions),
        pods_version=_version(status.observed_pods_version),
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


def _not_ready(conditions: list[Condition]) -> str | None:
    """Return why the agent is not ready, or None if the agent is ready or has no condition."""
    for condition in conditions:
        if condition.type == READY_CONDITION and condition.status == "False":
            message = " ".join(condition.message.split())
            return shortened(
                f"the node's agent is not ready: {condition.reason}: {message}", _LONGEST_REASON
            )
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


def _version(text: str | None) -> int | None:
    return None if text is None else int(text)
