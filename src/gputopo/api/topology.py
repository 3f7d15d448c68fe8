"""Conversion between a node topology and ``GPUTopology.spec``."""

from gputopo.api.quantity import format_bytes, parse_bytes
from gputopo.api.v1alpha1 import GPUTopologySpec, TopologyGpu, TopologyLink, TopologyNumaNode
from gputopo.topology.model import (
    Gpu,
    GpuIndex,
    GpuUuid,
    Link,
    NodeTopology,
    NumaNode,
    TopologyError,
)


def to_spec(topology: NodeTopology) -> GPUTopologySpec:
    """Return the ``GPUTopology.spec`` of a topology. Links in the spec refer to GPUs by UUID."""
    uuid_of = topology.uuid_of
    return GPUTopologySpec(
        gpus=[
            TopologyGpu(
                uuid=gpu.uuid,
                index=gpu.index,
                minor=gpu.minor,
                pci_bus_id=gpu.pci_bus_id,
                model=gpu.model,
                memory=format_bytes(gpu.memory_bytes),
                numa_node=gpu.numa_node,
            )
            for gpu in topology.gpus
        ],
        links=[
            TopologyLink(
                a=uuid_of[link.a],
                b=uuid_of[link.b],
                kind=link.kind,
                version=link.version,
                count=link.count,
                ancestor=link.ancestor,
                bandwidth_mb_per_s=link.bandwidth_mb_per_s,
            )
            for link in topology.links
        ],
        numa_nodes=[
            TopologyNumaNode(id=numa.id, cpus=numa.cpus, memory=format_bytes(numa.memory_bytes))
            for numa in topology.numa_nodes
        ],
    )


def parse_spec(document: object) -> NodeTopology:
    """Return the node topology of a ``GPUTopology.spec`` in its JSON form.

    Raises:
        ValidationError: of pydantic, if the document has another form.
        TopologyError: if the spec is inconsistent.
    """
    return from_spec(GPUTopologySpec.model_validate(document))


def from_spec(spec: GPUTopologySpec) -> NodeTopology:
    """Return the node topology that a ``GPUTopology.spec`` describes.

    Raises:
        TopologyError: if the spec is inconsistent.
    """
    gpus = tuple(
        Gpu(
            index=GpuIndex(gpu.index),
            uuid=GpuUuid(gpu.uuid),
            minor=gpu.minor,
            pci_bus_id=gpu.pci_bus_id,
            model=gpu.model,
            memory_bytes=parse_bytes(gpu.memory, "gpus[].memory"),
            numa_node=gpu.numa_node,
        )
        for gpu in spec.gpus
    )
    index_of = {gpu.uuid: gpu.index for gpu in gpus}
    return NodeTopology(
        gpus=gpus,
        links=tuple(_link(link, index_of) for link in spec.links),
        numa_nodes=tuple(
            NumaNode(
                id=numa.id,
                cpus=numa.cpus,
                memory_bytes=parse_bytes(numa.memory, "numaNodes[].memory"),
            )
            for numa in spec.numa_nodes
        ),
    )


def _link(link: TopologyLink, index_of: dict[GpuUuid, GpuIndex]) -> Link:
    try:
        ends = sorted((index_of[GpuUuid(link.a)], index_of[GpuUuid(link.b)]))
    except KeyError as missing:
        raise TopologyError(f"links[]: {missing.args[0]} is not one of gpus[].uuid") from None
    return Link(
        a=ends[0],
        b=ends[1],
        kind=link.kind,
        version=link.version,
        count=link.count,
        ancestor=link.ancestor,
        bandwidth_mb_per_s=link.bandwidth_mb_per_s,
    )
