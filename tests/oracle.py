"""MAPA by exhaustive search over networkx graphs: slow, plain, and apart from the code tested."""

from collections.abc import Callable, Iterable
from csv import DictReader
from functools import cache
from itertools import combinations, permutations
from pathlib import Path

import networkx as nx

from gputopo.api.enums import LinkKind
from gputopo.topology.model import NodeTopology

MAPA = Path(__file__).parent / "data" / "mapa"


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


def hardware(topology: NodeTopology) -> "nx.Graph[int]":
    """Return the node as a weighted complete graph; ``sort`` is the place in (x, y, z)."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(gpu.index for gpu in topology.gpus)
    for link in topology.links:
        sort = 2 if link.kind is LinkKind.PCIE else int(link.count == 1)
        graph.add_edge(link.a, link.b, weight=link.bandwidth_mb_per_s, sort=sort)
    return graph


def ring_edges(size: int) -> list[tuple[int, int, int]]:
    """Return (rank, rank, weight) of a ring; a ring of two has its edge twice."""
    return [] if size == 1 else [(rank, (rank + 1) % size, 1) for rank in range(size)]


def clique_edges(size: int) -> list[tuple[int, int, int]]:
    """Return (rank, rank, weight) of all pairs."""
    return [(a, b, 1) for a, b in nx.complete_graph(size).edges]


Edges = list[tuple[int, int, int]]
Order = tuple[int, ...]
Rank = Callable[[Order], tuple[float, ...]]


def total(graph: "nx.Graph[int]", edges: Edges, order: Order) -> int:
    """Return the aggregate bandwidth of a pattern laid on GPUs in this order."""
    return sum(weight * graph.edges[order[a], order[b]]["weight"] for a, b, weight in edges)


def best(graph: "nx.Graph[int]", edges: Edges, members: Iterable[int]) -> tuple[int, Order]:
    """Return the highest aggregate over all orders, and the lowest order that has it."""
    return max(
        ((total(graph, edges, order), order) for order in permutations(sorted(members))),
        key=lambda found: (found[0], [-gpu for gpu in found[1]]),
    )


def effective_by_equation_2(graph: "nx.Graph[int]", edges: Edges, order: Order) -> float:
    """Return equation 2 of the links beneath the pattern's edges, in GB/s."""
    mix = [0, 0, 0]
    for a, b, _ in edges:
        mix[graph.edges[order[a], order[b]]["sort"]] += 1
    return equation_2()[mix[0], mix[1], mix[2]]


def preserved(graph: "nx.Graph[int]", free: Iterable[int]) -> int:
    """Return the bandwidth of all links among these GPUs."""
    return int(graph.subgraph(free).size(weight="weight"))


class Exhaustive:
    """What each policy has to choose, by looking at every set and every order of it."""

    def __init__(self, topology: NodeTopology, edges: Edges, size: int, *, by_eq2: bool) -> None:
        self.graph = hardware(topology)
        self._by_eq2 = by_eq2
        self._edges = edges
        self._size = size
        self.found = {
            members: best(self.graph, edges, members)
            for members in combinations(sorted(self.graph), size)
        }

    def baseline(self, free: Iterable[int]) -> Order:
        return tuple(sorted(free))[: self._size]

    def greedy(self, free: Iterable[int]) -> Order:
        return self._first_best(free, lambda members: (self.found[members][0],))

    def preserve(self, free: Iterable[int], *, sensitive: bool) -> Order:
        left = set(free)

        def rank(members: Order) -> tuple[float, float]:
            aggregate = self.found[members][0]
            saved = preserved(self.graph, left - set(members))
            return (self.effective(members), saved) if sensitive else (saved, aggregate)

        return self._first_best(left, rank)

    def effective(self, members: Order) -> float:
        aggregate, order = self.found[members]
        if self._by_eq2:
            return effective_by_equation_2(self.graph, self._edges, order)
        return aggregate / 1000

    def _first_best(self, free: Iterable[int], rank: Rank) -> Order:
        winner: Order | None = None
        for members in combinations(sorted(free), self._size):
            if winner is None or rank(members) > rank(winner):
                winner = members
        assert winner is not None
        return winner
