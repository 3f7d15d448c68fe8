"""Small node topologies and GPU sets for tests."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations

from gputopo.topology.model import (
    Ancestor,
    Gpu,
    GpuIndex,
    GpuMask,
    GpuUuid,
    Link,
    LinkKind,
    NodeTopology,
    NumaNode,
    mask_of,
)
from gputopo.topology.rates import link_rate_mb_per_s

LinkSpec = tuple[LinkKind, int, int]
"""Type, version and count of a link."""

DOUBLE: LinkSpec = (LinkKind.NVLINK, 2, 2)
SINGLE: LinkSpec = (LinkKind.NVLINK, 2, 1)
PCIE: LinkSpec = (LinkKind.PCIE, 3, 16)


def gpu(index: int, *, node: str = "n") -> Gpu:
    return Gpu(
        index=GpuIndex(index),
        uuid=GpuUuid(f"GPU-{node}-{index}"),
        minor=index,
        pci_bus_id=f"00000000:{index:02X}:00.0",
        model="Tesla V100-SXM2-32GB",
        memory_bytes=2**35,
        numa_node=0,
    )


def link(a: int, b: int, spec: LinkSpec = PCIE, *, mb_per_s: int | None = None) -> Link:
    kind, version, count = spec
    return Link(
        a=GpuIndex(a),
        b=GpuIndex(b),
        kind=kind,
        version=version,
        count=count,
        ancestor=Ancestor.SYS,
        bandwidth_mb_per_s=link_rate_mb_per_s(*spec) if mb_per_s is None else mb_per_s,
    )


def node(
    *indices: int, links: Mapping[tuple[int, int], LinkSpec] | None = None, name: str = "n"
) -> NodeTopology:
    """Return a node with these GPUs; pairs that are not in ``links`` have PCIe 3 x16."""
    specs = links or {}
    return NodeTopology(
        gpus=tuple(gpu(index, node=name) for index in indices),
        links=tuple(
            link(a, b, specs.get((a, b), PCIE)) for a, b in combinations(sorted(indices), 2)
        ),
        numa_nodes=(NumaNode(0, 8, 2**36),),
    )


def with_uuids(*uuids: str) -> NodeTopology:
    """Return a node with one GPU for each of these UUIDs; with one other GPU if there is none."""
    made = node(*range(len(uuids) or 1))
    pairs = zip(made.gpus, uuids or ("GPU-unused",), strict=True)
    return replace(made, gpus=tuple(replace(each, uuid=GpuUuid(uuid)) for each, uuid in pairs))


def relabelled(topology: NodeTopology, new: Callable[[int], int]) -> NodeTopology:
    """Return the same node with other GPU indices: ``new(i)`` instead of ``i``."""
    indices = [new(gpu.index) for gpu in topology.gpus]
    specs = {
        (min(ends), max(ends)): (one.kind, one.version, one.count)
        for one in topology.links
        for ends in [(new(one.a), new(one.b))]
    }
    return node(*indices, links=specs)


def gpus(*indices: int) -> GpuMask:
    """Return a set of GPUs."""
    return mask_of(GpuIndex(index) for index in indices)
