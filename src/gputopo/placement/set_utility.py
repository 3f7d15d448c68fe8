"""Utilities of all GPU sets of one node at once (Amaral et al., SC '17, equation 2).

The arrays have one entry for each set. The values are those of :mod:`gputopo.utility`, which
computes them for a single placement.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.model import Pattern
from gputopo.topology.model import GpuMask
from gputopo.utility.communication import communication_cost
from gputopo.utility.cost import FLOOR, Cost
from gputopo.utility.surroundings import NodeNeighbour, Surroundings
from gputopo.utility.utility import UNITS, PlacementCosts, PlacementUtility, placement_utility

_Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SetUtilities:
    """Costs of the placement of one job on each GPU set.

    Attributes:
        lengths: weighted path length.
        mean_slowdowns: mean slowdown of the job and of the jobs that it disturbs, 1 or more.
        suffered: slowdown of the job alone.
        free_parts: mean free part of the sockets that the set uses.
    """

    pattern: Pattern
    surroundings: Surroundings
    lengths: NDArray[np.int64]
    mean_slowdowns: _Values
    suffered: _Values
    free_parts: _Values

    @property
    def values(self) -> NDArray[np.int64]:
        """Utility for the cluster of each set, in billionths."""
        weights, ideal = self.surroundings.weights, self.of(0).costs
        total = (
            weights.communication * _terms(self.lengths, ideal.communication)
            + weights.interference * _terms(self.mean_slowdowns, ideal.interference)
            + weights.fragmentation * _terms(self.free_parts, ideal.fragmentation)
        )
        return np.round(UNITS * total).astype(np.int64)

    def of(self, choice: int) -> PlacementUtility:
        """Return the utility of one set, with its costs."""
        scale, worst = self.surroundings.scale, 1 + self.surroundings.worst_percent / 100
        largest = scale.largest_socket
        costs = PlacementCosts(
            communication_cost(
                self.pattern, int(self.lengths[choice]), scale.best_length, scale.longest
            ),
            Cost(float(self.mean_slowdowns[choice]), best=1.0, worst=worst),
            Cost(float(self.suffered[choice]), best=1.0, worst=worst),
            Cost(float(self.free_parts[choice]), best=0.0, worst=(largest - 1) / largest),
        )
        return placement_utility(costs, self.surroundings.weights)


def set_utilities(
    sets: NDArray[np.uint64],
    lengths: NDArray[np.int64],
    free: GpuMask,
    sockets: Sequence[GpuMask],
    pattern: Pattern,
    surroundings: Surroundings,
) -> SetUtilities:
    """Return the utilities of GPU sets of a node.

    Args:
        sets: the GPU sets, as masks.
        lengths: weighted path length of each set.
        free: free GPUs of the node.
        sockets: GPUs of each socket.
        pattern: the job graph.
        surroundings: what runs on the node.
    """
    mean_slowdowns, suffered = _slowdowns(sets, sockets, surroundings.neighbours)
    free_parts = _free_parts(sets, free, sockets)
    return SetUtilities(pattern, surroundings, lengths, mean_slowdowns, suffered, free_parts)


def _terms(values: NDArray[np.int64] | _Values, cases: Cost) -> _Values:
    """Return the term of each cost; see :attr:`gputopo.utility.cost.Cost.term`."""
    if cases.worst == cases.best:
        return np.ones(len(values))
    shares = (values - cases.best) / (cases.worst - cases.best)
    return 1 - (1 - FLOOR) * np.clip(shares, 0.0, 1.0)


def _slowdowns(
    sets: NDArray[np.uint64], sockets: Sequence[GpuMask], neighbours: Sequence[NodeNeighbour]
) -> tuple[_Values, _Values]:
    """Return the mean slowdown of each set, and the slowdown that the job itself suffers.

    Neighbours on other sockets count if a slowdown was measured there.
    """
    near = np.zeros(len(sets), dtype=np.uint64)
    for socket in sockets:
        near |= np.where(sets & np.uint64(socket), np.uint64(socket), np.uint64(0))
    suffered, caused, count = np.zeros((3, len(sets)), dtype=np.int64)
    for each in neighbours:
        beside = (near & np.uint64(each.gpus)) != 0
        far = each.far or (0, 0)
        suffered = np.maximum(suffered, np.where(beside, each.suffered.percent, far[0]))
        caused += np.where(beside, each.caused.percent, far[1])
        count += 1 if each.far else beside
    return 1 + (suffered + caused) / (100 * (1 + count)), 1 + suffered / 100


def _free_parts(sets: NDArray[np.uint64], free: GpuMask, sockets: Sequence[GpuMask]) -> _Values:
    total, used = np.zeros(len(sets)), np.zeros(len(sets), dtype=np.int64)
    for socket in sockets:
        own = np.bitwise_count(sets & np.uint64(socket)).astype(np.int64)
        remaining = (free & socket).bit_count() - own
        total += (own > 0) * (remaining / socket.bit_count())
        used += own > 0
    return total / used
