"""What the GPUs left free are still worth (MAPA, equation 3)."""

from collections.abc import Mapping

from gputopo.topology.model import GpuIndex, GpuMask, NodeTopology
from gputopo.topology.shared import shared_by_equal_nodes


def preserved_mb_per_s(topology: NodeTopology, free: GpuMask) -> int:
    """Return the sum of the bandwidths of all links, PCIe included, among the free GPUs."""
    return sum(
        link.bandwidth_mb_per_s
        for link in topology.links
        if free >> link.a & 1 and free >> link.b & 1
    )


@shared_by_equal_nodes(maxsize=64)
def preserved_table(topology: NodeTopology) -> Mapping[GpuMask, int]:
    """Return :func:`preserved_mb_per_s` of every subset of a node's GPUs.

    Built by doubling: each GPU adds, to every set of the GPUs before it, its links
    into that set. 2^n entries for n GPUs.
    """
    masks, totals = [0], [0]
    placed: list[GpuIndex] = []
    for gpu in topology.gpus:
        added = [0]
        for other in placed:
            bandwidth = topology.link_of[gpu.index, other].bandwidth_mb_per_s
            added += [total + bandwidth for total in added]
        placed.append(gpu.index)
        masks += [mask | 1 << gpu.index for mask in masks]
        totals += [total + more for total, more in zip(totals, added, strict=True)]
    return {GpuMask(mask): total for mask, total in zip(masks, totals, strict=True)}
