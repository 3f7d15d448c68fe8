"""Jobs and nodes for tests of the mapping, and an exhaustive search written independently."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, permutations
from math import prod

import networkx as nx

from gputopo.mapping.graph import physical_graph
from gputopo.mapping.model import MappingJob, MappingNode, UtilitySettings
from gputopo.patterns.model import Pattern, PatternEdge, all_to_all, custom
from gputopo.topology.model import GpuMask, NodeTopology, indices_of
from gputopo.utility.interference import RunningNeighbour, SlowdownTable, WorkloadKind

NOISY, QUIET = WorkloadKind("noisy"), WorkloadKind("quiet")
SLOWDOWNS = SlowdownTable(
    {(NOISY, NOISY): 1.3, (QUIET, NOISY): 1.2, (NOISY, QUIET): 1.02, (QUIET, QUIET): 1.0}
)
SETTINGS = UtilitySettings(slowdowns=SLOWDOWNS)


def mapping_node(
    topology: NodeTopology,
    free: GpuMask | None = None,
    neighbours: Mapping[int, WorkloadKind] | None = None,
    **fields: object,
) -> MappingNode:
    """Return a node; each neighbour has one GPU."""
    running = tuple(
        RunningNeighbour(workload, GpuMask(1 << gpu))
        for gpu, workload in (neighbours or {}).items()
    )
    return MappingNode(
        topology,
        topology.mask if free is None else free,
        running,
        **fields,  # type: ignore[arg-type]
    )


def job_graphs(most: int) -> Iterator[Pattern]:
    """Yield all job graphs with up to ``most`` tasks, without equal ones: 1, 1, 3 and 10."""
    yield all_to_all(1)
    for size in range(2, most + 1):
        pairs = list(combinations(range(size), 2))
        seen: list[nx.Graph[int]] = []
        for chosen in range(1, 2 ** len(pairs)):
            edges = [pair for number, pair in enumerate(pairs) if chosen >> number & 1]
            graph: nx.Graph[int] = nx.Graph()
            graph.add_nodes_from(range(size))
            graph.add_edges_from(edges)
            if not any(nx.is_isomorphic(graph, other) for other in seen):
                seen.append(graph)
                yield custom(size, [PatternEdge(a, b) for a, b in edges])


class BruteForce:
    """All placements of jobs on one node, with costs computed from the graph and the paper."""

    def __init__(self, topology: NodeTopology) -> None:
        self._topology = topology
        graph = physical_graph({"m": topology})
        self._distance: dict[tuple[int, int], int] = {}
        gpus = [gpu.index for gpu in topology.gpus]
        for a, b in combinations(gpus, 2):
            hidden = {f"m/gpu{gpu}" for gpu in gpus} - {f"m/gpu{a}", f"m/gpu{b}"}
            direct = graph.subgraph(set(graph) - hidden)
            length = nx.shortest_path_length(direct, f"m/gpu{a}", f"m/gpu{b}", weight="length")
            self._distance[a, b] = self._distance[b, a] = int(length)
        self._sockets: dict[int, str] = {
            gpu: next(
                name for name in nx.shortest_path(graph, f"m/gpu{gpu}", "m") if "socket" in name
            )
            for gpu in gpus
        }

    def highest_utility(self, job: MappingJob, node: MappingNode) -> float:
        """Return the highest utility of all placements on the free GPUs."""
        best = min(self._length(job, order) for order in self._orders(self._topology.mask, job))
        return max(self._utility(job, node, order, best) for order in self._orders(node.free, job))

    def _orders(self, free: GpuMask, job: MappingJob) -> Iterator[tuple[int, ...]]:
        return permutations(indices_of(free), job.pattern.size)

    def _length(self, job: MappingJob, order: tuple[int, ...]) -> int:
        return sum(
            weight * self._distance[order[a], order[b]] for a, b, weight in job.pattern.edges
        )

    def _utility(
        self, job: MappingJob, node: MappingNode, order: tuple[int, ...], best: int
    ) -> float:
        worst = sum(edge.weight for edge in job.pattern.edges) * max(self._distance.values())
        communication = _term(self._length(job, order), best, worst)
        used = {self._sockets[gpu] for gpu in order}
        near = [
            each.workload
            for each in node.neighbours
            if used & {self._sockets[gpu] for gpu in indices_of(each.gpus)}
        ]
        return (
            communication + self._interference(job, near) + self._fragmentation(node, order, used)
        ) / 3

    def _interference(self, job: MappingJob, near: Iterable[WorkloadKind]) -> float:
        others = list(near)
        own = prod(SLOWDOWNS.slowdown(job.workload, each).value for each in others)
        caused = [SLOWDOWNS.slowdown(each, job.workload).value - 1 for each in others]
        return _term(1 + (own - 1 + sum(caused)) / 2, 1.0, 1.3)

    def _fragmentation(self, node: MappingNode, order: tuple[int, ...], used: set[str]) -> float:
        sizes = [list(self._sockets.values()).count(socket) for socket in used]
        free = [
            sum(self._sockets[gpu] == socket and gpu not in order for gpu in indices_of(node.free))
            for socket in used
        ]
        largest = max(list(self._sockets.values()).count(each) for each in self._sockets.values())
        mean = sum(f / size for f, size in zip(free, sizes, strict=True)) / len(used)
        return _term(mean, 0.0, (largest - 1) / largest)


def _term(value: float, best: float, worst: float) -> float:
    if worst == best:
        return 1.0
    return 1 - 0.99 * min(1.0, max(0.0, (value - best) / (worst - best)))
