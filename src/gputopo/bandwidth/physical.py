"""The physical model: effective bandwidth from link capacities, for any node and pattern.

Two limits slow a job down. The first limit is the narrowest cut: if the GPU set is divided into two
parts, the links between these parts limit the traffic between them. The second limit is the ports:
the links of each GPU limit its traffic with all other GPUs. The model computes a time for each
limit. The first time is how long the traffic takes through the narrowest cut. The second time is
how long the traffic takes through the ports of a GPU, as the mean of all GPUs. Effective bandwidth
is the traffic divided by the mean of the two times.

For Ring, Tree and RingTree, the patterns of NCCL's all-reduce, this is NCCL's "bus bandwidth": the
sum of the rates of NCCL's rings. NCCL chooses its own rings or trees over all links, so the rank
order does not matter. Each ring crosses every cut at least once in each direction, so the sum is at
most the capacity of the narrowest cut. For trees this limit is conservative: their bus bandwidth on
k GPUs can be up to 2 (k - 1) / k times as high, for instance 1.5 times on 4 GPUs.

In the other patterns, each edge is traffic between the GPUs of its two ranks. The traffic across a
cut is the sum of the traffic of all edges that cross the cut. Effective bandwidth is computed for
the GPU with the most traffic: it is the rate at which this GPU sends.

Example: a ring on GPUs 0, 1, 2, 3 of the node in :mod:`gputopo.bandwidth.capacity`. The narrowest
cut is {0, 1} | {2, 3} with 8 GB/s, so 1 GB takes 1/8 = 0.125 s there. The ports of the GPUs have
62, 62, 12 and 12 GB/s. Their mean time for 1 GB is (1/62 + 1/62 + 1/12 + 1/12) / 4 = 0.0497 s. The
effective bandwidth is 2 / (0.125 + 0.0497) = 11.45 GB/s.

For a given rank order, an additional or faster link does not lower the effective bandwidth, because
capacities are sums and minima of link bandwidths. The only exception is a pair of GPUs that gets an
NVLink: its PCIe bandwidth is then estimated from the NVLink generation, perhaps too low.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.bandwidth.capacity import LinkCapacities
from gputopo.patterns.model import Pattern, PatternKind
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import NodeTopology

_COLLECTIVES: Final = frozenset({PatternKind.RING, PatternKind.TREE, PatternKind.RING_TREE})

_PAIRS_AT_ONCE: Final = 2**17
"""How many pairs of set and cut are evaluated at once.

With fewer, the calls of numpy cost more than their work. With more, glibc returns the memory of
each array to the kernel, and getting it again takes longer than the computation.
"""


@dataclass(frozen=True, slots=True)
class Physical:
    """The physical model; the docstring of the module describes it."""

    name: str = "physical"

    def unsupported_reason(self, _topology: NodeTopology, _pattern: Pattern) -> str | None:
        """Return None: the model supports every node and pattern."""
        return None

    def effective_mb_per_s(
        self, topology: NodeTopology, pattern: Pattern, table: EmbeddingTable
    ) -> NDArray[np.int64]:
        """Return the effective bandwidth of each GPU set (row of ``table``), in whole MB/s.

        A set of k GPUs has about 2^(k - 1) cuts. All sets of one size on 16 GPUs together have at
        most 4.5 million cuts.
        """
        capacities, demand = LinkCapacities.from_topology(topology), _Demand.from_pattern(pattern)
        members = np.sort(table.orders, axis=1) if _is_collective(pattern) else table.orders
        values = np.empty(len(members), dtype=np.int64)
        step = max(1, _PAIRS_AT_ONCE // len(demand.cuts))
        for start in range(0, len(members), step):
            chunk = slice(start, start + step)
            values[chunk] = _values(capacities.across(members[chunk].T), demand)
        return values


@dataclass(frozen=True, slots=True, eq=False)
class _Demand:
    """Traffic of a pattern across the cuts of a GPU set. An edge of weight 2 has traffic 2.

    For NCCL's all-reduce, the traffic across each cut is 1, because each ring crosses all cuts.

    Attributes:
        cuts: traffic across each cut, in the order of :meth:`LinkCapacities.across`.
        ports: for each rank that has an edge, the index of the cut between it and all other ranks.
        port_traffic: the traffic across each cut of ``ports``.
        uniform: whether the traffic is the same across all cuts.
    """

    cuts: NDArray[np.float64]
    ports: NDArray[np.intp]
    port_traffic: NDArray[np.float64]
    uniform: bool

    @classmethod
    def from_pattern(cls, pattern: Pattern) -> "_Demand":
        size = pattern.size
        sides = np.arange(2 ** (size - 1) - 1) << 1 | 1
        crossing = np.zeros(len(sides))
        for edge in pattern.edges:
            crossing += edge.weight * ((sides >> edge.a ^ sides >> edge.b) & 1)
        ranks = np.bitwise_count(sides)
        ports = np.flatnonzero(((ranks == 1) | (ranks == size - 1)) & (crossing > 0))
        uniform = _is_collective(pattern)
        traffic = np.ones_like(crossing) if uniform else crossing
        return cls(traffic, ports, traffic[ports], uniform)


def _values(mb_per_s: NDArray[np.int32], demand: _Demand) -> NDArray[np.float64]:
    """Return [rows]: the effective bandwidth of each set, from ``mb_per_s`` across its cuts."""
    # Sort the times, so that sets with the same links have exactly the same sum.
    times = np.sort(demand.port_traffic[:, None] / mb_per_s[demand.ports], axis=0)
    by_ports = times.sum(axis=0) / len(times)
    if demand.uniform:  # the narrowest cut takes the longest time
        by_cut = demand.cuts[0] / mb_per_s.min(axis=0)
    else:
        by_cut = (demand.cuts[:, None] / mb_per_s).max(axis=0)
    values: NDArray[np.float64] = np.rint(2 * demand.port_traffic.max() / (by_cut + by_ports))
    return values


def _is_collective(pattern: Pattern) -> bool:
    return pattern.kind in _COLLECTIVES
