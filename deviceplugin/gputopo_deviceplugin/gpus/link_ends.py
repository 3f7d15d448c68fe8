"""Where the NVLinks of the node end, by the driver's link numbers. Pure functions."""

from gputopo.counters.link_peers import LinkPeer, LinkPeers, OtherEnd
from gputopo.topology.model import GpuIndex, LinkKind, NodeTopology
from gputopo.topology.rates import (
    NVLINK_MB_PER_S,
    PCIE_LANES,
    PCIE_X16_MB_PER_S,
    link_rate_mb_per_s,
)
from gputopo_deviceplugin.gpus.discover import comparable_bus_id
from gputopo_deviceplugin.gpus.snapshot import NvmlGpu, NvmlLink, NvmlSnapshot


def link_peers(topology: NodeTopology, snapshot: NvmlSnapshot) -> LinkPeers:
    """Return the ends and the bandwidths of the NVLinks and PCIe links of all GPUs in ``snapshot``.

    A GPU that a virtual machine does not show is an unknown end.

    Args:
        topology: all GPUs of the node, also those that NVML cannot read now.
        snapshot: the data of NVML.
    """
    index_of = {comparable_bus_id(gpu.pci_bus_id): gpu.index for gpu in topology.gpus}

    def end(link: NvmlLink) -> GpuIndex | OtherEnd:
        if isinstance(link.peer, OtherEnd):
            return link.peer
        return index_of.get(comparable_bus_id(link.peer), OtherEnd.UNKNOWN)

    return LinkPeers(
        {
            GpuIndex(gpu.index): {
                link.number: LinkPeer(end(link), _nvlink_mb_per_s(gpu, link))
                for link in gpu.nvlinks
            }
            for gpu in snapshot.gpus
            if gpu.nvlinks
        },
        {
            GpuIndex(gpu.index): _pcie_mb_per_s(gpu)
            for gpu in snapshot.gpus
            if gpu.pcie_generation > 0 and gpu.pcie_lanes > 0
        },
    )


def _nvlink_mb_per_s(gpu: NvmlGpu, link: NvmlLink) -> int:
    version = min(link.generation, max(NVLINK_MB_PER_S))
    return link_rate_mb_per_s(LinkKind.NVLINK, version, 1, gpu.model)


def _pcie_mb_per_s(gpu: NvmlGpu) -> int:
    """Return what the PCIe link can carry.

    The table has what programs reach: 12 GB/s of the 15.8 GB/s of generation 3. Counters include
    headers, so the limit for them is higher by a third.
    """
    version = min(gpu.pcie_generation, max(PCIE_X16_MB_PER_S))
    return max(1, PCIE_X16_MB_PER_S[version] * gpu.pcie_lanes // PCIE_LANES * 4 // 3)
