"""Costs of a placement, each with its best and worst case, and their normalisation."""

import math
from dataclasses import dataclass
from typing import Final

from gputopo.errors import InvalidInputError

FLOOR: Final = 0.01
"""Term of the worst case. The released program has the same limit (``min_cost``)."""


class UtilityError(InvalidInputError):
    """A value for the utility is invalid; the message names the field and the value."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One cost of a placement; less is better. All three values have the same unit.

    Attributes:
        value: cost of this placement.
        best: least possible cost of this job on idle hardware.
        worst: highest cost that the job can have.

    Raises:
        UtilityError: if a value is negative or infinite, or ``worst`` is below ``best``.
    """

    value: float
    best: float
    worst: float

    def __post_init__(self) -> None:
        for field in ("value", "best", "worst"):
            if not 0 <= (number := getattr(self, field)) < math.inf:
                raise UtilityError(f"cost.{field}: {number}; must be a finite number of at least 0")
        if self.worst < self.best:
            raise UtilityError(f"cost.worst: {self.worst} is below the best case {self.best}")

    @property
    def term(self) -> float:
        """The term of equation 2, in 0.01..1: 1 in the best case, 0.01 in the worst case.

        In the paper the terms are reciprocals of the costs, which are infinite for a job of one GPU
        (no path) and for full sockets (no free GPU). So the term falls in a straight line between
        the two cases. A value outside best..worst has the term of the nearest case.

        >>> Cost(value=1.5, best=1.0, worst=2.0).term
        0.505
        """
        if self.worst == self.best:
            return 1.0
        share = (self.value - self.best) / (self.worst - self.best)
        return 1 - (1 - FLOOR) * min(1.0, max(0.0, share))


@dataclass(frozen=True, slots=True)
class CostScale:
    """Best and worst cases of one job in one cluster, equal for all of its placements.

    Attributes:
        best_length: least weighted path length on the idle cluster, or a lower bound of it.
        longest: longest distance that two GPUs of the job can have.
        largest_socket: GPUs of the socket with most GPUs.
    """

    best_length: int
    longest: int
    largest_socket: int
