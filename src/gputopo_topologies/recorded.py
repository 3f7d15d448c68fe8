"""Parse a recording of ``nvidia-smi topo -m`` into a node topology.

The matrix does not contain GPU models, link generations or NVSwitches. This module derives these
from the output of ``nvidia-smi -L`` in the same text or, without it, from the NVLink counts
(:mod:`gputopo.catalogue.boards`). The matrix also lacks the PCIe ancestor of GPUs with NVLinks.
This ancestor is inferred from the ancestors that each of the two GPUs has with other devices.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

from gputopo.catalogue.boards import (
    Board,
    board_of_model,
    has_nvswitch,
    memory_gib_of_model,
    nvlink_version_of_counts,
    rated_link,
)
from gputopo.topology.hierarchy import LEVELS
from gputopo.topology.model import (
    Ancestor,
    Gpu,
    GpuIndex,
    GpuUuid,
    Link,
    LinkKind,
    NodeTopology,
    TopologyError,
)
from gputopo.topology.rates import PCIE_LANES, pcie_version_beside
from gputopo_topologies.topo_matrix import TopoMatrix, parse_matrix

_NAMESPACE: Final = uuid5(NAMESPACE_DNS, "recorded.gputopo.io")
_GIB: Final = 2**30
_LISTED: Final = re.compile(r"^\s*GPU ([0-9]{1,3}): (.+?) \(UUID: (\S+)\)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _ListedGpu:
    """One GPU in the output of ``nvidia-smi -L``."""

    model: str
    uuid: str


def parse_recording(text: str, name: str) -> NodeTopology:
    """Return the topology of a text that has a matrix (:func:`.topo_matrix.has_matrix`).

    The text may also contain the output of ``nvidia-smi -L``. UUIDs that are not in the text are
    derived from ``name`` and the GPU index.

    Raises:
        TopologyError: if the matrix is incomplete, inconsistent or has other GPUs than the list.
    """
    matrix = parse_matrix(text)
    recording = _Recording(name, matrix, _listed(text, matrix))
    return NodeTopology(
        gpus=tuple(recording.gpu(index) for index in matrix.gpus),
        links=tuple(recording.link(a, b) for a, b in combinations(matrix.gpus, 2)),
    )


def _listed(text: str, matrix: TopoMatrix) -> dict[int, _ListedGpu]:
    lines = [(int(index), _ListedGpu(model, uuid)) for index, model, uuid in _LISTED.findall(text)]
    indices = sorted(index for index, _ in lines)
    if lines and indices != list(matrix.gpus):
        raise TopologyError(
            f"nvidia-smi -L lists GPUs {indices}, but the matrix has {list(matrix.gpus)}"
        )
    return dict(lines)


@dataclass(frozen=True, slots=True)
class _Recording:
    name: str
    matrix: TopoMatrix
    listed: Mapping[int, _ListedGpu]

    def gpu(self, index: int) -> Gpu:
        listed = self.listed.get(index)
        model = listed.model if listed else ""
        return Gpu(
            index=GpuIndex(index),
            uuid=GpuUuid(
                listed.uuid if listed else f"GPU-{uuid5(_NAMESPACE, f'{self.name}/{index}')}"
            ),
            minor=index,
            pci_bus_id="",
            model=model,
            memory_bytes=memory_gib_of_model(model) * _GIB,
            numa_node=self.matrix.numa_affinity[self.matrix.gpus[index]],
        )

    def link(self, a: int, b: int) -> Link:
        boards = (self.board(a), self.board(b))
        if count := self.nvlinks(a, b):
            version = min(board.nvlink_version for board in boards)
            switched = has_nvswitch(min(self.nvlinks_of(a), self.nvlinks_of(b)))
            kind = LinkKind.NVSWITCH if switched else LinkKind.NVLINK
        else:
            version = min(board.pcie_version for board in boards)
            kind, count = LinkKind.PCIE, PCIE_LANES
        model = self.listed[a].model if a in self.listed else ""
        return rated_link((a, b), (kind, version, count), self.ancestor(a, b), model)

    def nvlinks(self, a: int, b: int) -> int:
        cell = self.matrix.cells[self.matrix.gpus[a], self.matrix.gpus[b]]
        return 0 if isinstance(cell, Ancestor) else cell

    def nvlinks_of(self, gpu: int) -> int:
        return sum(self.nvlinks(gpu, peer) for peer in self.matrix.gpus if peer != gpu)

    def board(self, gpu: int) -> Board:
        """Return the link generations of a GPU from its model, or else its NVLink counts."""
        peers = [self.nvlinks(gpu, peer) for peer in self.matrix.gpus if peer != gpu]
        by_counts = nvlink_version_of_counts(max(peers, default=0), sum(peers))
        listed = self.listed.get(gpu)
        known = board_of_model(listed.model) if listed else None
        if known is None:
            return Board(by_counts, pcie_version_beside(by_counts))
        return Board(known.nvlink_version or by_counts, known.pcie_version)

    def ancestor(self, a: int, b: int) -> Ancestor:
        """Return the nearest PCIe ancestor of two GPUs. If their cell shows NVLinks, infer it.

        For GPUs on different NUMA nodes the result is SYS. Otherwise it depends on the third
        devices, such as NICs. For example, a NIC has PIX with ``a`` and SYS with ``b``. So it is
        near ``a`` and far from ``b``, and the result is the farther of the two: SYS. If every
        third device has equal ancestors with ``a`` and ``b``, the result is the nearest of these
        ancestors, but not farther than NODE if both GPUs are on one socket.
        """
        one, other = self.matrix.gpus[a], self.matrix.gpus[b]
        cell = self.matrix.cells[one, other]
        if isinstance(cell, Ancestor):
            return cell
        numa = (self.matrix.numa_affinity[one], self.matrix.numa_affinity[other])
        if None not in numa and numa[0] != numa[1]:
            return Ancestor.SYS
        unequal, equal = self._levels_of_third_devices(one, other)
        if unequal:
            return LEVELS[min(unequal)]
        cpus = (self.matrix.cpu_affinity[one], self.matrix.cpu_affinity[other])
        same_socket = None not in numa or (cpus[0] == cpus[1] != "")
        farthest = Ancestor.NODE if same_socket else Ancestor.SYS
        return LEVELS[min([*equal, LEVELS.index(farthest)])]

    def _levels_of_third_devices(self, one: str, other: str) -> tuple[list[int], list[int]]:
        """Return two lists: the levels of devices that differ for the GPUs, and the equal levels.

        A device that has two different levels counts with the farther one.
        """
        unequal: list[int] = []
        equal: list[int] = []
        for third in self.matrix.devices:
            cells = (self.matrix.cells.get((one, third)), self.matrix.cells.get((other, third)))
            levels = [LEVELS.index(cell) for cell in cells if isinstance(cell, Ancestor)]
            if len(levels) == len(cells):
                (equal if levels[0] == levels[1] else unequal).append(max(levels))
        return unequal, equal
