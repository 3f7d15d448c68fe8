"""How much a node's links carry between two halves of a GPU set.

Three things add up. NVLinks between two GPUs serve that pair alone. An NVSwitch gives every
GPU a port, and a half no more than its ports together. PCIe is a tree that all share:
lanes of the GPU, uplink of its switches, processor, interconnect of the sockets.
All links carry as much in each direction at the same time.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.topology.hierarchy import blocks
from gputopo.topology.model import (
    MAX_INDEX,
    Ancestor,
    GpuIndex,
    GpuMask,
    Link,
    LinkKind,
    NodeTopology,
)
from gputopo.topology.rates import PCIE_LANES, link_rate_mb_per_s, pcie_version_beside

_UPLINKS: Final = (
    (Ancestor.PIX, Fraction(1)),
    (Ancestor.PXB, Fraction(5, 6)),
    (Ancestor.NODE, Fraction(2, 3)),
)
"""What leaves the GPUs that meet here, as a share of the lanes of one of them.

From the rates that NCCL plans with (``src/graph/topo.h``). A PCIe switch has one uplink.
Traffic of one GPU to another through an Intel processor needs 6/5 of the lanes. Between
sockets: 6, 10, 22 and 40 GB/s on Intel's Broadwell, Skylake, Sapphire Rapids and Emerald
Rapids, whose PCIe x16 give 12, 12, 48 and 48: two thirds on average.
"""

MOST_MB_PER_S: Final = 8_000_000
"""Links faster than this count as this fast, so that sums over 16 GPUs fit 32 bits."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A GPU, or a place where the branches beneath meet.

    Attributes:
        gpus: all GPUs beneath.
        uplink_mb_per_s: what it exchanges with the rest of the tree, in each direction.
        branches: what meets here; empty for a GPU.
    """

    gpus: GpuMask
    uplink_mb_per_s: int
    branches: tuple["Branch", ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Capacities:
    """The links of a node, ready to be cut.

    Attributes:
        direct_mb_per_s: [64, 64] NVLinks between two GPUs, by index; 0 where there is none.
        shared: trees that carry besides.
    """

    direct_mb_per_s: NDArray[np.int32]
    shared: tuple[Branch, ...]

    @classmethod
    def of(cls, topology: NodeTopology) -> "Capacities":
        """Return those of a node."""
        direct = np.zeros((MAX_INDEX + 1, MAX_INDEX + 1), dtype=np.int32)
        for link in topology.links:
            if link.kind is LinkKind.NVLINK:
                direct[link.a, link.b] = direct[link.b, link.a] = _rate(link)
        has_switch = any(link.kind is LinkKind.NVSWITCH for link in topology.links)
        switches = (nvswitch(topology),) if has_switch else ()
        return cls(direct, (pcie_tree(topology), *switches))

    def across(self, members: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return [halves, rows]: MB/s between two halves of each set, in each direction.

        Half number h is the first member and the (i + 2)-th for each bit i of h.

        Args:
            members: [size, rows] GPU indices of each set, two or more.
        """
        total = _between_pairs(self.direct_mb_per_s[members[:, None], members[None]])
        for tree in self.shared:
            total += np.minimum(*_sides(tree, members))
        return total[:-1]


def pcie_tree(topology: NodeTopology) -> Branch:
    """Return the PCIe tree of a node, a GPU's own lanes at the leaves."""
    lanes = _lanes_mb_per_s(topology)
    branches = [Branch(GpuMask(1 << gpu), rate) for gpu, rate in lanes.items()]
    for level, share in _UPLINKS:
        met = []
        for block in blocks(topology, level):
            uplink = int(share * max(rate for gpu, rate in lanes.items() if block >> gpu & 1))
            met.append(_met([one for one in branches if one.gpus & block], max(1, uplink)))
        branches = met
    return _met(branches, 0)


def nvswitch(topology: NodeTopology) -> Branch:
    """Return the NVSwitch as a tree: the ports, of 0 where a GPU has none. One in a node."""
    ports = {gpu.index: 0 for gpu in topology.gpus}
    for link in topology.links:
        if link.kind is LinkKind.NVSWITCH:
            for gpu in (link.a, link.b):
                ports[gpu] = max(ports[gpu], _rate(link))
    return _met([Branch(GpuMask(1 << gpu), rate) for gpu, rate in ports.items()], 0)


def _lanes_mb_per_s(topology: NodeTopology) -> dict[GpuIndex, int]:
    """Return the PCIe rate of each GPU: its best PCIe link's, or what its NVLinks tell.

    A pair's only link in a topology is its best one, so that NVLinks hide PCIe.
    """
    lanes = {gpu.index: 0 for gpu in topology.gpus}
    for link in topology.links:
        for gpu in (link.a, link.b):
            lanes[gpu] = max(lanes[gpu], _pcie_mb_per_s(link))
    return lanes


def _pcie_mb_per_s(link: Link) -> int:
    if link.kind is LinkKind.PCIE:
        return _rate(link)
    return link_rate_mb_per_s(LinkKind.PCIE, pcie_version_beside(link.version), PCIE_LANES)


def _rate(link: Link) -> int:
    return min(link.bandwidth_mb_per_s, MOST_MB_PER_S)


def _met(branches: list[Branch], uplink: int) -> Branch:
    """Return what joins these; one alone passes on what it can."""
    if len(branches) == 1 and uplink:
        only = branches[0]
        return Branch(only.gpus, min(only.uplink_mb_per_s, uplink), only.branches)
    gpus = 0
    for branch in branches:
        gpus |= branch.gpus
    return Branch(GpuMask(gpus), uplink, tuple(branches))


def _sides(
    branch: Branch, members: NDArray[np.uint8]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the smallest cut beneath a branch that parts the halves, twice [halves, rows].

    First with the place itself on the side of the half, then on that of the others. A GPU
    outside the set takes the side of the place it hangs on, at no cost.
    """
    rates = np.zeros(MAX_INDEX + 1, dtype=np.int32)
    for gpu in branch.branches:
        if not gpu.branches:
            rates[gpu.gpus.bit_length() - 1] = gpu.uplink_mb_per_s
    leaves = rates[members]
    with_others = _sums(leaves)
    with_half = leaves.sum(axis=0, dtype=np.int32) - with_others
    for place in branch.branches:
        if place.branches:
            half, others = _sides(place, members)
            with_half += np.minimum(half, others + place.uplink_mb_per_s)
            with_others += np.minimum(others, half + place.uplink_mb_per_s)
    return with_half, with_others


def _sums(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the sum of [size, rows] over each half, as [halves and all, rows]."""
    size, rows = values.shape
    sums = np.empty((2 ** (size - 1), rows), dtype=np.int32)
    sums[0] = values[0]
    for place in range(1, size):
        known = 2 ** (place - 1)
        np.add(sums[:known], values[place], out=sums[known : 2 * known])
    return sums


def _between_pairs(mb_per_s: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return what [size, size, rows] carries across each half, as [halves and all, rows].

    A member that joins a half turns its links to the others into such across, and
    its links into the half into none.
    """
    size, _, rows = mb_per_s.shape
    ports = mb_per_s.sum(axis=0, dtype=np.int32)
    across = np.empty((2 ** (size - 1), rows), dtype=np.int32)
    across[0] = ports[0]
    for place in range(1, size):
        known = 2 ** (place - 1)
        inwards = _sums(mb_per_s[place, :place])
        np.subtract(across[:known], 2 * inwards, out=across[known : 2 * known])
        across[known : 2 * known] += ports[place]
    return across
