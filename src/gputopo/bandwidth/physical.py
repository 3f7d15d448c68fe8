"""What a set's links can carry together: a model for any node, generation and pattern.

Two things slow a job down. The narrowest cut: what crosses between some half of its GPUs and
the other is bounded by the links there. And the ports: what a GPU exchanges with all others
is bounded by its own links. The value is the harmonic mean of the bandwidth at the cut and
that at the GPUs' ports, which is to say that half of the time goes by the one and half by
the other.

Ring, Tree and RingTree are NCCL's ways to do an all-reduce, and it chooses its own
channels over whatever links there are, so their value belongs to the set and not to a rank
order. In units of NCCL's "bus bandwidth", the sum of the rates of its rings: each ring
crosses every cut at least once in each direction, so that their rates together are at most
what the narrowest cut carries, as with spanning trees (Edmonds, 1973).

In the other patterns every edge has to carry its own traffic, between the GPUs that the
rank order gives: a cut serves the edges that cross it. Their unit is what the busiest GPU
sends at a time.

Faster links and more of them never lower a value (of a rank order, where that matters):
capacities are sums and minima of the links', and all else grows with them. That holds
while PCIe is no faster than what came with an NVLink that is added, since a pair's NVLink
hides its PCIe link (:mod:`gputopo.bandwidth.capacity`).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.bandwidth.capacity import Capacities
from gputopo.patterns.model import Pattern, PatternKind
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import NodeTopology

NAME: Final = "physical"

_COLLECTIVES: Final = frozenset({PatternKind.RING, PatternKind.TREE, PatternKind.RING_TREE})

_PAIRS_AT_ONCE: Final = 2**17
"""(set, cut) pairs worked on together: few enough for the processor's cache."""


@dataclass(frozen=True, slots=True)
class Physical:
    """Capacity of the links, see the module."""

    name: str = NAME

    def refusal(self, _topology: NodeTopology, _pattern: Pattern) -> str | None:
        """Return None: it may be used everywhere."""
        return None

    def effective_mb_per_s(
        self, topology: NodeTopology, pattern: Pattern, table: EmbeddingTable
    ) -> NDArray[np.int64]:
        """Return the value of every row, to the nearest MB/s.

        Cost: the rows times the 2^(k - 1) cuts of k GPUs, in all at most 4.5 million for
        16 GPUs.
        """
        capacities, demand = Capacities.of(topology), _Demand.of(pattern)
        members = np.sort(table.orders, axis=1) if _is_collective(pattern) else table.orders
        values = np.empty(len(members), dtype=np.int64)
        step = max(1, _PAIRS_AT_ONCE // len(demand.cuts))
        for start in range(0, len(members), step):
            chunk = slice(start, start + step)
            values[chunk] = _worth(capacities.across(members[chunk].T), demand)
        return values


@dataclass(frozen=True, slots=True, eq=False)
class _Demand:
    """What a pattern asks of cuts, in units of the traffic to be found.

    Attributes:
        cuts: what crosses each, as :meth:`Capacities.across` numbers them.
        alone: the cuts that part one busy rank from the others.
        ports: what each of those ranks exchanges.
    """

    cuts: NDArray[np.float64]
    alone: NDArray[np.intp]
    ports: NDArray[np.float64]

    @classmethod
    def of(cls, pattern: Pattern) -> "_Demand":
        size = pattern.size
        halves = np.arange(2 ** (size - 1) - 1) << 1 | 1
        crossing = np.zeros(len(halves))
        for edge in pattern.edges:
            crossing += edge.weight * ((halves >> edge.a ^ halves >> edge.b) & 1)
        inside = np.bitwise_count(halves)
        alone = np.flatnonzero(((inside == 1) | (inside == size - 1)) & (crossing > 0))
        asked = np.ones_like(crossing) if _is_collective(pattern) else crossing
        return cls(asked, alone, asked[alone])


def _worth(mb_per_s: NDArray[np.int32], demand: _Demand) -> NDArray[np.float64]:
    """Return the value of each set from [cuts, rows]."""
    # Sorted, so that sets with the same links have the same sum to the last bit.
    times = np.sort(demand.ports[:, None] / mb_per_s[demand.alone], axis=0)
    by_ports = times.sum(axis=0) / len(times)
    by_cut = (demand.cuts[:, None] / mb_per_s).max(axis=0)
    values: NDArray[np.float64] = np.rint(2 * demand.ports.max() / (by_cut + by_ports))
    return values


def _is_collective(pattern: Pattern) -> bool:
    return pattern.kind in _COLLECTIVES
