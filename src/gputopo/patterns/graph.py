"""The hardware graph as the searches read it, and what they find in it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gputopo.topology.model import GpuIndex, GpuMask, NodeTopology, indices_of, mask_of


@dataclass(frozen=True, slots=True)
class Embedding:
    """A pattern laid on GPUs.

    Attributes:
        order: the GPU of each rank.
        aggregate_mb_per_s: sum over the pattern's edges of weight times bandwidth of the
            link beneath (MAPA, equation 1, which has no weights: there all are 1).
        exact: no other embedding into the same GPUs has more; False where the search
            ran out of its budget.
    """

    order: tuple[GpuIndex, ...]
    aggregate_mb_per_s: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class LinkWeights:
    """A node's GPUs by position 0..n-1 in ascending index, and the bandwidth between them.

    Attributes:
        mb_per_s: row and column are positions; 0 on the diagonal.
    """

    indices: tuple[GpuIndex, ...]
    mb_per_s: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, topology: NodeTopology) -> "LinkWeights":
        """Return the graph of a node."""
        indices = tuple(sorted(gpu.index for gpu in topology.gpus))
        links = topology.link_of
        rows = tuple(
            tuple(0 if a == b else links[a, b].bandwidth_mb_per_s for b in indices) for a in indices
        )
        return cls(indices, rows)

    def sets(self, size: int) -> Iterator[tuple[int, ...]]:
        """Return all sets of ``size`` positions, lowest first."""
        return combinations(range(len(self.indices)), size)

    def gpus(self, positions: Sequence[int]) -> tuple[GpuIndex, ...]:
        """Return the GPUs at these positions, in the same order."""
        return tuple(self.indices[position] for position in positions)

    def mask(self, positions: Sequence[int]) -> GpuMask:
        """Return the set of the GPUs at these positions."""
        return mask_of(self.gpus(positions))


def link_weights(topology: NodeTopology) -> NDArray[np.int64]:
    """Return MB/s between the GPUs of a node, by positions in ascending index; 0 to itself."""
    indices = indices_of(topology.mask)
    place = {index: position for position, index in enumerate(indices)}
    mb_per_s = np.zeros((len(indices), len(indices)), dtype=np.int64)
    for link in topology.links:
        a, b = place[link.a], place[link.b]
        mb_per_s[a, b] = mb_per_s[b, a] = link.bandwidth_mb_per_s
    return mb_per_s
