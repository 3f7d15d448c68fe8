"""Oracle: MAPA by exhaustive search over networkx graphs, independent of the tested code."""

from collections.abc import Callable, Iterable
from csv import DictReader
from functools import cache
from itertools import combinations, permutations
from pathlib import Path
from typing import TypeAlias

import networkx as nx

from gputopo.patterns.model import PatternKind
from gputopo.patterns.table import EmbeddingTable
from gputopo.placement.model import PolicyName
from gputopo.topology.model import Ancestor, LinkKind, NodeTopology

Hardware: TypeAlias = "nx.Graph[int]"
MAPA = Path(__file__).parents[1] / "data" / "mapa"


def mapa_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of one of MAPA's tables."""
    lines = (MAPA / name).read_text().splitlines()
    return list(DictReader(line for line in lines if not line.startswith("#")))


@cache
def equation_2() -> dict[tuple[int, int, int], float]:
    """Return GB/s by double NVLinks, single NVLinks and PCIe links, from the table."""
    return {
        (int(row["x_double"]), int(row["y_single"]), int(row["z_pcie"])): float(row["effbw_gbps"])
        for row in mapa_rows("eq2_values.csv")
    }


def hardware(topology: NodeTopology) -> Hardware:
    """Return the node as a weighted complete graph; ``link_class`` is 0, 1, 2 for x, y, z."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(gpu.index for gpu in topology.gpus)
    for link in topology.links:
        link_class = 2 if link.kind is LinkKind.PCIE else int(link.count == 1)
        graph.add_edge(link.a, link.b, weight=link.bandwidth_mb_per_s, link_class=link_class)
    return graph


Edges = list[tuple[int, int, int]]


def ring_edges(size: int) -> Edges:
    """Return (rank, rank, weight) of a ring; a ring of two has its edge twice."""
    return [] if size == 1 else [(rank, (rank + 1) % size, 1) for rank in range(size)]


def pattern_edges(kind: PatternKind, size: int) -> Edges:
    """Return (rank, rank, weight) of a pattern by networkx's graph of that name.

    RingTree of two is a ring of two. Custom has all pairs within three ranks, with different
    weights.
    """
    if kind is PatternKind.RING:
        return ring_edges(size)
    if kind is PatternKind.CUSTOM:
        pairs = [(a, b) for a, b in combinations(range(size), 2) if b - a <= 3]
        return [(a, b, 1 + (2 * a + 5 * b) % 7) for a, b in pairs]
    if kind is PatternKind.RING_TREE and size <= 2:
        return ring_edges(size)
    below = nx.full_rary_tree(2, size)
    graph = {
        PatternKind.TREE: below,
        PatternKind.RING_TREE: nx.compose(nx.cycle_graph(size), below),
        PatternKind.CHAIN: nx.path_graph(size),
        PatternKind.STAR: nx.star_graph(size - 1),
        PatternKind.ALL_TO_ALL: nx.complete_graph(size),
    }[kind]
    return [(a, b, 1) for a, b in graph.edges]


Order = tuple[int, ...]
Speeds = dict[int, dict[int, int]]
Rank = Callable[[Order], tuple[float, ...]]


def speeds(graph: Hardware) -> Speeds:
    """Return MB/s by both GPUs."""
    return {a: {b: int(data["weight"]) for b, data in graph[a].items()} for a in graph}


def best(graph: Hardware, edges: Edges, members: Iterable[int]) -> tuple[int, Order]:
    """Return the highest aggregate over all orders, and the lowest order that has it."""
    mb_per_s = speeds(graph)
    most = -1
    lowest: Order = ()
    for order in permutations(sorted(members)):
        total = 0
        for a, b, weight in edges:
            total += weight * mb_per_s[order[a]][order[b]]
        if total > most:
            most, lowest = total, order
    return most, lowest


def longest_ring(graph: Hardware, members: Iterable[int]) -> int:
    """Return the highest aggregate of a ring of three or more, by recursion over unvisited GPUs."""
    first, *others = sorted(members, reverse=True)
    mb_per_s = speeds(graph)

    @cache
    def longest_path(last: int, unvisited: frozenset[int]) -> int:
        if not unvisited:
            return mb_per_s[last][first]
        return max(mb_per_s[last][gpu] + longest_path(gpu, unvisited - {gpu}) for gpu in unvisited)

    return longest_path(first, frozenset(others))


def heaviest_tree(graph: Hardware, members: Iterable[int]) -> int:
    """Return the highest aggregate of a balanced binary tree, by splitting it at its root."""
    mb_per_s = speeds(graph)

    @cache
    def with_parent(parent: int, members: frozenset[int]) -> int:
        return max(mb_per_s[parent][root] + rooted(root, members - {root}) for root in members)

    @cache
    def rooted(root: int, below: frozenset[int]) -> int:
        if not below:
            return 0
        return max(
            with_parent(root, frozenset(one)) + (with_parent(root, other) if other else 0)
            for one in combinations(sorted(below), _left_half(len(below) + 1))
            for other in [below - set(one)]
        )

    everyone = frozenset(members)
    return max(rooted(root, everyone - {root}) for root in everyone)


@cache
def _left_half(size: int) -> int:
    """Return the number of ranks in the left subtree of a balanced tree."""
    below = nx.full_rary_tree(2, size)
    below.remove_node(0)
    return len(nx.node_connected_component(below, 1))


def effective_by_equation_2(graph: Hardware, edges: Edges, order: Order) -> float:
    """Return equation 2 of the links below the pattern's edges, in GB/s."""
    mix = [0, 0, 0]
    for a, b, _ in edges:
        mix[graph.edges[order[a], order[b]]["link_class"]] += 1
    return equation_2()[mix[0], mix[1], mix[2]]


