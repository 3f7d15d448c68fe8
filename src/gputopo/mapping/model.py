"""What a job requests of a cluster, the state of the nodes, and the result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gputopo.patterns.model import Pattern
from gputopo.topology.model import GpuIndex, GpuMask, NodeTopology
from gputopo.utility.communication import DEFAULT_LENGTHS, LevelLengths
from gputopo.utility.interference import RunningNeighbour, SlowdownTable, WorkloadKind
from gputopo.utility.utility import DEFAULT_WEIGHTS, PlacementCosts, UtilityWeights


class ClusterGpu(NamedTuple):
    """One GPU of one node."""

    node: str
    gpu: GpuIndex


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A node as the mapping sees it.

    Attributes:
        free: GPUs that the job can get.
        neighbours: jobs that run on the node.
        labels: labels of the workloads that run on the node.
        avoided: labels that these workloads do not accept on their node.
        memory_gb_per_s: memory bandwidth of the node that no job uses; None if unknown.
    """

    topology: NodeTopology
    free: GpuMask
    neighbours: tuple[RunningNeighbour, ...] = ()
    labels: frozenset[str] = frozenset()
    avoided: frozenset[str] = frozenset()
    memory_gb_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class MappingJob:
    """A job to be mapped.

    Attributes:
        pattern: the job graph: one rank for each GPU, weights by volume of communication.
        several_nodes: whether the job can run on several nodes.
        labels: labels of the job.
        avoid: labels of workloads that must not run on a node of the job (anti-collocation).
        memory_gb_per_s: memory bandwidth that all ranks together need; None if unknown. Ranks need
            equal parts.
    """

    pattern: Pattern
    workload: WorkloadKind
    several_nodes: bool = False
    labels: frozenset[str] = frozenset()
    avoid: frozenset[str] = frozenset()
    memory_gb_per_s: float | None = None

    @property
    def memory_gb_per_s_of_rank(self) -> float | None:
        """Memory bandwidth of one rank; None if unknown."""
        return None if self.memory_gb_per_s is None else self.memory_gb_per_s / self.pattern.size


@dataclass(frozen=True, slots=True)
class UtilitySettings:
    """Values of the installation that decide the utility of a placement."""

    weights: UtilityWeights = DEFAULT_WEIGHTS
    lengths: LevelLengths = DEFAULT_LENGTHS
    slowdowns: SlowdownTable = field(default_factory=lambda: SlowdownTable({}))


@dataclass(frozen=True, slots=True)
class JobMapping:
    """The GPUs of a job.

    Attributes:
        gpus: the GPU of each rank.
        utility: utility for the cluster, 0.01..1 (equation 2).
        job_utility: utility for the job, 0.01..1; compared with its ``minUtility``.
        exact: whether all placements were compared. If not, DRB chose the GPUs.
    """

    gpus: tuple[ClusterGpu, ...]
    costs: PlacementCosts
    utility: float
    job_utility: float
    exact: bool

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of the job, in the order of its ranks."""
        return tuple(dict.fromkeys(gpu.node for gpu in self.gpus))


@dataclass(frozen=True, slots=True)
class NoMapping:
    """Why a job fits nowhere now: the reason of each node."""

    reasons: Mapping[str, str]
