"""Combine the costs of a placement into one utility (equation 2 of the paper)."""

import re
from dataclasses import dataclass
from typing import Final

from gputopo.runtime.messages import quoted
from gputopo.utility.cost import Cost, UtilityError

_TOLERANCE: Final = 1e-9

_TERMS: Final = ("communication", "interference", "fragmentation")
_PERCENT: Final = re.compile(r"[0-9]{1,3}")

UNITS: Final = 10**9
"""A utility is compared in whole billionths: the order of additions must not decide."""


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
        for field in _TERMS:
            if not 0 <= (weight := getattr(self, field)) <= 1:
                raise UtilityError(f"weights.{field}: {weight} is not in 0..1")
        total = self.communication + self.interference + self.fragmentation
        if abs(total - 1) > _TOLERANCE:
            raise UtilityError(f"weights: their sum is {total:g}; must be 1")
        if self.communication + self.interference <= _TOLERANCE:
            raise UtilityError(
                "weights.fragmentation: 1 leaves no weight for communication and interference"
            )

    @classmethod
    def of_percents(
        cls, communication: int, interference: int, fragmentation: int
    ) -> "UtilityWeights":
        """Return weights that are given in percent.

        Raises:
            UtilityError: see the class.
        """
        return cls(communication / 100, interference / 100, fragmentation / 100)

    @classmethod
    def parse(cls, text: str) -> "UtilityWeights":
        """Parse weights in whole percent, for example ``34,33,33``; the inverse of :meth:`text`.

        Raises:
            UtilityError: on another text; see also the class.
        """
        parts = text.split(",")
        if len(parts) != len(_TERMS) or not all(_PERCENT.fullmatch(part) for part in parts):
            raise UtilityError(
                f"weights: {quoted(text)} is not written as 34,33,33: three whole percents for"
                " communication, interference and fragmentation"
            )
        communication, interference, fragmentation = map(int, parts)
        return cls.of_percents(communication, interference, fragmentation)

    @property
    def text(self) -> str:
        """The weights as :meth:`parse` takes them."""
        return ",".join(map(str, self.percents))

    @property
    def percents(self) -> tuple[int, int, int]:
        """The weights in whole percent; the inverse of :meth:`of_percents`."""
        weights = self.communication, self.interference, self.fragmentation
        first, second, third = (round(100 * weight) for weight in weights)
        return first, second, third


DEFAULT_WEIGHTS: Final = UtilityWeights()


@dataclass(frozen=True, slots=True)
class PlacementCosts:
    """The costs of one placement of one job.

    Attributes:
        communication: length of the paths between the GPUs of the job (:mod:`.communication`).
        interference: slowdowns of the job and of the jobs that it disturbs (:mod:`.interference`).
        suffered: slowdown of the job itself.
        fragmentation: free part of the sockets that the job uses (:mod:`.fragmentation`).
    """

    communication: Cost
    interference: Cost
    suffered: Cost
    fragmentation: Cost


@dataclass(frozen=True, slots=True)
class PlacementUtility:
    """The utility of one placement, and the costs from which it was computed.

    Attributes:
        value: utility for the cluster in billionths, 10^7..10^9 (:func:`utility`).
        job_value: utility for the job in billionths (:func:`job_utility`).
    """

    costs: PlacementCosts
    value: int
    job_value: int


def placement_utility(
    costs: PlacementCosts, weights: UtilityWeights = DEFAULT_WEIGHTS
) -> PlacementUtility:
    """Return the utility of a placement with these costs."""
    values = utility(costs, weights), job_utility(costs, weights)
    return PlacementUtility(costs, *(round(UNITS * value) for value in values))


def permille(value: int) -> int:
    """Return billionths as whole thousandths.

    >>> permille(870_600_000)
    871
    """
    return round(1000 * value / UNITS)


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
