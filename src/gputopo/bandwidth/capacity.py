"""Capacity of the links of a node across the cuts of a GPU set.

A cut divides the GPU set into two sides. Its capacity is how much bandwidth the links between the
two sides have in one direction. It is the sum of three parts:

- Direct NVLinks: the bandwidth of all NVLinks from a GPU of one side to a GPU of the other.
- NVSwitch: every GPU has a port to it. A side can send at most the total bandwidth of its ports.
- PCIe: one tree connects all GPUs. It has the lanes of each GPU, the uplinks of switches and the
  interconnect of the sockets. Removing some of these links separates the two sides. PCIe adds the
  least bandwidth that has to be removed (the minimum cut).

Example: GPUs 0 and 1 are at a PCIe 3 switch of one socket, GPUs 2 and 3 at a switch of the other.
Two NVLinks of generation 2 connect GPUs 0 and 1 with 50 GB/s. Each GPU has 12 GB/s to its switch.
The interconnect of the sockets is estimated as two thirds of 12 GB/s: 8 GB/s. Capacities in GB/s::

    {0} | {1, 2, 3}     50 NVLink + 12 lanes of GPU 0              = 62
    {0, 1} | {2, 3}     8 between the sockets                      =  8
    {0, 2} | {1, 3}     50 NVLink + 12 at one switch + 12 at the other = 74
    {0, 1, 2} | {3}     12 lanes of GPU 3                          = 12
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.bandwidth.cuts import Branch, between_pairs, minimum_cuts
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
"""Uplink of each level of the PCIe tree, as a fraction of one GPU's PCIe bandwidth.

The fractions come from the rates in NCCL's ``src/graph/topo.h``. A PCIe switch has one uplink.
Traffic between two GPUs through an Intel processor needs 6/5 of the lanes. Between sockets, Intel's
Broadwell, Skylake, Sapphire Rapids and Emerald Rapids have 6, 10, 22 and 40 GB/s. Their PCIe x16
has 12, 12, 48 and 48 GB/s. On average, the first is two thirds of the second.
"""

MAX_MB_PER_S: Final = 8_000_000
"""Higher bandwidths of a link are reduced to this, so that sums over 16 GPUs fit 32 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkCapacities:
    """The links of a node, in the form that :meth:`across` needs.

    Attributes:
        direct_mb_per_s: [64, 64] bandwidth of the NVLinks between two GPUs, by GPU index.
        shared: the PCIe tree and, if the node has an NVSwitch, the tree of the NVSwitch.
    """

    direct_mb_per_s: NDArray[np.int32]
    shared: tuple[Branch, ...]

    @classmethod
    def from_topology(cls, topology: NodeTopology) -> "LinkCapacities":
        """Return the link capacities of a node."""
        direct = np.zeros((MAX_INDEX + 1, MAX_INDEX + 1), dtype=np.int32)
        for link in topology.links:
            if link.kind is LinkKind.NVLINK:
                direct[link.a, link.b] = direct[link.b, link.a] = _rate(link)
        has_switch = any(link.kind is LinkKind.NVSWITCH for link in topology.links)
        switches = (nvswitch(topology),) if has_switch else ()
        return cls(direct, (pcie_tree(topology), *switches))

    def across(self, members: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return [cuts, sets]: the capacity of each cut of each GPU set, in MB/s for one direction.

        Bit i of the number of a cut is 1 if ``members[i + 1]`` is on the side of ``members[0]``.
        For members 0, 1, 2, this side is {0} in cut 0, {0, 1} in cut 1 and {0, 2} in cut 2.

        Args:
            members: [size, sets] GPU indices of each set; size is at least 2.
        """
        total = between_pairs(self.direct_mb_per_s[members[:, None], members[None]])
        for tree in self.shared:
            total += np.minimum(*minimum_cuts(tree, members))
        return total[:-1]


def pcie_tree(topology: NodeTopology) -> Branch:
    """Return the PCIe tree of a node. GPUs are its leaves; their PCIe lanes are their uplinks."""
    lanes = _lanes_mb_per_s(topology)
    branches = [Branch(GpuMask(1 << gpu), rate) for gpu, rate in lanes.items()]
    for level, share in _UPLINKS:
        connected = []
        for block in blocks(topology, level):
            uplink = int(share * max(rate for gpu, rate in lanes.items() if block >> gpu & 1))
            below = [branch for branch in branches if branch.gpus & block]
            connected.append(_connect(below, max(1, uplink)))
        branches = connected
    return _connect(branches, 0)


def nvswitch(topology: NodeTopology) -> Branch:
    """Return the tree of the node's NVSwitch. The uplink of an unconnected GPU has 0 MB/s."""
    ports = {gpu.index: 0 for gpu in topology.gpus}
    for link in topology.links:
        if link.kind is LinkKind.NVSWITCH:
            for gpu in (link.a, link.b):
                ports[gpu] = max(ports[gpu], _rate(link))
    return _connect([Branch(GpuMask(1 << gpu), rate) for gpu, rate in ports.items()], 0)


def _lanes_mb_per_s(topology: NodeTopology) -> dict[GpuIndex, int]:
    """Return the PCIe bandwidth of each GPU.

    A topology has only the best link of each pair of GPUs. If this link is an NVLink, the PCIe
    generation is estimated from the NVLink generation.
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
    return min(link.bandwidth_mb_per_s, MAX_MB_PER_S)


def _connect(branches: list[Branch], uplink: int) -> Branch:
    """Join branches to one branch with this uplink in MB/s. The root of a tree has uplink 0.

    If there is only one branch and ``uplink`` is not 0, the function returns this branch, with the
    lower of its own uplink and ``uplink``.
    """
    if len(branches) == 1 and uplink:
        only = branches[0]
        return Branch(only.gpus, min(only.uplink_mb_per_s, uplink), only.branches)
    gpus = 0
    for branch in branches:
        gpus |= branch.gpus
    return Branch(GpuMask(gpus), uplink, tuple(branches))
