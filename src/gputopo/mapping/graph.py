"""The physical graph of a cluster: network, machines, sockets, switches and GPUs (section 4.1.2).

The graph differs from :func:`gputopo.topology.graph.to_networkx` in its levels and its lengths: it
has every level of the paper for every machine, so that path lengths of machines can be compared.
"""

from collections.abc import Mapping
from enum import StrEnum

import networkx as nx

from gputopo.topology.model import GpuMask, LinkKind, NodeTopology, indices_of
from gputopo.utility.communication import DEFAULT_LENGTHS, LevelLengths, sockets, switches


class Level(StrEnum):
    """Level of a vertex in the physical graph."""

    NETWORK = "network"
    MACHINE = "machine"
    SOCKET = "socket"
    SWITCH = "switch"
    NVSWITCH = "nvswitch"
    GPU = "gpu"


NETWORK_VERTEX = Level.NETWORK.value


def physical_graph(
    nodes: Mapping[str, NodeTopology], lengths: LevelLengths = DEFAULT_LENGTHS
) -> "nx.Graph[str]":
    """Return the physical graph of a cluster.

    Vertices have the attribute ``level`` (:class:`Level`); those of a machine also ``machine``, its
    name, and GPUs ``gpu``, their index. Vertices of a machine are in the order of their GPUs. Edges
    have the attribute ``length``.

    >>> from gputopo.catalogue import named
    >>> graph = physical_graph({"a": named("power8-minsky")})
    >>> graph.edges["a/gpu0", "a/gpu1"]["length"], graph.edges["a/socket0", "a"]["length"]
    (1, 20)
    """
    graph: nx.Graph[str] = nx.Graph()
    graph.add_node(NETWORK_VERTEX, level=Level.NETWORK)
    for name, topology in nodes.items():
        graph.add_node(name, level=Level.MACHINE, machine=name)
        graph.add_edge(name, NETWORK_VERTEX, length=lengths.machine)
        _add_machine(graph, name, topology, lengths)
    return graph


def _add_machine(
    graph: "nx.Graph[str]", name: str, topology: NodeTopology, lengths: LevelLengths
) -> None:
    groups = switches(topology)
    for number, socket in enumerate(sockets(topology)):
        vertex = f"{name}/socket{number}"
        graph.add_node(vertex, level=Level.SOCKET, machine=name)
        graph.add_edge(vertex, name, length=lengths.socket)
        for gpu in indices_of(socket):
            graph.add_node(f"{name}/gpu{gpu}", level=Level.GPU, machine=name, gpu=int(gpu))
            parent = _parent(graph, name, vertex, groups, 1 << gpu, lengths)
            graph.add_edge(f"{name}/gpu{gpu}", parent, length=lengths.gpu)
    for link in topology.links:
        ends = f"{name}/gpu{link.a}", f"{name}/gpu{link.b}"
        if link.kind is LinkKind.NVLINK:
            graph.add_edge(*ends, length=lengths.gpu)
        elif link.kind is LinkKind.NVSWITCH:
            vertex = f"{name}/nvswitch"
            graph.add_node(vertex, level=Level.NVSWITCH, machine=name)
            graph.add_edges_from(((end, vertex) for end in ends), length=lengths.gpu)


def _parent(
    graph: "nx.Graph[str]",
    name: str,
    socket: str,
    groups: tuple[GpuMask, ...],
    gpu: int,
    lengths: LevelLengths,
) -> str:
    """Return the vertex above a GPU: its switch, which is added if it is new, or its socket."""
    for number, group in enumerate(groups):
        if group & gpu:
            vertex = f"{name}/switch{number}"
            graph.add_node(vertex, level=Level.SWITCH, machine=name)
            graph.add_edge(vertex, socket, length=lengths.switch)
            return vertex
    return socket
