"""Short notation for the GPUs and links of a server model."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from gputopo.catalogue.boards import BOARDS, Board, memory_gib_of_model
from gputopo.topology.model import Ancestor, LinkKind, NumaNode
from gputopo.topology.rates import PCIE_LANES

GIB: Final = 2**30


class GpuModel(NamedTuple):
    """Model name of a GPU, and its memory; the memory is 0 if it is part of the name."""

    name: str
    memory_gib: int = 0


@dataclass(frozen=True, slots=True)
class ServerModel:
    """One server model. GPUs that are near each other on PCIe have consecutive numbers.

    Attributes:
        bus_ids: PCI bus IDs of the GPUs of an example server, separated by spaces.
        together: sizes of the groups of consecutive GPUs in the PCIe tree, smallest first. For
            example, ``{PIX: 2, NODE: 4}``: two GPUs share a PCIe switch (PIX), and four share a
            NUMA node (NODE). GPUs 0 and 1 have PIX, 0 and 3 have NODE, 0 and 4 have SYS.
        numa_nodes: NUMA nodes of the server. Each has the same number of consecutive GPUs.
        memory_gib: memory of one GPU; 0 if it is part of the model name.
        nvlinks: pairs of GPUs with direct NVLinks, by the number of NVLinks of a pair. With
            ``{2: "0-3 0-4"}``, the pairs 0-3 and 0-4 have two NVLinks each.
        to_nvswitch: NVLinks of each GPU to the NVSwitch; 0 without an NVSwitch.
        aliases: further names of the server.
        alias_gpus: the GPUs of aliases for servers with the same links but other GPUs.
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
    alias_gpus: Mapping[str, GpuModel] = field(default_factory=dict)

    def of_name(self, name: str) -> Self:
        """Return the server with the GPUs that it has under this name.

        Example: ``pcie-4gpu-1socket`` has A10G GPUs, and under the name ``g6.12xlarge`` L4 GPUs.
        """
        if name not in self.alias_gpus:
            return self
        model, memory_gib = self.alias_gpus[name]
        return replace(self, model=model, memory_gib=memory_gib)

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
        """NVLink and PCIe generation of the GPUs."""
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
