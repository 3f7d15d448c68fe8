"""From NVML's readings to the node topology. Pure: the readings are values."""

from collections.abc import Iterator
from itertools import combinations
from typing import Final

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
from gputopo_deviceplugin.gpus.readings import NvmlGpu, NvmlLink, NvmlSnapshot

_ANCESTOR_OF_LEVEL: Final = {
    0: Ancestor.INTERNAL,
    10: Ancestor.PIX,
    20: Ancestor.PXB,
    30: Ancestor.PHB,
    40: Ancestor.NODE,
    50: Ancestor.SYS,
}
_ASSUMED_PCIE_GENERATION: Final = 3
"""Where the platform does not say: the one that MAPA's table 1 assumes, 12 GB/s."""


def discover(
    readings: NvmlSnapshot, numa_nodes: tuple[NumaNode, ...], known: NodeTopology | None
) -> NodeTopology:
    """Return the node's topology.

    A GPU that does not answer now stays as it was ``known``, with its links, as long as no
    other GPU took its index: a fault must not look like a change of hardware. Two GPUs
    without a common ancestor known to NVML are taken as far apart.

    Args:
        readings: of the GPUs that answer, and which do not.
        numa_nodes: the host's.
        known: the topology as it was, None at the first time.
    """
    answering = {GpuIndex(reading.index): reading for reading in readings.gpus}
    missing = _missing(readings, known)
    gpus = [_gpu(reading) for reading in readings.gpus] + [*missing.values()]
    gpus.sort(key=lambda gpu: gpu.index)
    links = []
    for a, b in combinations([gpu.index for gpu in gpus], 2):
        if a in answering and b in answering:
            links.append(_link(readings, answering[a], answering[b]))
        else:
            links.append(_known_link(known, a, b))
    return NodeTopology(tuple(gpus), tuple(links), numa_nodes)


def _missing(readings: NvmlSnapshot, known: NodeTopology | None) -> dict[GpuIndex, Gpu]:
    if known is None:
        return {}
    answering = {reading.uuid for reading in readings.gpus}
    return {
        gpu.index: gpu
        for gpu in known.gpus
        if gpu.index in readings.failures and gpu.uuid not in answering
    }


def _gpu(reading: NvmlGpu) -> Gpu:
    return Gpu(
        index=GpuIndex(reading.index),
        uuid=GpuUuid(reading.uuid),
        minor=reading.minor,
        pci_bus_id=reading.pci_bus_id,
        model=reading.model,
        memory_bytes=reading.memory_bytes,
        numa_node=reading.numa_node,
    )


def _known_link(known: NodeTopology | None, a: GpuIndex, b: GpuIndex) -> Link:
    """Return the link as it was; PCIe of the assumed kind between GPUs never seen together."""
    if known is not None and (link := known.link_of.get((a, b))) is not None:
        return link
    return _pcie(a, b, Ancestor.SYS, _ASSUMED_PCIE_GENERATION, PCIE_LANES)


def _link(readings: NvmlSnapshot, a: NvmlGpu, b: NvmlGpu) -> Link:
    level = readings.levels.get((a.index, b.index))
    ancestor = _ANCESTOR_OF_LEVEL.get(level if level is not None else -1, Ancestor.SYS)
    candidates = [_pcie_between(a, b, ancestor), *_nvlinks_between(a, b, ancestor)]
    return max(candidates, key=lambda link: link.bandwidth_mb_per_s)


def _nvlinks_between(a: NvmlGpu, b: NvmlGpu, ancestor: Ancestor) -> Iterator[Link]:
    """Yield the direct NVLinks and the way through an NVSwitch, where there are any.

    A link counts when both its ends are up.
    """
    for kind, ends in (
        (LinkKind.NVLINK, (_to_gpu(a, b), _to_gpu(b, a))),
        (LinkKind.NVSWITCH, (_to_switch(a), _to_switch(b))),
    ):
        count = min(len(end) for end in ends)
        if count:
            reported = min(link.generation for end in ends for link in end)
            version = min(reported, max(NVLINK_MB_PER_S))
            rate = link_rate_mb_per_s(kind, version, count, a.model)
            yield Link(GpuIndex(a.index), GpuIndex(b.index), kind, version, count, ancestor, rate)


def _to_gpu(reading: NvmlGpu, peer: NvmlGpu) -> list[NvmlLink]:
    bus = _bus(peer.pci_bus_id)
    return [
        link
        for link in reading.nvlinks
        if link.peer_bus_id is not None and _bus(link.peer_bus_id) == bus
    ]


def _to_switch(reading: NvmlGpu) -> list[NvmlLink]:
    return [link for link in reading.nvlinks if link.peer_bus_id is None]


def _pcie_between(a: NvmlGpu, b: NvmlGpu, ancestor: Ancestor) -> Link:
    generation = min(a.pcie_generation, b.pcie_generation) or _ASSUMED_PCIE_GENERATION
    lanes = min(a.pcie_lanes, b.pcie_lanes) or PCIE_LANES
    return _pcie(GpuIndex(a.index), GpuIndex(b.index), ancestor, generation, lanes)


def _pcie(a: GpuIndex, b: GpuIndex, ancestor: Ancestor, generation: int, lanes: int) -> Link:
    version = min(generation, max(PCIE_X16_MB_PER_S))
    rate = link_rate_mb_per_s(LinkKind.PCIE, version, lanes)
    return Link(a, b, LinkKind.PCIE, version, lanes, ancestor, rate)


def _bus(pci_bus_id: str) -> str:
    """Return what tells two IDs apart: drivers write 4 or 8 digits of domain, in either case."""
    return pci_bus_id.lower().lstrip("0")
