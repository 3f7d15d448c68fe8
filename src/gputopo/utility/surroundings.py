"""What decides the utility of a job on one node, besides its request and the free GPUs.

All values are whole numbers or come from the installation. So a decision can be recorded and
repeated exactly.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gputopo.topology.keys import FingerprintKey
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo.utility.cost import CostScale
from gputopo.utility.interference import (
    NeighbourSlowdown,
    RunningNeighbour,
    SlowdownSource,
    SlowdownTable,
    WorkloadKind,
    to_percent,
)
from gputopo.utility.utility import UtilityWeights

INSTALLATION_WEIGHTS: Final = UtilityWeights.of_percents(34, 33, 33)
"""Weights of an installation that sets none: about a third each, in whole percent."""


@dataclass(frozen=True, slots=True)
class PairSlowdown:
    """How much longer one workload runs beside another, in whole percent, and how this is known."""

    percent: int
    source: SlowdownSource

    @classmethod
    def of(cls, slowdown: NeighbourSlowdown) -> "PairSlowdown":
        """Return a slowdown of a table, rounded to whole percent.

        >>> PairSlowdown.of(NeighbourSlowdown(1.24, SlowdownSource.GROUP)).percent
        24
        """
        return cls(to_percent(slowdown.value), slowdown.source)


@dataclass(frozen=True, slots=True)
class NodeNeighbour:
    """A job that runs on the node.

    Attributes:
        workload: name of what it runs, ``NAMESPACE/PROFILE``; empty if no slowdown of it is known.
        gpus: its GPUs on the node, or all GPUs of the sockets that it uses.
        suffered: how much it slows the placed job down if both use a socket.
        caused: how much the placed job slows it down if both use a socket.
        far: the same two in percent if they use different sockets; None if this was not measured.
    """

    workload: str
    gpus: GpuMask
    suffered: PairSlowdown
    caused: PairSlowdown
    far: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of one job on one node; equal surroundings give an equal utility.

    Attributes:
        scale: best and worst cases of the job in the cluster.
        neighbours: jobs that run on the node.
        worst_percent: highest slowdown of all known pairs of workloads, in percent. It is the worst
            case of the interference.
        weights: weights of the installation.
    """

    scale: CostScale
    neighbours: tuple[NodeNeighbour, ...] = ()
    worst_percent: int = 0
    weights: UtilityWeights = INSTALLATION_WEIGHTS


@dataclass(frozen=True, slots=True)
class JobSurroundings:
    """The part of the surroundings that is the same for all nodes of the cluster.

    Attributes:
        workload: what the job runs.
        slowdowns: known slowdowns, at least all that the job suffers or causes.
        kinds: a topology of each kind of node in the cluster, sorted by fingerprint.
        weights: weights of the installation.
    """

    workload: WorkloadKind
    slowdowns: SlowdownTable
    kinds: tuple[FingerprintKey, ...]
    weights: UtilityWeights = INSTALLATION_WEIGHTS
    # Thousands of nodes have only some hundred different neighbours.
    _known: dict[RunningNeighbour, NodeNeighbour] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def on_node(self, scale: CostScale, running: Iterable[RunningNeighbour]) -> Surroundings:
        """Return the surroundings on a node with these running jobs."""
        neighbours = tuple(map(self._neighbour, running))
        return Surroundings(scale, neighbours, to_percent(self.slowdowns.worst), self.weights)

    def _neighbour(self, running: RunningNeighbour) -> NodeNeighbour:
        found = self._known.get(running)
        if found is None:
            own, other, table = self.workload, running.workload, self.slowdowns
            found = self._known[running] = NodeNeighbour(
                other.name,
                running.gpus,
                suffered=PairSlowdown.of(table.slowdown(own, other)),
                caused=PairSlowdown.of(table.slowdown(other, own)),
                far=self._far(other),
            )
        return found

    def _far(self, other: WorkloadKind) -> tuple[int, int] | None:
        own, slowdown = self.workload, self.slowdowns.slowdown_on_node
        both = [PairSlowdown.of(slowdown(own, other)), PairSlowdown.of(slowdown(other, own))]
        if all(each.source is SlowdownSource.UNKNOWN for each in both):
            return None
        return both[0].percent, both[1].percent


def job_surroundings(
    workload: WorkloadKind,
    slowdowns: SlowdownTable,
    topologies: Iterable[NodeTopology],
    weights: UtilityWeights = INSTALLATION_WEIGHTS,
) -> JobSurroundings:
    """Return the surroundings of a job in a cluster with these nodes."""
    kinds = {topology.fingerprint: topology for topology in topologies}
    keys = tuple(FingerprintKey(kinds[fingerprint]) for fingerprint in sorted(kinds))
    return JobSurroundings(workload, slowdowns, keys, weights)