def preserved(graph: Hardware, free: Iterable[int]) -> int:
    """Return the bandwidth of all links among these GPUs."""
    return int(graph.subgraph(free).size(weight="weight"))


def row_of(table: EmbeddingTable, members: int) -> int:
    """Return the row of a GPU set in a table."""
    return int(table.sets.tolist().index(members))


class Exhaustive:
    """The choices of each policy, by evaluation of every set and every order of it."""

    def __init__(self, topology: NodeTopology, edges: Edges, size: int, *, by_eq2: bool) -> None:
        self.graph = hardware(topology)
        self._topology = topology
        self._by_eq2 = by_eq2
        self._edges = edges
        self._size = size
        self._found: dict[Order, tuple[int, Order]] = {}
        self._preserved: dict[frozenset[int], int] = {}

    def best(self, members: Order) -> tuple[int, Order]:
        """Return the highest aggregate of a set, and the lowest order that has it."""
        if members not in self._found:
            self._found[members] = best(self.graph, self._edges, members)
        return self._found[members]

    def preserved(self, free: frozenset[int]) -> int:
        """Return the bandwidth of all links among these GPUs."""
        if free not in self._preserved:
            self._preserved[free] = preserved(self.graph, free)
        return self._preserved[free]

    def effective(self, members: Order) -> float:
        aggregate, order = self.best(members)
        if self._by_eq2:
            return effective_by_equation_2(self.graph, self._edges, order)
        return aggregate / 1000

    def choices(self, free: Iterable[int]) -> dict[tuple[PolicyName, bool], Order]:
        """Return the set that each policy must choose, for sensitive and for other jobs."""
        members = tuple(sorted(free))
        return {
            (policy, sensitive): choose
            for policy, by_sensitivity in {
                PolicyName.BASELINE: [self.baseline(members)] * 2,
                PolicyName.TOPO_AWARE: [self.topo_aware(members)] * 2,
                PolicyName.GREEDY: [self.greedy(members)] * 2,
                PolicyName.PRESERVE: [
                    self.preserve(members, sensitive=False),
                    self.preserve(members, sensitive=True),
                ],
            }.items()
            for sensitive, choose in zip((False, True), by_sensitivity, strict=True)
        }

    def baseline(self, free: Iterable[int]) -> Order:
        return tuple(sorted(free))[: self._size]

    def topo_aware(self, free: Iterable[int]) -> Order:
        return self._nearest(
            list(combinations(sorted(free), self._size)), set(free), list(Ancestor)
        )

    def greedy(self, free: Iterable[int]) -> Order:
        return self._first_best(free, lambda members: (self.best(members)[0],))

    def preserve(self, free: Iterable[int], *, sensitive: bool) -> Order:
        everyone = frozenset(free)

        def rank(members: Order) -> tuple[float, float]:
            saved = self.preserved(everyone.difference(members))
            return (self.effective(members), saved) if sensitive else (saved, self.best(members)[0])

        return self._first_best(everyone, rank)

    def _nearest(self, sets: list[Order], free: set[int], levels: list[Ancestor]) -> Order:
        """Partition the node at the farthest level, keep the best sets, go on one level nearer."""
        if not levels:
            return sets[0]
        partition: nx.Graph[int] = nx.Graph()
        partition.add_nodes_from(self.graph)
        partition.add_edges_from(
            (link.a, link.b) for link in self._topology.links if link.ancestor in levels
        )
        blocks = list(nx.connected_components(partition))

        def misfit(members: Order) -> tuple[int, int]:
            used = [block for block in blocks if block.intersection(members)]
            return len(used), sum(len(block & free) for block in used)

        fewest = min(map(misfit, sets))
        fitting = [members for members in sets if misfit(members) == fewest]
        return self._nearest(fitting, free, levels[:-1])

    def _first_best(self, free: Iterable[int], rank: Rank) -> Order:
        return max(combinations(sorted(free), self._size), key=rank)
