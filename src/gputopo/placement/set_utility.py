"""Utilities of all GPU sets of one node at once (Amaral et al., SC '17, equation 2).

The arrays have one entry for each set. The values are those of :mod:`gputopo.utility`, which
computes them for a single placement.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.model import Pattern
from gputopo.placement.paths import PathTable
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
        interference: cost by the slowdowns of the job and of the jobs that it disturbs, 1 or more.
        suffered: slowdown of the job itself.
        free_parts: mean free part of the sockets that the set uses.
    """

    pattern: Pattern
    surroundings: Surroundings
    lengths: NDArray[np.int64]
    interference: _Values
    suffered: _Values
    free_parts: _Values

    @property
    def values(self) -> NDArray[np.int64]:
        """Utility for the cluster of each set, in billionths."""
        weights, ideal = self.surroundings.weights, self._costs(0)
        total = (
            weights.communication * _terms(self.lengths, ideal.communication)
            + weights.interference * _terms(self.interference, ideal.interference)
            + weights.fragmentation * _terms(self.free_parts, ideal.fragmentation)
        )
        return np.round(UNITS * total).astype(np.int64)

    def of(self, choice: int) -> PlacementUtility:
        """Return the utility of one set, with its costs."""
        return placement_utility(self._costs(choice), self.surroundings.weights)

    def _costs(self, choice: int) -> PlacementCosts:
        scale, worst = self.surroundings.scale, 1 + self.surroundings.worst_percent / 100
        largest = scale.largest_socket
        return PlacementCosts(
            communication_cost(
                self.pattern, int(self.lengths[choice]), scale.best_length, scale.longest
            ),
            Cost(float(self.interference[choice]), best=1.0, worst=worst),
            Cost(float(self.suffered[choice]), best=1.0, worst=worst),
            Cost(float(self.free_parts[choice]), best=0.0, worst=(largest - 1) / largest),
        )


def set_utilities(
    table: PathTable,
    rows: NDArray[np.int64],
    free: GpuMask,
    pattern: Pattern,
    surroundings: Surroundings,
) -> SetUtilities:
    """Return the utilities of GPU sets of a node.

    Args:
        table: path lengths and sockets of all sets of the node.
        rows: the sets, as rows of ``table``.
        free: free GPUs of the node.
        pattern: the job graph.
        surroundings: what runs on the node.
    """
    # Slowdowns depend only on the sockets of a set. A node has few combinations of sockets.
    interference, suffered = _slowdowns(table.areas, surroundings.neighbours)
    area, uses = table.area[rows], table.uses[rows]
    parts = np.array([(free & each).bit_count() / each.bit_count() for each in table.sockets])
    free_parts = (uses @ parts - table.own_parts[rows]) / uses.sum(axis=1)
    return SetUtilities(
        pattern,
        surroundings,
        table.lengths[rows],
        interference[area],
        suffered[area],
        np.maximum(free_parts, 0.0),
    )


def _terms(values: NDArray[np.int64] | _Values, cases: Cost) -> _Values:
    """Return the term of each cost; see :attr:`gputopo.utility.cost.Cost.term`."""
    if cases.worst == cases.best:
        return np.ones(len(values))
    shares = (values - float(cases.best)) / float(cases.worst - cases.best)
    return 1 - (1 - FLOOR) * np.clip(shares, 0.0, 1.0)


def _slowdowns(
    areas: NDArray[np.uint64], neighbours: Sequence[NodeNeighbour]
) -> tuple[_Values, _Values]:
    """Return the interference of a job in each area, and the slowdown that it suffers itself.

    Both are those of :func:`gputopo.utility.interference.interference_costs`. Neighbours outside
    the area count if a slowdown was measured there.
    """
    if not neighbours:
        return np.ones(len(areas)), np.ones(len(areas))
    gpus = np.array([each.gpus for each in neighbours], dtype=np.uint64)
    beside = (areas[:, np.newaxis] & gpus) != 0
    near = np.array([(each.suffered.percent, each.caused.percent) for each in neighbours])
    far = np.array([each.far or (0, 0) for each in neighbours])
    percents = np.where(beside[..., np.newaxis], near, far)
    # Sorted, because the last bit of a product depends on the order of its factors.
    suffered = (1 + np.sort(percents[..., 0], axis=1) / 100).prod(axis=1)
    caused = percents[..., 1].sum(axis=1) / 100
    return 1 + ((suffered - 1) + caused) / 2, suffered
