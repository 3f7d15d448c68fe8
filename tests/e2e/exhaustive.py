"""MAPA by brute force over a published GPUTopology: the oracle of the placement tests.

Written from the paper's definitions alone, on the object that the cluster serves,
so that it shares no code with what it judges.
"""

from itertools import combinations, permutations
from typing import Any

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


class Oracle:
    """Bandwidths and best sets of one node, in GB/s, by the index of the GPUs."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.index = {gpu["uuid"]: gpu["index"] for gpu in spec["gpus"]}
        self.links = {
            frozenset((self.index[link["a"]], self.index[link["b"]])): link
            for link in spec["links"]
        }

    def indices(self, uuids: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self.index[uuid] for uuid in uuids)

    def _ring(self, order: tuple[int, ...]) -> list[dict[str, Any]]:
        following = order[1:] + order[:1]
        return [self.links[frozenset(pair)] for pair in zip(order, following, strict=True)]

    def ring_aggregate(self, order: tuple[int, ...]) -> int:
        """Equation 1 of the ring in this order; a ring of two counts its link twice."""
        return sum(int(link["bandwidthMBps"]) for link in self._ring(order)) // 1000

    def best_ring(self, gpus: tuple[int, ...]) -> tuple[int, ...]:
        return max(permutations(gpus), key=self.ring_aggregate)

    def effective(self, gpus: tuple[int, ...]) -> float:
        """Equation 2 of the set's best ring."""
        ring = self._ring(self.best_ring(gpus))
        x = sum(link["kind"] == "NVLink" and link["count"] == 2 for link in ring)
        y = sum(link["kind"] == "NVLink" and link["count"] == 1 for link in ring)
        z = sum(link["kind"] == "PCIe" for link in ring)
        terms = (
            *(x, y, z, 1 / (x + 1), 1 / (y + 1), 1 / (z + 1)),
            *(x * y, y * z, z * x, 1 / (x * y + 1), 1 / (y * z + 1), 1 / (z * x + 1)),
            *(x * y * z, 1 / (x * y * z + 1)),
        )
        return sum(float(theta * term) for theta, term in zip(_THETA, terms, strict=True))

    def preserved(self, left: set[int]) -> int:
        """Equation 3: all pairs among the GPUs left free."""
        pairs = combinations(sorted(left), 2)
        return sum(int(self.links[frozenset(pair)]["bandwidthMBps"]) for pair in pairs) // 1000

    def greedy(self, free: set[int], size: int) -> int:
        """Greatest aggregate bandwidth of any ring of free GPUs."""
        return max(
            self.ring_aggregate(self.best_ring(gpus)) for gpus in combinations(sorted(free), size)
        )

    def most_effective(self, free: set[int], size: int) -> float:
        return max(self.effective(gpus) for gpus in combinations(sorted(free), size))

    def most_preserved(self, free: set[int], size: int) -> int:
        return max(self.preserved(free - set(gpus)) for gpus in combinations(sorted(free), size))
