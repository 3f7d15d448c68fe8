"""Parse GPUTopology objects, in which agents publish the GPUs of their nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from gputopo.api.model import Condition
from gputopo.api.topology import from_spec
from gputopo.api.v1alpha1 import GPUTopologySpec, GPUTopologyStatus, ObservedGpu
from gputopo.runtime.messages import first_error
from gputopo.topology.model import NodeTopology, TopologyError
from gputopo_kube.document import Document


@dataclass(frozen=True, slots=True)
class PublishedNode:
    """The GPUTopology of a node.

    Attributes:
        index_of: indices of the node's GPUs, by UUID.
        observed: health and users of the GPUs in the status, by UUID.
        conditions: the agent's conditions, by type.
        behind: whether the status was written for an earlier generation of the spec.
        fault: why the object is invalid; None if it is valid.
        topology: None if the object is invalid.
    """

    name: str
    index_of: Mapping[str, int] = field(default_factory=dict)
    observed: Mapping[str, ObservedGpu] = field(default_factory=dict)
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    behind: bool = False
    fault: str | None = None
    topology: NodeTopology | None = None


def parse_published_node(document: Document) -> PublishedNode:
    """Parse a GPUTopology object. If it is invalid, return a node with a ``fault``."""
    metadata = document["metadata"]
    name = metadata["name"]
    try:
        topology = from_spec(GPUTopologySpec.model_validate(document.get("spec") or {}))
    except ValidationError as error:
        return PublishedNode(name, fault=first_error(error, prefix="spec"))
    except TopologyError as error:
        return PublishedNode(name, fault=str(error))
    try:
        status = GPUTopologyStatus.model_validate(document.get("status") or {})
    except ValidationError as error:
        return PublishedNode(name, fault=first_error(error, prefix="status"))
    return PublishedNode(
        name,
        {str(uuid): int(index) for uuid, index in topology.index_of.items()},
        {gpu.uuid: gpu for gpu in status.gpus},
        {condition.type: condition for condition in status.conditions},
        behind=(status.observed_generation or 0) < metadata["generation"],
        topology=topology,
    )
