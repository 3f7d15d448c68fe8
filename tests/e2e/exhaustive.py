"""MAPA by brute force over a published GPUTopology: the oracle of the placement tests.

It implements the paper's definitions on the object that the cluster serves, and shares no
code with gputopo.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations, permutations
from typing import Any

Edges = Mapping[tuple[int, int], int]
"""Weights by pairs of ranks."""

# Equation 2 as printed in MAPA, table 2, in full precision.
_THETA = (
    16.39670455,
    4.536821878,
    1.55623404,
    -20.69484581,
    -9.467461958,
    7.615106783,
    -7.973335727,
    12.73323772,
    -4.195655221,
    -8.413419363,
    62.85125807,
    27.41832588,
    -5.114108079,
    -46.97390071,
)


# Where two GPUs meet on PCIe, from the nearest to the farthest.
_ANCESTORS = ("INTERNAL", "PIX", "PXB", "PHB", "NODE", "SYS")


def edges_of(pattern: str, size: int) -> Edges:
    """Return the edges of a pattern as pairs of ranks; the lower rank comes first."""
    if pattern == "RingTree":
        return {**edges_of("Tree", size), **edges_of("Ring", size)}
    if pattern == "Ring" and size == 2:
        return {(0, 1): 2}
    children = [(rank, child) for rank in range(size) for child in (2 * rank + 1, 2 * rank + 2)]
    path = [(rank, rank + 1) for rank in range(size - 1)]
    pairs = {
        "Ring": [*path, (0, size - 1)],
        "Chain": path,
        "Tree": [(rank, child) for rank, child in children if child < size],
        "Star": [(0, rank) for rank in range(1, size)],
        "AllToAll": list(combinations(range(size), 2)),
    }[pattern]
    return dict.fromkeys(pairs, 1)


class Oracle:
    """Bandwidths and best sets of one node, in GB/s, by the index of the GPUs."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.index = {gpu["uuid"]: gpu["index"] for gpu in spec["gpus"]}
        self.links = {
            frozenset((self.index[link["a"]], self.index[link["b"]])): link
            for link in spec["links"]
        }

    def indices(self, uuids: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.index[uuid] for uuid in uuids)

    def aggregate(self, edges: Edges, order: tuple[int, ...]) -> int:
        """Equation 1: the sum over the edges of link bandwidth times weight."""
        megabytes = sum(
            weight * int(self.links[frozenset((order[a], order[b]))]["bandwidthMBps"])
            for (a, b), weight in edges.items()
        )
        return megabytes // 1000

    def most_aggregate(self, edges: Edges, gpus: tuple[int, ...]) -> int:
        """Return the aggregate bandwidth of the best order of these GPUs."""
        return max(self.aggregate(edges, order) for order in permutations(gpus))

    def greedy(self, edges: Edges, free: set[int], size: int) -> tuple[int, ...]:
        """Return the free GPUs with the highest aggregate bandwidth, the lowest among equals."""
        return max(_sets(free, size), key=lambda gpus: self.most_aggregate(edges, gpus))

    def effective(self, gpus: tuple[int, ...]) -> float:
        """Equation 2 of the set's best ring; where several are best, of the most effective."""
        ring = edges_of("Ring", len(gpus))
        best = self.most_aggregate(ring, gpus)
        orders = [order for order in permutations(gpus) if self.aggregate(ring, order) == best]
        return max(self._equation_2(ring, order) for order in orders)

    def _equation_2(self, edges: Edges, order: tuple[int, ...]) -> float:
        links = [
            self.links[frozenset((order[a], order[b]))]
            for (a, b), weight in edges.items()
            for _ in range(weight)
        ]
        x = sum(link["kind"] == "NVLink" and link["count"] == 2 for link in links)
        y = sum(link["kind"] == "NVLink" and link["count"] == 1 for link in links)
        z = sum(link["kind"] == "PCIe" for link in links)
        terms = (
            *(x, y, z, 1 / (x + 1), 1 / (y + 1), 1 / (z + 1)),
            *(x * y, y * z, z * x, 1 / (x * y + 1), 1 / (y * z + 1), 1 / (z * x + 1)),
            *(x * y * z, 1 / (x * y * z + 1)),
        )
        return sum(float(theta * term) for theta, term in zip(_THETA, terms, strict=True))

    def preserved(self, left: set[int]) -> int:
        """Equation 3: all pairs among the GPUs that remain free."""
        pairs = combinations(sorted(left), 2)
        return sum(int(self.links[frozenset(pair)]["bandwidthMBps"]) for pair in pairs) // 1000

    def most_effective(self, free: set[int], size: int) -> float:
        return max(self.effective(gpus) for gpus in _sets(free, size))

    def most_preserved(self, free: set[int], size: int) -> int:
        return max(self.preserved(free - set(gpus)) for gpus in _sets(free, size))

    def nearest(self, free: set[int], size: int) -> tuple[int, ...]:
        """The topology-aware choice: level by level from the root of the PCIe tree, the fewest
        parts touched, then the parts with the fewest GPUs free; the lowest GPUs among equals."""

        def cost(gpus: tuple[int, ...]) -> list[tuple[int, int]]:
            costs = []
            for level in reversed(range(len(_ANCESTORS))):
                touched = {self._part(gpu, level) for gpu in gpus}
                costs.append((len(touched), len(free & set().union(*touched))))
            return costs

        return min(_sets(free, size), key=cost)

    def _part(self, gpu: int, level: int) -> frozenset[int]:
        """The GPUs that meet this one at ``level`` or nearer, and those that meet them so."""
        part, added = {gpu}, {gpu}
        while added:
            added = {
                other
                for pair, link in self.links.items()
                if pair & added and _ANCESTORS.index(link["ancestor"]) <= level
                for other in pair - part
            }
            part |= added
        return frozenset(part)


def _sets(free: set[int], size: int) -> Iterable[tuple[int, ...]]:
    """Return the sets of this size, the lowest first."""
    return combinations(sorted(free), size)
