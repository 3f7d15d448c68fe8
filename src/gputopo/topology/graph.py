"""A node topology as a networkx graph, to analyse, convert or draw it.

gputopo itself computes with tables over bit masks. This module needs the extra ``graph``
(``pip install 'gputopo[graph]'``), which no component installs.

>>> from gputopo import catalogue
>>> graph = to_networkx(catalogue.named("dgx1-v100"))
>>> graph.edges["GPU0", "GPU3"]["gb_per_s"]
50.0
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import networkx as nx

from gputopo.topology.hierarchy import LEVELS, blocks
from gputopo.topology.model import (
    Ancestor,
    Gpu,
    GpuIndex,
    GpuMask,
    Link,
    LinkKind,
    NodeTopology,
    NumaNode,
    mask_of,
)

Attributes = dict[str, str | int | float]


class VertexKind(StrEnum):
    """What a vertex of the graph is. Its name is this word and a number, such as ``NVSwitch0``."""

    GPU = "GPU"
    PCIE_SWITCH = "PCIeSwitch"
    HOST_BRIDGE = "HostBridge"
    NUMA_NODE = "NUMANode"
    INTERCONNECT = "Interconnect"
    NVSWITCH = "NVSwitch"


_KINDS: Final[Mapping[Ancestor, VertexKind]] = MappingProxyType(
    {
        Ancestor.INTERNAL: VertexKind.PCIE_SWITCH,
        Ancestor.PIX: VertexKind.PCIE_SWITCH,
        Ancestor.PXB: VertexKind.PCIE_SWITCH,
        Ancestor.PHB: VertexKind.HOST_BRIDGE,
        Ancestor.NODE: VertexKind.NUMA_NODE,
    }
)
_ON_PCIE: Final = (VertexKind.GPU, VertexKind.PCIE_SWITCH)


def to_networkx(topology: NodeTopology, name: str = "") -> "nx.Graph[str]":
    """Return the hardware of a node as an undirected graph.

    PCIe is a tree: the lowest common ancestor of two GPUs in it has the ``level`` of their link.
    All NVSwitches of the same GPUs are one vertex, because a topology does not count them.

    Attributes of vertices (an attribute whose value is unknown is missing):

    * ``kind``: ``GPU``, ``PCIeSwitch``, ``HostBridge``, ``NUMANode``, ``Interconnect`` (between
      NUMA nodes) or ``NVSwitch``.
    * ``level``: of all but GPUs and NVSwitches, the :class:`Ancestor` of GPUs that meet here.
    * ``index``, ``minor``, ``uuid``, ``pci_bus_id``, ``model``, ``memory_bytes``, ``numa_node``: of
      GPUs, see :class:`.Gpu`.
    * ``numa_node``, ``cpus``, ``memory_bytes``: of NUMA nodes, see :class:`.NumaNode`.

    Attributes of edges:

    * ``kind``: ``NVLink``, ``PCIe`` or ``Interconnect`` (inside and between CPUs).
    * ``generation``, ``width``: of NVLink or PCIe; the width is the number of NVLinks in parallel,
      or of PCIe lanes.
    * ``gb_per_s``: peak bandwidth in each direction; 1 GB is 10^9 bytes. A topology has no figures
      for edges above the first PCIe switch or host bridge.

    The graph has the attributes ``name`` and ``fingerprint``.
    """
    graph = _new_graph(topology, name)
    for child, parent in _add_pcie_tree(graph, topology):
        kind = "PCIe" if graph.nodes[child]["kind"] in _ON_PCIE else "Interconnect"
        graph.add_edge(child, parent, kind=kind)
    for gpu in topology.gpus:
        (parent,) = graph.neighbors(_gpu(gpu.index))
        graph.edges[_gpu(gpu.index), parent].update(_pcie_port(topology, gpu.index))
    for link in topology.links:
        if link.kind is LinkKind.NVLINK:
            graph.add_edge(_gpu(link.a), _gpu(link.b), kind="NVLink", **_rate(link))
    _add_nvswitches(graph, topology)
    return graph


def pairs_to_networkx(topology: NodeTopology, name: str = "") -> "nx.Graph[str]":
    """Return the best link of each pair of GPUs as a complete graph, without other hardware.

    This is the graph in which MAPA matches patterns. The vertices are those of the GPUs in
    :func:`to_networkx`. Attributes of edges:

    * ``kind``: ``NVLink``, ``NVSwitch`` (NVLinks through NVSwitch) or ``PCIe``.
    * ``generation``, ``width``, ``gb_per_s``: as in :func:`to_networkx`.
    * ``ancestor``: nearest common ancestor on PCIe (:class:`.Ancestor`).
    """
    graph = _new_graph(topology, name)
    for link in topology.links:
        kind, ancestor = link.kind.value, link.ancestor.value
        graph.add_edge(_gpu(link.a), _gpu(link.b), kind=kind, ancestor=ancestor, **_rate(link))
    return graph


def _new_graph(topology: NodeTopology, name: str) -> "nx.Graph[str]":
    graph: nx.Graph[str] = nx.Graph(name=name, fingerprint=topology.fingerprint)
    for gpu in topology.gpus:
        graph.add_node(_gpu(gpu.index), **_describe(gpu))
    return graph


def _gpu(index: GpuIndex) -> str:
    return f"{VertexKind.GPU}{index}"


def _describe(gpu: Gpu) -> Attributes:
    known: Attributes = {"kind": VertexKind.GPU.value, "index": int(gpu.index), "minor": gpu.minor}
    texts = {"uuid": str(gpu.uuid), "pci_bus_id": gpu.pci_bus_id, "model": gpu.model}
    known |= {field: text for field, text in texts.items() if text}
    if gpu.memory_bytes:
        known["memory_bytes"] = gpu.memory_bytes
    if gpu.numa_node is not None:
        known["numa_node"] = gpu.numa_node
    return known


def _rate(link: Link) -> Attributes:
    return {
        "generation": link.version,
        "width": link.count,
        "gb_per_s": link.bandwidth_mb_per_s / 1000,
    }


def _pcie_port(topology: NodeTopology, gpu: GpuIndex) -> Attributes:
    """Return the rate of a GPU's PCIe port; nothing if all links of the GPU are NVLinks."""
    links = [
        link for link in topology.links if link.kind is LinkKind.PCIE and gpu in (link.a, link.b)
    ]
    # A link to a GPU with fewer lanes has the rate of that GPU.
    best = max(links, key=lambda link: link.bandwidth_mb_per_s, default=None)
    return _rate(best) if best else {}


