"""The input and the result of a decision to wait. Times are in Unix seconds.

The value of a placement is in per mille of an ideal placement: its utility, or its bandwidth
divided by the best bandwidth on idle GPUs (:func:`relative_permille`). So all policies can wait in
the same way.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

IDEAL_PERMILLE: Final = 1000
"""Value of an ideal placement."""


@dataclass(frozen=True, slots=True)
class WaitTerms:
    """What a pod waits for, and how long at most.

    The longest wait begins with the creation of the pod, which never changes. So all replicas of
    the extender derive the same end of the wait, also after restarts.

    Attributes:
        minimum_permille: lowest value that the pod accepts before its longest wait is over.
        created: creation of the pod; None if it is unknown. Such a pod never waits.
        max_wait_seconds: 0 if the pod never waits.
    """

    minimum_permille: int
    created: float | None
    max_wait_seconds: int

    @property
    def until(self) -> float | None:
        """When the longest wait ends; None if the pod never waits."""
        if self.created is None or self.max_wait_seconds == 0:
            return None
        return self.created + self.max_wait_seconds


@dataclass(frozen=True, slots=True)
class Outlook:
    """The values of the best placement for a pod.

    Attributes:
        now_permille: value of the best placement now.
        then_permille: value of the best placement if all other pods on the same nodes had ended;
            never below ``now_permille``.
    """

    now_permille: int
    then_permille: int


class WaitVerdict(StrEnum):
    """The decision about a pod.

    WAITS: the pod waits. REACHED: the best placement now is good enough. EXPIRED: the longest wait
    is over, so the pod takes the best placement now.
    """

    WAITS = "waits"
    REACHED = "reached"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class WaitDecision:
    """Whether a pod waits.

    Attributes:
        target_permille: lowest value of a placement that the pod accepts now; 0 if it accepts any.
    """

    verdict: WaitVerdict
    target_permille: int


def relative_permille(value: float, best: float) -> int:
    """Return a value in per mille of the best value, rounded down; 1000 if the best is 0.

    >>> relative_permille(12_500, 50_000), relative_permille(0, 0)
    (250, 1000)
    """
    if best <= 0:
        return IDEAL_PERMILLE
    return min(IDEAL_PERMILLE, int(IDEAL_PERMILLE * value // best))
