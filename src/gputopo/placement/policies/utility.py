"""Utility policy: communication, interference and fragmentation together (Amaral et al., SC '17).

The policy scores each GPU set by equation 2 of the paper (:mod:`gputopo.utility`), with the best
embedding of the set. If sets have the same utility, the one with more effective bandwidth is
better, because path lengths do not distinguish one NVLink from two.

It needs to know what runs beside the GPUs. So it is not in
:data:`gputopo.placement.policies.POLICIES`; :func:`policy` returns it for one node.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.embedding import embeddings
from gputopo.patterns.table import EmbeddingTable
from gputopo.placement.feasible import FeasibleSets, SortKeys
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo.utility.communication import (
    DEFAULT_LENGTHS,
    LevelLengths,
    communication_cost,
    gpu_distances,
    sockets,
)
from gputopo.utility.fragmentation import fragmentation_cost, used_sockets
from gputopo.utility.interference import (
    RunningNeighbour,
    SlowdownTable,
    WorkloadKind,
    beside,
    interference_costs,
)
from gputopo.utility.utility import DEFAULT_WEIGHTS, PlacementCosts, UtilityWeights, utility

_DECIMALS: Final = 9
"""Utilities that differ less are equal: the order of additions must not decide."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides the utility of a job on one node, besides its request and the free GPUs.

    Attributes:
        workload: what the job runs.
        neighbours: jobs that run on the node.
        slowdowns: slowdowns of pairs of workloads.
    """

    workload: WorkloadKind
    neighbours: tuple[RunningNeighbour, ...] = ()
    slowdowns: SlowdownTable = field(default_factory=lambda: SlowdownTable({}))
    weights: UtilityWeights = DEFAULT_WEIGHTS
    lengths: LevelLengths = DEFAULT_LENGTHS


def policy(surroundings: Surroundings) -> Callable[[FeasibleSets], SortKeys]:
    """Return the policy for a job and its surroundings on one node."""

    def keys(feasible: FeasibleSets) -> SortKeys:
        costs = costs_of_sets(feasible, surroundings)
        values = [utility(each, surroundings.weights) for each in costs]
        scores = np.round(np.array(values) * 10**_DECIMALS).astype(np.int64)
        return scores, feasible.effective_mb_per_s

    return keys


def costs_of_sets(feasible: FeasibleSets, surroundings: Surroundings) -> list[PlacementCosts]:
    """Return the costs of each feasible set, in their order.

    The best path length is that of the best set of the idle node, so two nodes can be compared only
    if they are equal.
    """
    topology, pattern = feasible.topology, feasible.request.pattern
    lengths = _path_lengths(topology, embeddings(topology, pattern), feasible, surroundings.lengths)
    best, own = int(lengths.min()), lengths[feasible.rows]
    longest = max(gpu_distances(topology, surroundings.lengths).values(), default=0)
    return [
        _costs(feasible, surroundings, GpuMask(int(mask)), (int(length), best, longest))
        for mask, length in zip(feasible.sets, own, strict=True)
    ]


def _path_lengths(
    topology: NodeTopology, table: EmbeddingTable, feasible: FeasibleSets, lengths: LevelLengths
) -> NDArray[np.int64]:
    """Return the weighted path length of each row of a table."""
    size = topology.mask.bit_length()
    distance = np.zeros((size, size), dtype=np.int64)
    for pair, value in gpu_distances(topology, lengths).items():
        distance[pair] = value
    totals = np.zeros(len(table.sets), dtype=np.int64)
    for a, b, weight in feasible.request.pattern.edges:
        totals += weight * distance[table.orders[:, a], table.orders[:, b]]
    return totals


def _costs(
    feasible: FeasibleSets,
    surroundings: Surroundings,
    gpus: GpuMask,
    path: tuple[int, int, int],
) -> PlacementCosts:
    all_sockets = sockets(feasible.topology)
    near = beside(gpus, surroundings.neighbours, all_sockets)
    interference, suffered = interference_costs(surroundings.workload, near, surroundings.slowdowns)
    used = used_sockets(gpus, feasible.free, all_sockets)
    largest = max(socket.bit_count() for socket in all_sockets)
    return PlacementCosts(
        communication_cost(feasible.request.pattern, *path),
        interference,
        suffered,
        fragmentation_cost(used, largest),
    )
