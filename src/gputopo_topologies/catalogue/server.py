"""Short notation for the GPUs and links of a server model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gputopo.topology.model import Ancestor, LinkKind, NumaNode
from gputopo.topology.rates import PCIE_LANES
from gputopo_topologies.boards import BOARDS, Board, memory_gib_of_model

GIB: Final = 2**30


@dataclass(frozen=True, slots=True)
class ServerModel:
    """One server model; its GPUs are numbered along the PCIe tree.

    Attributes:
        bus_ids: PCI bus ids of the GPUs, separated by blanks; those of one example server.
        together: number of consecutive GPUs below one ancestor, by level, nearest level first.
            ``{PIX: 2, NODE: 4}``: GPUs 0 and 1 meet at PIX, 0 and 3 at NODE, 0 and 4 at SYS.
        numa_nodes: contain the GPUs in equal shares, in order.
        memory_gib: of one GPU, if the name of its model does not contain it.
        nvlinks: pairs of GPUs by the number of their direct NVLinks, ``{2: "0-3 0-4"}``.
        to_nvswitch: NVLinks of each GPU into the NVSwitch; 0 without one.
    """

    description: str
    model: str
    bus_ids: str
    together: Mapping[Ancestor, int]
    numa_nodes: tuple[NumaNode, ...]
    memory_gib: int = 0
    nvlinks: Mapping[int, str] = field(default_factory=dict)
    to_nvswitch: int = 0
    aliases: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return len(self.bus_ids.split())

    @property
    def memory_bytes(self) -> int:
        """Memory of one GPU."""
        return (self.memory_gib or memory_gib_of_model(self.model)) * GIB

    @property
    def board(self) -> Board:
        """NVLink and PCIe generation of the GPUs; all models of the catalogue are known."""
        return next(board for pattern, board in BOARDS if pattern.search(self.model))

    def numa_node(self, gpu: int) -> int:
        """Return the NUMA node of a GPU."""
        return self.numa_nodes[gpu * len(self.numa_nodes) // self.gpus].id

    def ancestor(self, a: int, b: int) -> Ancestor:
        """Return the nearest common ancestor of two GPUs on PCIe."""
        for level, gpus in self.together.items():
            if a // gpus == b // gpus:
                return level
        return Ancestor.SYS

    def best_link(self, a: int, b: int) -> tuple[LinkKind, int, int]:
        """Return type, version and count of the best link of two GPUs, ``a < b``."""
        if self.to_nvswitch:
            return LinkKind.NVSWITCH, self.board.nvlink_version, self.to_nvswitch
        for count, pairs in self.nvlinks.items():
            if f"{a}-{b}" in pairs.split():
                return LinkKind.NVLINK, self.board.nvlink_version, count
        return LinkKind.PCIE, self.board.pcie_version, PCIE_LANES


def two_numa_nodes(cpus: int, memory_gib: int) -> tuple[NumaNode, ...]:
    """Return NUMA nodes 0 and 1, each with ``cpus`` hardware threads and ``memory_gib``."""
    return tuple(NumaNode(number, cpus, memory_gib * GIB) for number in (0, 1))
