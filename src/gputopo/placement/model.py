"""What is asked of a node, and what it answers."""

from dataclasses import dataclass

from gputopo.patterns.model import Pattern
from gputopo.topology.model import GpuIndex


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """One job's need: its pattern (whose size is its GPUs) and whether links matter to it."""

    pattern: Pattern
    sensitive: bool


@dataclass(frozen=True, slots=True)
class Match:
    """The GPUs that a policy chose on a node, and what they are worth.

    Attributes:
        gpus: in rank order of the best embedding.
        aggregate_mb_per_s: MAPA, equation 1; 0 for one GPU.
        effective_mb_per_s: by ``model``; None for one GPU, which has no link.
        model: name of the bandwidth model; None for one GPU.
        common_mb_per_s: effective bandwidth by the model that is valid on every node, so
            that nodes compare whose values are of different models; None for one GPU.
        preserved_mb_per_s: MAPA, equation 3, of the GPUs left free.
        bound_mb_per_s: no rank order of the same GPUs has a higher aggregate.
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
        """Whether this rank order is proved to be the best of these GPUs."""
        return self.bound_mb_per_s == self.aggregate_mb_per_s


@dataclass(frozen=True, slots=True)
class NoFit:
    """Why no GPUs of this node will do.

    Attributes:
        permanent: the job would not fit on the idle node either.
    """

    reason: str
    permanent: bool
