"""Combine the costs of a placement into one utility (equations 1 and 2 of the paper)."""

from dataclasses import dataclass
from typing import Final

from gputopo.utility.cost import Cost, UtilityError

_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class UtilityWeights:
    """Weights of the three terms, a value of the installation. The paper has a third for each.

    Raises:
        UtilityError: if a weight is not in 0..1, the sum is not 1, or fragmentation has all the
            weight, so that no term is left for the job.
    """

    communication: float = 1 / 3
    interference: float = 1 / 3
    fragmentation: float = 1 / 3

    def __post_init__(self) -> None:
        for field in ("communication", "interference", "fragmentation"):
            if not 0 <= (weight := getattr(self, field)) <= 1:
                raise UtilityError(f"weights.{field}: {weight} is not in 0..1")
        total = self.communication + self.interference + self.fragmentation
        if abs(total - 1) > _TOLERANCE:
            raise UtilityError(f"weights: their sum is {total:g}; must be 1")
        if self.communication + self.interference <= _TOLERANCE:
            raise UtilityError(
                "weights.fragmentation: 1 leaves no weight for communication and interference"
            )


DEFAULT_WEIGHTS: Final = UtilityWeights()


@dataclass(frozen=True, slots=True)
class PlacementCosts:
    """The costs of one placement of one job.

    Attributes:
        communication: length of the paths between the GPUs of the job (:mod:`.communication`).
        interference: mean slowdown of the job and of the jobs that it disturbs.
        suffered: slowdown of the job alone (:mod:`.interference`).
        fragmentation: free part of the sockets that the job uses (:mod:`.fragmentation`).
    """

    communication: Cost
    interference: Cost
    suffered: Cost
    fragmentation: Cost


def utility(costs: PlacementCosts, weights: UtilityWeights = DEFAULT_WEIGHTS) -> float:
    """Return the utility of a placement for the cluster (equation 2), in 0.01..1; 1 is ideal.

    The scheduler takes the placement with the highest utility.
    """
    return (
        weights.communication * costs.communication.term
        + weights.interference * costs.interference.term
        + weights.fragmentation * costs.fragmentation.term
    )


def job_utility(costs: PlacementCosts, weights: UtilityWeights = DEFAULT_WEIGHTS) -> float:
    """Return what a placement gives to the job itself, in 0.01..1; compare it with ``minUtility``.

    These are the job's communication and the slowdown that it suffers, in the proportion of their
    weights. Fragmentation and the slowdown of other jobs concern the cluster, so the owner of the
    job sets no limit for them. The released program decides in the same way.
    """
    total = weights.communication + weights.interference
    own = weights.communication * costs.communication.term
    return (own + weights.interference * costs.suffered.term) / total


def objective(costs: PlacementCosts, weights: UtilityWeights = DEFAULT_WEIGHTS) -> float:
    """Return the objective of equation 1, in 0..1; less is better. It is for reports only.

    Each cost is divided by its worst case. Unlike equation 2, the objective of an ideal placement
    is not the same for all jobs: three GPUs of two sockets are never all near each other.
    """
    return (
        weights.communication * costs.communication.part_of_worst
        + weights.interference * costs.interference.part_of_worst
        + weights.fragmentation * costs.fragmentation.part_of_worst
    )
