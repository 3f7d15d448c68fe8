"""Well-known servers as node topologies, for tests, fake nodes and trying policies.

Link counts of dgx1-v100, dgx1-p100 and summit are those of MAPA's released program
(GPU numbers from 0 here); the PCIe trees beneath follow the usual build of each server.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

from gputopo.api.enums import Ancestor, LinkKind
from gputopo.topology.model import (
    Gpu,
    GpuIndex,
    GpuUuid,
    Link,
    NodeTopology,
    NumaNode,
    TopologyError,
)
from gputopo.topology.rates import PCIE_LANES, link_rate_mb_per_s

_GIB: Final = 2**30
_NAMESPACE: Final = uuid5(NAMESPACE_DNS, "catalogue.gputopo.io")


@dataclass(frozen=True, slots=True)
class _Server:
    """One kind of server; GPU i is the i-th word of ``bus_ids`` and the i-th of each tuple.

    Attributes:
        switches: PCIe switch of each GPU; two GPUs of one meet at ``at_switch``.
        numa: NUMA node of each GPU; two GPUs of one meet at ``at_numa``, others at SYS.
        nvlinks: row i, digit j: NVLinks between GPU i and GPU j. Empty without direct NVLinks.
        to_nvswitch: NVLinks of each GPU into the NVSwitch; 0 without one.
    """

    model: str
    memory_gib: int
    bus_ids: str
    switches: tuple[int, ...]
    numa: tuple[int, ...]
    numa_nodes: tuple[NumaNode, ...]
    pcie_version: int
    at_switch: Ancestor
    at_numa: Ancestor
    nvlink_version: int = 0
    nvlinks: tuple[str, ...] = ()
    to_nvswitch: int = 0

    def ancestor(self, a: int, b: int) -> Ancestor:
        if self.switches[a] == self.switches[b]:
            return self.at_switch
        return self.at_numa if self.numa[a] == self.numa[b] else Ancestor.SYS

    def best_link(self, a: int, b: int) -> tuple[LinkKind, int, int]:
        """Return kind, version and count of the best link of two GPUs."""
        if self.to_nvswitch:
            return LinkKind.NVSWITCH, self.nvlink_version, self.to_nvswitch
        if self.nvlinks and (count := int(self.nvlinks[a][b])):
            return LinkKind.NVLINK, self.nvlink_version, count
        return LinkKind.PCIE, self.pcie_version, PCIE_LANES


_DGX1_BUS_IDS: Final = "06:00.0 07:00.0 0A:00.0 0B:00.0 85:00.0 86:00.0 89:00.0 8A:00.0"

_SERVERS: Final[Mapping[str, _Server]] = MappingProxyType(
    {
        "dgx1-v100": _Server(
            model="Tesla V100-SXM2-32GB",
            memory_gib=32,
            bus_ids=_DGX1_BUS_IDS,
            switches=(0, 0, 1, 1, 2, 2, 3, 3),
            numa=(0, 0, 0, 0, 1, 1, 1, 1),
            numa_nodes=(NumaNode(0, 40, 256 * _GIB), NumaNode(1, 40, 256 * _GIB)),
            pcie_version=3,
            at_switch=Ancestor.PIX,
            at_numa=Ancestor.PHB,
            nvlink_version=2,
            nvlinks=(
                "01122000",
                "10210200",
                "12020010",
                "21200001",
                "20000112",
                "02001021",
                "00101202",
                "00012120",
            ),
        ),
        "dgx1-p100": _Server(
            model="Tesla P100-SXM2-16GB",
            memory_gib=16,
            bus_ids=_DGX1_BUS_IDS,
            switches=(0, 0, 1, 1, 2, 2, 3, 3),
            numa=(0, 0, 0, 0, 1, 1, 1, 1),
            numa_nodes=(NumaNode(0, 40, 256 * _GIB), NumaNode(1, 40, 256 * _GIB)),
            pcie_version=3,
            at_switch=Ancestor.PIX,
            at_numa=Ancestor.PHB,
            nvlink_version=1,
            nvlinks=(
                "01111000",
                "10110100",
                "11010010",
                "11100001",
                "10000111",
                "01001011",
                "00101101",
                "00011110",
            ),
        ),
        "summit": _Server(
            model="Tesla V100-SXM2-16GB",
            memory_gib=16,
            bus_ids=(
                "0004:04:00.0 0004:05:00.0 0004:06:00.0 0035:03:00.0 0035:04:00.0 0035:05:00.0"
            ),
            switches=(0, 1, 2, 3, 4, 5),
            numa=(0, 0, 0, 8, 8, 8),
            numa_nodes=(NumaNode(0, 88, 256 * _GIB), NumaNode(8, 88, 256 * _GIB)),
            pcie_version=3,
            at_switch=Ancestor.PIX,
            at_numa=Ancestor.PHB,
            nvlink_version=2,
            nvlinks=("022000", "202000", "220000", "000022", "000202", "000220"),
        ),
        "dgx-a100": _Server(
            model="NVIDIA A100-SXM4-40GB",
            memory_gib=40,
            bus_ids="07:00.0 0F:00.0 47:00.0 4E:00.0 87:00.0 90:00.0 B7:00.0 BD:00.0",
            switches=(0, 0, 1, 1, 2, 2, 3, 3),
            numa=(0, 0, 0, 0, 1, 1, 1, 1),
            numa_nodes=(NumaNode(0, 128, 512 * _GIB), NumaNode(1, 128, 512 * _GIB)),
            pcie_version=4,
            at_switch=Ancestor.PXB,
            at_numa=Ancestor.NODE,
            nvlink_version=3,
            to_nvswitch=12,
        ),
        "pcie-8gpu": _Server(
            model="Tesla T4",
            memory_gib=16,
            bus_ids="1A:00.0 1B:00.0 3D:00.0 3E:00.0 88:00.0 89:00.0 B1:00.0 B2:00.0",
            switches=(0, 0, 1, 1, 2, 2, 3, 3),
            numa=(0, 0, 0, 0, 1, 1, 1, 1),
            numa_nodes=(NumaNode(0, 32, 192 * _GIB), NumaNode(1, 32, 192 * _GIB)),
            pcie_version=3,
            at_switch=Ancestor.PIX,
            at_numa=Ancestor.NODE,
        ),
    }
)


def names() -> tuple[str, ...]:
    """Return the names of the servers known here."""
    return tuple(_SERVERS)


def named(name: str, *, node: str = "") -> NodeTopology:
    """Return the topology of a server of the catalogue.

    UUIDs depend on ``name``, ``node`` and index alone: the same in every run, and
    different on two nodes of one kind.

    Raises:
        TopologyError: on a name that is not in :func:`names`.
    """
    server = _SERVERS.get(name)
    if server is None:
        raise TopologyError(f"topology: {name!r} is not one of {', '.join(_SERVERS)}")
    return NodeTopology(
        gpus=tuple(_gpus(name, node, server)),
        links=tuple(_links(server)),
        numa_nodes=server.numa_nodes,
    )


def _gpus(name: str, node: str, server: _Server) -> Iterator[Gpu]:
    for index, bus_id in enumerate(server.bus_ids.split()):
        domain = "" if bus_id.count(":") > 1 else "0000:"
        yield Gpu(
            index=GpuIndex(index),
            uuid=GpuUuid(f"GPU-{uuid5(_NAMESPACE, f'{name}/{node}/{index}')}"),
            minor=index,
            pci_bus_id=f"0000{domain}{bus_id}",
            model=server.model,
            memory_bytes=server.memory_gib * _GIB,
            numa_node=server.numa[index],
        )


def _links(server: _Server) -> Iterator[Link]:
    for a, b in combinations(range(len(server.switches)), 2):
        kind, version, count = server.best_link(a, b)
        yield Link(
            a=GpuIndex(a),
            b=GpuIndex(b),
            kind=kind,
            version=version,
            count=count,
            ancestor=server.ancestor(a, b),
            bandwidth_mb_per_s=link_rate_mb_per_s(kind, version, count),
        )
