"""The GPUs of a node, and who holds them by kubelet's books."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from gputopo.api.topology import from_spec
from gputopo.api.v1alpha1 import Condition, GPUTopologySpec, GPUTopologyStatus, ObservedGpu
from gputopo.runtime.messages import first_error
from gputopo.topology.model import TopologyError
from gputopo_kube.document import Document


@dataclass(frozen=True, slots=True)
class Node:
    """What the agent of a node has published.

    Attributes:
        index_of: the GPUs of the node, by UUID.
        observed: their health and holders, by UUID; of those that the agent speaks of.
        conditions: what the agent says of itself, by type.
        behind: whether the status speaks of an earlier topology than the one published.
        fault: why the object cannot be read, None where it can.
    """

    name: str
    index_of: Mapping[str, int] = field(default_factory=dict)
    observed: Mapping[str, ObservedGpu] = field(default_factory=dict)
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    behind: bool = False
    fault: str | None = None


def node_of(document: Document) -> Node:
    """Return what a GPUTopology says; it never raises on its content."""
    metadata = document["metadata"]
    name = metadata["name"]
    try:
        topology = from_spec(GPUTopologySpec.model_validate(document.get("spec") or {}))
    except ValidationError as error:
        return Node(name, fault=first_error(error, prefix="spec"))
    except TopologyError as error:
        return Node(name, fault=str(error))
    try:
        status = GPUTopologyStatus.model_validate(document.get("status") or {})
    except ValidationError as error:
        return Node(name, fault=first_error(error, prefix="status"))
    return Node(
        name,
        {str(uuid): int(index) for uuid, index in topology.index_of.items()},
        {gpu.uuid: gpu for gpu in status.gpus},
        {condition.type: condition for condition in status.conditions},
        behind=(status.observed_generation or 0) < metadata["generation"],
    )
