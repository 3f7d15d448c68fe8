"""The node topology: an immutable, complete graph of the GPUs of one node.

A GPU has an index (its bit number in a mask) and a UUID (its device ID for kubelet and CUDA).
The two have different types, so that mypy finds code that confuses them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from itertools import combinations
from typing import NewType

from gputopo.errors import InvalidInputError

GpuIndex = NewType("GpuIndex", int)
GpuUuid = NewType("GpuUuid", str)
GpuMask = NewType("GpuMask", int)
"""A set of GPUs of one node: bit i is 1 if the set contains the GPU with index i."""

MAX_INDEX = 63


class LinkKind(StrEnum):
    """Type of the best link between two GPUs."""

    NVLINK = "NVLink"
    NVSWITCH = "NVSwitch"
    PCIE = "PCIe"


class Ancestor(StrEnum):
    """Nearest common ancestor of two GPUs on PCIe, as ``nvidia-smi topo -m`` names it.

    The path between the GPUs stays on one board (INTERNAL) or crosses one switch (PIX), several
    switches (PXB), one host bridge (PHB), several host bridges of one NUMA node (NODE), or the
    interconnect between sockets (SYS).
    """

    INTERNAL = "INTERNAL"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    NODE = "NODE"
    SYS = "SYS"


class TopologyError(InvalidInputError):
    """A topology is inconsistent; the message names the field and the value."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical GPU.

    Attributes:
        index: NVML index. It is unique in the node; gaps between indices are allowed.
        minor: the N of ``/dev/nvidiaN``.
        numa_node: nearest NUMA node; None if the platform does not report one.
    """

    index: GpuIndex
    uuid: GpuUuid
    minor: int
    pci_bus_id: str
    model: str
    memory_bytes: int
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """The best link between two GPUs; ``a`` is less than ``b``.

    Attributes:
        version: NVLink generation, or PCIe generation for ``LinkKind.PCIE``.
        count: parallel NVLinks, or PCIe lanes.
        bandwidth_mb_per_s: peak bandwidth in one direction (MAPA's table 1); 1 MB is 10^6 bytes.
    """

    a: GpuIndex
    b: GpuIndex
    kind: LinkKind
    version: int
    count: int
    ancestor: Ancestor
    bandwidth_mb_per_s: int


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node of the host; ``cpus`` is the number of its hardware threads."""

    id: int
    cpus: int
    memory_bytes: int


@dataclass(frozen=True)
class NodeTopology:
    """The GPUs of one node and exactly one link for each pair of them.

    Raises:
        TopologyError: on a repeated index or UUID, a missing or repeated link, a link of a
            GPU to itself, or a number out of range.
    """

    gpus: tuple[Gpu, ...]
    links: tuple[Link, ...]
    numa_nodes: tuple[NumaNode, ...] = ()

    def __post_init__(self) -> None:
        _require_unique("gpus[].index", [gpu.index for gpu in self.gpus])
        _require_unique("gpus[].uuid", [gpu.uuid for gpu in self.gpus])
        for gpu in self.gpus:
            if not 0 <= gpu.index <= MAX_INDEX:
                raise TopologyError(f"gpus[].index: {gpu.index} is not in 0..{MAX_INDEX}")
        _require_complete(self)

    @cached_property
    def mask(self) -> GpuMask:
        """All GPUs of the node."""
        return mask_of(gpu.index for gpu in self.gpus)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the GPU indices and the links, as 32 hexadecimal digits.

        UUIDs, bus IDs, minor numbers, models, memory, NUMA nodes and the order of GPUs and links do
        not change the hash. The hash is the same in every process and release.
        """
        indices = sorted(gpu.index for gpu in self.gpus)
        links = sorted(
            f"{link.a}-{link.b} {link.kind} {link.version} {link.count}"
            f" {link.ancestor} {link.bandwidth_mb_per_s}"
            for link in self.links
        )
        text = "\n".join([" ".join(map(str, indices)), *links])
        return sha256(text.encode()).hexdigest()[:32]

    @cached_property
    def link_of(self) -> Mapping[tuple[GpuIndex, GpuIndex], Link]:
        """The link of each pair of GPUs; ``(a, b)`` and ``(b, a)`` are both keys."""
        table: dict[tuple[GpuIndex, GpuIndex], Link] = {}
        for link in self.links:
            table[link.a, link.b] = table[link.b, link.a] = link
        return table

    @cached_property
    def gpu_at(self) -> Mapping[GpuIndex, Gpu]:
        """The GPUs by index. Indices can have gaps, so an index is no position in ``gpus``."""
        return {gpu.index: gpu for gpu in self.gpus}

    @cached_property
    def index_of(self) -> Mapping[GpuUuid, GpuIndex]:
        """Index of each GPU by its UUID."""
        return {gpu.uuid: gpu.index for gpu in self.gpus}

    @cached_property
    def uuid_of(self) -> Mapping[GpuIndex, GpuUuid]:
        """UUID of each GPU by its index."""
        return {gpu.index: gpu.uuid for gpu in self.gpus}


def mask_of(indices: Iterable[GpuIndex]) -> GpuMask:
    """Return a set of GPUs as a bit mask."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return GpuMask(mask)


def indices_of(mask: GpuMask) -> tuple[GpuIndex, ...]:
    """Return the GPUs of a bit mask in ascending order.

    >>> indices_of(GpuMask(0b1101))
    (0, 2, 3)
    """
    return tuple(GpuIndex(bit) for bit in range(mask.bit_length()) if mask >> bit & 1)


def _require_unique(field: str, values: Sequence[object]) -> None:
    repeated = [value for value in values if values.count(value) > 1]
    if repeated:
        raise TopologyError(f"{field}: {repeated[0]} occurs more than once")


def _require_complete(topology: NodeTopology) -> None:
    expected = set(combinations(sorted(gpu.index for gpu in topology.gpus), 2))
    seen: set[tuple[GpuIndex, GpuIndex]] = set()
    for link in topology.links:
        pair = (link.a, link.b)
        if pair not in expected:
            raise TopologyError(f"links[]: {pair} is not an ascending pair of GPUs of this node")
        if pair in seen:
            raise TopologyError(f"links[]: {pair} occurs more than once")
        if link.bandwidth_mb_per_s <= 0:
            rate = link.bandwidth_mb_per_s
            raise TopologyError(f"links[]: {pair} has bandwidth {rate} MB/s; must be above 0")
        seen.add(pair)
    if missing := expected - seen:
        raise TopologyError(f"links[]: {min(missing)} is missing")
