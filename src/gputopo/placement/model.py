"""The request of a job for GPUs of one node, and its result: a match, or the reason for none."""

from dataclasses import dataclass, field
from enum import StrEnum

from gputopo.patterns.model import Pattern
from gputopo.topology.model import GpuIndex


class PolicyName(StrEnum):
    """Name of a placement policy: the rule that chooses among the GPU sets of a node.

    All are described in MAPA, section 4. BASELINE takes the lowest indices. TOPO_AWARE takes
    the nearest GPUs on PCIe. GREEDY takes the most aggregate bandwidth. PRESERVE gives the best
    links to sensitive jobs and keeps them free of all others.
    """

    BASELINE = "Baseline"
    TOPO_AWARE = "TopoAware"
    GREEDY = "Greedy"
    PRESERVE = "Preserve"


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """The GPUs that one job requests on one node.

    Attributes:
        pattern: of the communication between the GPUs; it has one rank for each GPU.
        sensitive: whether the job's speed depends on the bandwidth between its GPUs.
        policy: chooses one match among the feasible ones.
        sensitivity_reason: why the job counts as sensitive or not. It is no part of equality,
            because it does not change which GPUs are chosen.
    """

    pattern: Pattern
    sensitive: bool
    policy: PolicyName = PolicyName.PRESERVE
    sensitivity_reason: str = field(default="", compare=False)

    @property
    def size(self) -> int:
        """Number of GPUs."""
        return self.pattern.size


@dataclass(frozen=True, slots=True)
class Match:
    """The GPUs that a policy chose on a node, and their bandwidths.

    Attributes:
        gpus: the GPU of each rank in the best embedding.
        aggregate_mb_per_s: aggregate bandwidth (MAPA, equation 1); 0 for one GPU.
        effective_mb_per_s: effective bandwidth by ``model``; None for one GPU, which has no link.
        model: name of the bandwidth model; None for one GPU.
        common_mb_per_s: effective bandwidth by the model that supports every node, to compare
            nodes whose values are from different models; None for one GPU.
        preserved_mb_per_s: preserved bandwidth of the GPUs that stay free (MAPA, equation 3).
        bound_mb_per_s: upper bound of the aggregate of all rank orders of the same GPUs.
    """

    gpus: tuple[GpuIndex, ...]
    aggregate_mb_per_s: int
    effective_mb_per_s: int | None
    model: str | None
    common_mb_per_s: int | None
    preserved_mb_per_s: int
    bound_mb_per_s: int

    @property
    def exact(self) -> bool:
        """Whether this rank order is proved to have the highest aggregate."""
        return self.bound_mb_per_s == self.aggregate_mb_per_s


@dataclass(frozen=True, slots=True)
class NoFit:
    """The reason why a job does not fit on a node.

    Attributes:
        permanent: whether the job does not fit on the idle node either.
    """

    reason: str
    permanent: bool
