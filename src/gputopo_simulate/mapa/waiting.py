"""When a sensitive job had better wait for better links than take what is free.

MAPA's released program lets such jobs wait by accident, below a fixed bandwidth that suits one
server and one model. This rule is relative: it lays what a job would lose on the links it is
offered against what the free GPUs would lose by standing still.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_SHORTEST_RESIDUAL: Final = 1 / 60
"""Of the mean time of a job: nothing is expected to end sooner, so that no weight is infinite."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How patient a job is.

    Attributes:
        theta: how much more GPU time must be saved than is idled; more is less patient.
        most_mean_times: longest wait, in mean times of the jobs that have ended.
    """

    theta: float = 1.0
    most_mean_times: float = 1.65


@dataclass(frozen=True, slots=True)
class Ending:
    """A running job: how long it has run, and what the waiting one would have after its end.

    Attributes:
        slowdown: of the waiting job on the best GPUs then.
    """

    age: float
    slowdown: float


def pays(
    waiting: Waiting,
    observed: Sequence[float],
    *,
    gpus: int,
    free: int,
    slowdown: float,
    endings: Sequence[Ending],
) -> bool:
    """Return whether a job should wait for the next end of another.

    A running job is expected to go on for as long as the jobs that ended later than its age
    went on after it. The next to end is each of them with a weight of one over that time;
    then waiting saves ``gpus * mean time * (slowdown now - slowdown then)`` and idles the free
    GPUs until that end.

    Args:
        waiting: the rule.
        observed: times of the jobs that have ended, ascending.
        gpus: of the waiting job.
        free: GPUs that would idle.
        slowdown: of the job on the GPUs that it is offered.
        endings: the jobs that run.
    """
    if not observed or not endings:
        return False
    mean = sum(observed) / len(observed)
    weights = [
        1 / max(_SHORTEST_RESIDUAL * mean, expected_residual(observed, ending.age))
        for ending in endings
    ]
    pairs = zip(weights, endings, strict=True)
    then = sum(weight * ending.slowdown for weight, ending in pairs) / sum(weights)
    saved = gpus * mean * (slowdown - then)
    return saved > waiting.theta * free / sum(weights)


def expected_residual(observed: Sequence[float], age: float) -> float:
    """Return how much longer the jobs that outlasted ``age`` ran on average; 0 if none did.

    >>> expected_residual([2.0, 6.0, 10.0], 4.0)
    4.0
    """
    longer = observed[bisect_right(observed, age) :]
    return sum(longer) / len(longer) - age if longer else 0.0