def _add_pcie_tree(graph: "nx.Graph[str]", topology: NodeTopology) -> Iterator[tuple[str, str]]:
    """Add the vertices above the GPUs, and yield each pair of child and parent.

    For example, GPUs 0 and 1 have PIX, and GPU 2 has NODE with both. The pairs are (GPU0,
    PCIeSwitch0), (GPU1, PCIeSwitch0), (PCIeSwitch0, NUMANode0) and (GPU2, NUMANode0). A level
    that joins no GPUs, such as PHB here, has no vertex; only NUMA nodes may have a single GPU.
    """
    roots = {mask_of([gpu.index]): _gpu(gpu.index) for gpu in topology.gpus}
    numbers = dict.fromkeys(VertexKind, 0)
    for level in LEVELS[: LEVELS.index(Ancestor.NODE)]:
        kind = _KINDS[level]
        for group in blocks(topology, level):
            if group not in roots:
                parent = f"{kind}{numbers[kind]}"
                numbers[kind] += 1
                graph.add_node(parent, kind=kind.value, level=level.value)
                yield from _join(roots, group, parent)
    for numa in _numa_nodes(topology):
        graph.add_node(numa.name, **numa.attributes)
        yield from _join(roots, numa.gpus, numa.name)
    if len(roots) > 1:
        parent = VertexKind.INTERCONNECT.value
        graph.add_node(parent, kind=parent, level=Ancestor.SYS.value)
        yield from ((child, parent) for child in roots.values())


def _join(roots: dict[GpuMask, str], group: GpuMask, parent: str) -> Iterator[tuple[str, str]]:
    """Replace the roots inside a group by their parent, and yield each of them with it."""
    for inside in [root for root in roots if root & group]:
        yield roots.pop(inside), parent
    roots[group] = parent


@dataclass(frozen=True, slots=True)
class _NumaVertex:
    name: str
    gpus: GpuMask
    attributes: Attributes


def _numa_nodes(topology: NodeTopology) -> Iterator[_NumaVertex]:
    """Yield the NUMA nodes with GPUs, by number.

    If the numbers of the platform are unknown or contradict the links, NUMA nodes are counted from
    0 in the order of their lowest GPUs, and nothing else is known of them.
    """
    groups = blocks(topology, Ancestor.NODE)
    reported = [
        {gpu.numa_node for gpu in topology.gpus if group >> gpu.index & 1} for group in groups
    ]
    ids = [next(iter(found)) for found in reported if len(found) == 1]
    known = [number for number in ids if number is not None]
    consistent = len(set(known)) == len(groups)
    hosts = {host.id: host for host in topology.numa_nodes}
    numbers = known if consistent else range(len(groups))
    for number, group in sorted(zip(numbers, groups, strict=True)):
        details = _host(number, hosts.get(number)) if consistent else {}
        kind = VertexKind.NUMA_NODE
        attributes: Attributes = {"kind": kind.value, "level": Ancestor.NODE.value, **details}
        yield _NumaVertex(f"{kind}{number}", group, attributes)


def _host(number: int, host: NumaNode | None) -> Attributes:
    details: Attributes = {"numa_node": number}
    if host:
        details |= {"cpus": host.cpus, "memory_bytes": host.memory_bytes}
    return details


def _add_nvswitches(graph: "nx.Graph[str]", topology: NodeTopology) -> None:
    links = [link for link in topology.links if link.kind is LinkKind.NVSWITCH]
    connected = nx.Graph([(link.a, link.b) for link in links])
    for number, gpus in enumerate(sorted(nx.connected_components(connected), key=min)):
        switch = f"{VertexKind.NVSWITCH}{number}"
        graph.add_node(switch, kind=VertexKind.NVSWITCH.value)
        for gpu in sorted(gpus):
            own = [link for link in links if gpu in (link.a, link.b)]
            best = max(own, key=lambda link: link.bandwidth_mb_per_s)
            graph.add_edge(_gpu(gpu), switch, kind="NVLink", **_rate(best))
