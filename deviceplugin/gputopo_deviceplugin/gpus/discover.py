"""Builds the node topology from an NVML snapshot. Pure functions."""

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from gputopo.counters.link_peers import OtherEnd
from gputopo.topology.model import (
    Ancestor,
    Gpu,
    GpuIndex,
    GpuUuid,
    Link,
    LinkKind,
    NodeTopology,
    NumaNode,
)
from gputopo.topology.rates import (
    NVLINK_MB_PER_S,
    PCIE_LANES,
    PCIE_X16_MB_PER_S,
    link_rate_mb_per_s,
)
from gputopo_deviceplugin.gpus.snapshot import NvmlGpu, NvmlLink, NvmlSnapshot

_ANCESTOR_OF_LEVEL: Final = {
    0: Ancestor.INTERNAL,
    10: Ancestor.PIX,
    20: Ancestor.PXB,
    30: Ancestor.PHB,
    40: Ancestor.NODE,
    50: Ancestor.SYS,
}
_ASSUMED_PCIE_GENERATION: Final = 3
"""Used if NVML reports no PCIe generation. Table 1 of the MAPA paper assumes 3 too (12 GB/s)."""


def discover(
    snapshot: NvmlSnapshot, numa_nodes: tuple[NumaNode, ...], known: NodeTopology | None
) -> NodeTopology:
    """Return the node's topology.

    If NVML fails to read a GPU, the result takes this GPU and its links from ``known``. So a fault
    does not look like a change of hardware. If NVML reports no common PCIe ancestor of two GPUs,
    the result has the ancestor SYS.

    Args:
        snapshot: the GPUs that NVML could read, and the errors of the other GPUs.
        numa_nodes: NUMA nodes of the host.
        known: the previous topology; None if there is none.
    """
    readable = {GpuIndex(gpu.index): gpu for gpu in snapshot.gpus}
    unreadable = _unreadable(snapshot, known)
    gpus = [_to_gpu(gpu) for gpu in snapshot.gpus] + [*unreadable.values()]
    gpus.sort(key=lambda gpu: gpu.index)
    links = []
    for a, b in combinations([gpu.index for gpu in gpus], 2):
        if a in readable and b in readable:
            links.append(_link(snapshot, readable[a], readable[b]))
        else:
            links.append(_previous_link(known, a, b))
    return NodeTopology(tuple(gpus), tuple(links), numa_nodes)


def _unreadable(snapshot: NvmlSnapshot, known: NodeTopology | None) -> dict[GpuIndex, Gpu]:
    if known is None:
        return {}
    readable = {gpu.uuid for gpu in snapshot.gpus}
    return {
        gpu.index: gpu
        for gpu in known.gpus
        if gpu.index in snapshot.failures and gpu.uuid not in readable
    }


def _to_gpu(gpu: NvmlGpu) -> Gpu:
    return Gpu(
        index=GpuIndex(gpu.index),
        uuid=GpuUuid(gpu.uuid),
        minor=gpu.minor,
        pci_bus_id=gpu.pci_bus_id,
        model=gpu.model,
        memory_bytes=gpu.memory_bytes,
        numa_node=gpu.numa_node,
    )


def _previous_link(known: NodeTopology | None, a: GpuIndex, b: GpuIndex) -> Link:
    """Return the link in ``known``. If there is none, return a PCIe link with assumed values."""
    if known is not None and (link := known.link_of.get((a, b))) is not None:
        return link
    return _pcie(a, b, Ancestor.SYS, _ASSUMED_PCIE_GENERATION, PCIE_LANES)


def _link(snapshot: NvmlSnapshot, a: NvmlGpu, b: NvmlGpu) -> Link:
    level = snapshot.levels.get((a.index, b.index))
    ancestor = _ANCESTOR_OF_LEVEL.get(level if level is not None else -1, Ancestor.SYS)
    candidates = [_pcie_between(a, b, ancestor), *_nvlinks_between(a, b, ancestor)]
    return max(candidates, key=lambda link: link.bandwidth_mb_per_s)


def _nvlinks_between(a: NvmlGpu, b: NvmlGpu, ancestor: Ancestor) -> Iterator[Link]:
    """Yield the direct NVLink link of two GPUs and their link through an NVSwitch, if they exist.

    The GPU with fewer NVLinks limits a link. For example, ``a`` has 6 active NVLinks to the
    NVSwitch and ``b`` has 5. Then the link consists of 5 NVLinks.
    """
    for kind, ends in (
        (LinkKind.NVLINK, (_links_to(a, b), _links_to(b, a))),
        (LinkKind.NVSWITCH, (_links_to_switch(a), _links_to_switch(b))),
    ):
        count = min(len(end) for end in ends)
        if count:
            reported = min(link.generation for end in ends for link in end)
            version = min(reported, max(NVLINK_MB_PER_S))
            rate = link_rate_mb_per_s(kind, version, count, a.model)
            yield Link(GpuIndex(a.index), GpuIndex(b.index), kind, version, count, ancestor, rate)


def _links_to(gpu: NvmlGpu, peer: NvmlGpu) -> list[NvmlLink]:
    bus = comparable_bus_id(peer.pci_bus_id)
    return [
        link
        for link in gpu.nvlinks
        if not isinstance(link.peer, OtherEnd) and comparable_bus_id(link.peer) == bus
    ]


def _links_to_switch(gpu: NvmlGpu) -> list[NvmlLink]:
    return [link for link in gpu.nvlinks if link.peer is OtherEnd.SWITCH]


def _pcie_between(a: NvmlGpu, b: NvmlGpu, ancestor: Ancestor) -> Link:
    generation = min(a.pcie_generation, b.pcie_generation) or _ASSUMED_PCIE_GENERATION
    lanes = min(a.pcie_lanes, b.pcie_lanes) or PCIE_LANES
    return _pcie(GpuIndex(a.index), GpuIndex(b.index), ancestor, generation, lanes)


def _pcie(a: GpuIndex, b: GpuIndex, ancestor: Ancestor, generation: int, lanes: int) -> Link:
    version = min(generation, max(PCIE_X16_MB_PER_S))
    rate = link_rate_mb_per_s(LinkKind.PCIE, version, lanes)
    return Link(a, b, LinkKind.PCIE, version, lanes, ancestor, rate)


def comparable_bus_id(pci_bus_id: str) -> str:
    """Normalise a bus ID. Drivers write its domain with 4 or 8 digits, in upper or lower case."""
    return pci_bus_id.lower().lstrip("0")
