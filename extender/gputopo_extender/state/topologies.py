"""A GPUTopology object as the ledger keeps it: readable, or the reason why not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gputopo.api.names import READY_CONDITION
from gputopo.api.topology import from_spec
from gputopo.api.v1alpha1 import Condition, GPUTopologySpec, GPUTopologyStatus, ObservedGpu
from gputopo.runtime.messages import first_error
from gputopo.topology.model import GpuIndex, GpuMask, GpuUuid, NodeTopology, TopologyError, mask_of

_LONGEST_REASON = 160


@dataclass(frozen=True, slots=True)
class GpuUser:
    """The pod that uses a GPU, as the agent reports it.

    Attributes:
        uid: None where the agent could not find it out.
        pod: namespace and name.
        deleted: whether the pod was deleted or has ended, and a process of it still runs.
    """

    gpu: GpuIndex
    uid: str | None
    pod: str
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class PublishedNode:
    """A node's GPUs as published.

    Attributes:
        generation: of the spec, hence of the topology.
        healthy: GPUs that the agent calls healthy; a GPU it does not mention is not.
        users: the observed allocations.
        away: why the node's agent says that it serves no pods now, None where it does not say so.
        pods_version: resource version of the newest change of the node's pods that the status
            accounts for; None from agents that do not report it.
        reported: whether an agent has written the status. A new GPUTopology has none.
    """

    node: str
    generation: int
    topology: NodeTopology
    healthy: GpuMask
    users: tuple[GpuUser, ...]
    away: str | None = None
    pods_version: int | None = None
    reported: bool = True


@dataclass(frozen=True, slots=True)
class UnreadableTopology:
    """A node whose topology cannot be used, and why."""

    node: str
    reason: str


def parse_node(document: Mapping[str, Any]) -> PublishedNode | UnreadableTopology:
    """Return what a GPUTopology object says of its node; it never raises on its content."""
    metadata = document["metadata"]
    node = str(metadata["name"])
    try:
        topology = from_spec(GPUTopologySpec.model_validate(document.get("spec") or {}))
        status = GPUTopologyStatus.model_validate(document.get("status") or {})
    except ValidationError as error:
        return UnreadableTopology(node, _shorten(first_error(error)))
    except TopologyError as error:
        return UnreadableTopology(node, _shorten(str(error)))
    return PublishedNode(
        node=node,
        generation=int(metadata.get("generation") or 0),
        topology=topology,
        healthy=known_mask(topology, (gpu.uuid for gpu in status.gpus if gpu.healthy)),
        users=_holders(topology, status.gpus),
        away=_away(status.conditions),
        pods_version=_version(status.observed_pods_version),
        reported=bool(status.gpus or status.conditions),
    )


def _away(conditions: list[Condition]) -> str | None:
    """Return why the agent is not ready; one that says nothing is taken to be."""
    for condition in conditions:
        if condition.type == READY_CONDITION and condition.status == "False":
            message = " ".join(condition.message.split())
            return _shorten(f"the node's agent is not ready: {condition.reason}: {message}")
    return None


def known_mask(topology: NodeTopology, uuids: Iterable[str]) -> GpuMask:
    """Return these GPUs of a node as a set; one that it does not have is left out."""
    known = topology.index_of
    return mask_of(known[GpuUuid(uuid)] for uuid in uuids if GpuUuid(uuid) in known)


def _holders(topology: NodeTopology, gpus: list[ObservedGpu]) -> tuple[GpuUser, ...]:
    held = [gpu for gpu in gpus if gpu.pod_uid or gpu.pod]
    known = topology.index_of
    return tuple(
        GpuUser(
            known[GpuUuid(gpu.uuid)],
            gpu.pod_uid,
            f"{gpu.namespace or ''}/{gpu.pod or gpu.pod_uid}",
            deleted=bool(gpu.pod_deleted),
        )
        for gpu in held
        if GpuUuid(gpu.uuid) in known
    )


def _version(text: str | None) -> int | None:
    return None if text is None else int(text)


def _shorten(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 3] + "..."
