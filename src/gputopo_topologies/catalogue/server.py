"""What one kind of server is, as briefly as it can be written down."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gputopo.topology.model import Ancestor, LinkKind, NumaNode
from gputopo.topology.rates import PCIE_LANES

GIB: Final = 2**30


@dataclass(frozen=True, slots=True)
class Server:
    """One kind of server whose GPUs are numbered along its PCIe tree.

    Attributes:
        bus_ids: GPU i's is the i-th word; only an example of how such servers number them.
        together: how many GPUs in a row meet at each level of the PCIe tree, nearest level
            first; those that meet at none of them meet at SYS.
        numa_nodes: hold the GPUs in equal shares, in order.
        nvlinks: which pairs have so many direct NVLinks, ``{2: "0-3 0-4"}``.
        to_nvswitch: NVLinks of each GPU into the NVSwitch; 0 without one.
    """

    description: str
    model: str
    memory_gib: int
    bus_ids: str
    together: Mapping[Ancestor, int]
    numa_nodes: tuple[NumaNode, ...]
    pcie_version: int
    nvlink_version: int = 0
    nvlinks: Mapping[int, str] = field(default_factory=dict)
    to_nvswitch: int = 0
    aliases: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """How many GPUs it has."""
        return len(self.bus_ids.split())

    def numa_node(self, gpu: int) -> int:
        """Return the NUMA node of a GPU."""
        return self.numa_nodes[gpu * len(self.numa_nodes) // self.gpus].id

    def ancestor(self, a: int, b: int) -> Ancestor:
        """Return where two GPUs meet on PCIe."""
        for level, gpus in self.together.items():
            if a // gpus == b // gpus:
                return level
        return Ancestor.SYS

    def best_link(self, a: int, b: int) -> tuple[LinkKind, int, int]:
        """Return kind, version and count of the best link of two GPUs, ``a < b``."""
        if self.to_nvswitch:
            return LinkKind.NVSWITCH, self.nvlink_version, self.to_nvswitch
        for count, pairs in self.nvlinks.items():
            if f"{a}-{b}" in pairs.split():
                return LinkKind.NVLINK, self.nvlink_version, count
        return LinkKind.PCIE, self.pcie_version, PCIE_LANES


def two_numa_nodes(cpus: int, memory_gib: int) -> tuple[NumaNode, ...]:
    """Return NUMA nodes 0 and 1, with so many hardware threads and memory each."""
    return tuple(NumaNode(number, cpus, memory_gib * GIB) for number in (0, 1))
