"""What a job requests on one node, and the result: a match, or why the job does not fit."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gputopo.patterns.model import Pattern
from gputopo.topology.model import GpuIndex
from gputopo.utility.surroundings import JobSurroundings
from gputopo.utility.utility import PlacementUtility


class PolicyName(StrEnum):
    """Name of a placement policy: the rule that chooses among the GPU sets of a node.

    MAPA describes the policies in section 4. BASELINE takes the GPUs with the lowest indices.
    TOPO_AWARE takes GPUs near each other on PCIe. GREEDY takes the GPUs with the most aggregate
    bandwidth. PRESERVE gives the best links to bandwidth-sensitive jobs and keeps other jobs off
    these links.
    UTILITY takes the GPUs with the highest utility (SC '17): near each other, with few disturbing
    neighbours, and on sockets that become full.
    WEAKEST is for measurements: it takes the GPUs with the least effective bandwidth.
    """

    BASELINE = "Baseline"
    TOPO_AWARE = "TopoAware"
    GREEDY = "Greedy"
    PRESERVE = "Preserve"
    UTILITY = "Utility"
    WEAKEST = "Weakest"


MAPA_POLICIES: Final = (
    PolicyName.BASELINE,
    PolicyName.TOPO_AWARE,
    PolicyName.GREEDY,
    PolicyName.PRESERVE,
)
"""The policies that MAPA compares."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """The GPUs that one job requests on one node.

    Attributes:
        pattern: pattern of the communication between the GPUs, with one rank for each GPU.
        sensitive: whether the job's speed depends on the bandwidth between its GPUs.
        policy: the rule that chooses one of the feasible GPU sets.
        sensitivity_reason: why ``sensitive`` is true or false. Equality ignores this field,
            because it does not change which GPUs are chosen.
        min_utility_percent: least utility for the job with which it accepts GPUs, 0..100 percent;
            None if it accepts any. Equality ignores this field, because it does not change which
            GPUs are the best.
        surroundings: what decides the utility besides the GPUs. None for all policies except
            Utility, or if no other job runs and all nodes are like the one that is evaluated.
        fact: the slowdown in a GPUProfile from which ``sensitive`` was derived, in words. None if
            no GPUProfile was used. Equality ignores this field.
        pattern_fact: the fact in a GPUProfile from which ``pattern`` was derived, in words. None if
            the pod declares its pattern, or if it is unknown. Equality ignores this field.
    """

    pattern: Pattern
    sensitive: bool
    policy: PolicyName = PolicyName.PRESERVE
    sensitivity_reason: str = field(default="", compare=False)
    fact: str | None = field(default=None, compare=False)
    pattern_fact: str | None = field(default=None, compare=False)
    min_utility_percent: int | None = field(default=None, compare=False)
    surroundings: JobSurroundings | None = None

    @property
    def size(self) -> int:
        """Number of GPUs."""
        return self.pattern.size


@dataclass(frozen=True, slots=True)
class Match:
    """The GPUs that a policy chose on a node, and their bandwidths.

    Attributes:
        gpus: the GPU of each rank in the best embedding.
        aggregate_mb_per_s: aggregate bandwidth (MAPA paper, equation 1); 0 for one GPU.
        effective_mb_per_s: effective bandwidth by ``model``; None for one GPU, which has no link.
        model: name of the bandwidth model; None for one GPU.
        common_mb_per_s: effective bandwidth by the physical model, which supports every node. Nodes
            whose ``model`` differs can be compared by this value. None for one GPU.
        preserved_mb_per_s: preserved bandwidth of the GPUs that stay free (MAPA paper, equation 3).
        bound_mb_per_s: upper bound of the aggregate bandwidth of all rank orders of these GPUs.
        utility: utility of the placement; None for all policies except Utility.
    """

    gpus: tuple[GpuIndex, ...]
    aggregate_mb_per_s: int
    effective_mb_per_s: int | None
    model: str | None
    common_mb_per_s: int | None
    preserved_mb_per_s: int
    bound_mb_per_s: int
    utility: PlacementUtility | None = None

    @property
    def exact(self) -> bool:
        """Whether it is proved that no other rank order has a higher aggregate bandwidth."""
        return self.bound_mb_per_s == self.aggregate_mb_per_s


@dataclass(frozen=True, slots=True)
class NoFit:
    """The reason why a job does not fit on a node.

    Attributes:
        permanent: true if the job would not fit even if all GPUs of the node were free.
    """

    reason: str
    permanent: bool
