"""The halves of a cluster, their halves and so on, down to single GPUs (DRB, algorithm 2).

In the paper, the physical graph is cut again for each job. The cut depends on the hardware only.
So here each machine and the network are cut once, and all jobs use the halves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import networkx as nx

from gputopo.mapping.bisection import WeightedEdge, bisect
from gputopo.mapping.graph import NETWORK_VERTEX, Level, physical_graph
from gputopo.topology.model import GpuMask, NodeTopology, mask_of
from gputopo.utility.communication import DEFAULT_LENGTHS, LevelLengths


@dataclass(frozen=True, slots=True)
class MachinePart:
    """GPUs of one machine and their two halves; a single GPU has no halves."""

    gpus: GpuMask
    halves: "tuple[MachinePart, MachinePart] | None" = None


@dataclass(frozen=True, slots=True)
class ClusterPart:
    """Machines of a cluster, by name, and their two halves; a single machine has no halves."""

    machines: tuple[str, ...]
    halves: "tuple[ClusterPart, ClusterPart] | None" = None


def machine_parts(topology: NodeTopology, lengths: LevelLengths = DEFAULT_LENGTHS) -> MachinePart:
    """Return the parts of one machine with at least one GPU."""
    graph = physical_graph({"machine": topology}, lengths)
    graph.remove_node(NETWORK_VERTEX)
    return _machine_part(graph, lengths)


def cluster_parts(
    nodes: Mapping[str, NodeTopology], lengths: LevelLengths = DEFAULT_LENGTHS
) -> ClusterPart:
    """Return the parts of a cluster of at least one machine.

    A machine is not divided here: a job that fits on a machine is not spread over several, as the
    paper requires. So each machine is one vertex, connected with the network.
    """
    graph = physical_graph(nodes, lengths)
    inside = [name for name in graph if _level(graph, name) not in _OUTER]
    graph.remove_nodes_from(inside)
    return _cluster_part(graph, lengths)


_OUTER: Final = (Level.NETWORK, Level.MACHINE)


def _machine_part(graph: "nx.Graph[str]", lengths: LevelLengths) -> MachinePart:
    gpus = [data["gpu"] for _, data in graph.nodes(data=True) if data["level"] is Level.GPU]
    mask = mask_of(gpus)
    if len(gpus) == 1:
        return MachinePart(mask)
    first, second = _cut(graph, Level.GPU, lengths)
    return MachinePart(mask, (_machine_part(first, lengths), _machine_part(second, lengths)))


def _cluster_part(graph: "nx.Graph[str]", lengths: LevelLengths) -> ClusterPart:
    machines = tuple(name for name in graph if _level(graph, name) is Level.MACHINE)
    if len(machines) == 1:
        return ClusterPart(machines)
    first, second = _cut(graph, Level.MACHINE, lengths)
    return ClusterPart(machines, (_cluster_part(first, lengths), _cluster_part(second, lengths)))


def _cut(
    graph: "nx.Graph[str]", counted: Level, lengths: LevelLengths
) -> "tuple[nx.Graph[str], nx.Graph[str]]":
    """Return the two sides of a minimum cut with about equally many vertices of one level.

    A long edge is weak, so it is cut first.
    """
    names = list(graph)
    weights = [int(_level(graph, name) is counted) for name in names]
    position = {name: index for index, name in enumerate(names)}
    edges = [
        WeightedEdge(position[a], position[b], lengths.machine // data["length"])
        for a, b, data in graph.edges(data=True)
    ]
    side_of = dict(zip(names, bisect(weights, edges).sides, strict=True))
    return _side(graph, side_of, 0), _side(graph, side_of, 1)


def _level(graph: "nx.Graph[str]", name: str) -> Level:
    return Level(graph.nodes[name]["level"])


def _side(graph: "nx.Graph[str]", side_of: Mapping[str, int], side: int) -> "nx.Graph[str]":
    """Return the part of the graph on one side, with vertices in the same order.

    ``graph.subgraph`` has them in the order of a set, which differs between processes.
    """
    part: nx.Graph[str] = nx.Graph()
    part.add_nodes_from((name, graph.nodes[name]) for name in graph if side_of[name] == side)
    part.add_edges_from(
        (a, b, data) for a, b, data in graph.edges(data=True) if side_of[a] == side_of[b] == side
    )
    return part
