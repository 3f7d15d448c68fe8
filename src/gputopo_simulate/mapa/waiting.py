"""A rule for when a sensitive job waits for better links instead of starting at once.

In MAPA's released program such jobs wait by accident, below a bandwidth that fits one server and
one model. This rule is relative: it compares the GPU time that a job loses on the links that are
free now with the GPU time that the free GPUs lose while they are idle.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_MIN_RESIDUAL: Final = 1 / 60
"""Shortest expected residual time, in mean run times: it keeps weights finite."""


@dataclass(frozen=True, slots=True)
class WaitingRule:
    """Parameters of the rule.

    Attributes:
        theta: ratio of saved to idled GPU time above which a job waits.
        max_mean_times: longest wait, in mean run times of the jobs that have finished.
    """

    theta: float = 1.0
    max_mean_times: float = 1.65


@dataclass(frozen=True, slots=True)
class PossibleEnd:
    """A running job, and what its end would bring for the waiting job.

    Attributes:
        age: run time so far.
        slowdown: of the waiting job on the best GPUs after that end.
    """

    age: float
    slowdown: float


def should_wait(
    rule: WaitingRule,
    observed: Sequence[float],
    *,
    gpus: int,
    free: int,
    slowdown: float,
    ends: Sequence[PossibleEnd],
) -> bool:
    """Return whether a job should wait for the next end of another job.

    The residual time of a running job is the mean residual time that finished jobs had at
    the same age. The next end is each of the running jobs with a weight of one divided by
    its residual time. To wait saves ``gpus * mean time * (slowdown now - slowdown then)``,
    and leaves ``free`` GPUs idle until that end. ``observed`` has the run times of finished
    jobs, ascending; ``slowdown`` is that of the job on the GPUs that are free now.
    """
    if not observed or not ends:
        return False
    mean = sum(observed) / len(observed)
    weights = [1 / max(_MIN_RESIDUAL * mean, expected_residual(observed, end.age)) for end in ends]
    pairs = zip(weights, ends, strict=True)
    then = sum(weight * end.slowdown for weight, end in pairs) / sum(weights)
    saved = gpus * mean * (slowdown - then)
    return saved > rule.theta * free / sum(weights)


def expected_residual(observed: Sequence[float], age: float) -> float:
    """Return how much longer jobs that reached ``age`` ran on average; 0 if none did.

    >>> expected_residual([2.0, 6.0, 10.0], 4.0)
    4.0
    """
    longer = observed[bisect_right(observed, age) :]
    return sum(longer) / len(longer) - age if longer else 0.0
