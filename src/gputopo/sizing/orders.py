"""Which job should run first: the queue orders that Synergy is laid over (section 2.1).

Each is a pure key. Jobs that are equal by it go by arrival, then by id, so that an order
is total and a run repeats itself.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias


class Standing(NamedTuple):
    """How a job stands that has not ended.

    Attributes:
        arrival_s: when it came.
        attained_s: GPU-seconds it has had so far.
        remaining_s: what it has still to run at the throughput of its proportional share.
        alone_s: the whole of it at that throughput, without ever waiting; more than 0.
    """

    job: str
    arrival_s: float
    attained_s: float
    remaining_s: float
    alone_s: float


Key: TypeAlias = Callable[[Standing, float], float]
"""The least runs first. The other argument is the time now."""


def fifo(standing: Standing, now_s: float) -> float:  # noqa: ARG001 - an order like the others
    """First in, first out."""
    return standing.arrival_s


def srtf(standing: Standing, now_s: float) -> float:  # noqa: ARG001 - an order like the others
    """Shortest remaining time first."""
    return standing.remaining_s


def las(standing: Standing, now_s: float) -> float:  # noqa: ARG001 - an order like the others
    """Least attained service first, which is time by GPUs (Tiresias)."""
    return standing.attained_s


def ftf(standing: Standing, now_s: float) -> float:
    """Worst finish-time fairness first (Themis).

    That is the time it will have taken, were it to run from now on, over what it takes
    alone.
    """
    return -(now_s - standing.arrival_s + standing.remaining_s) / standing.alone_s


ORDERS: Final[Mapping[str, Key]] = MappingProxyType(
    {"fifo": fifo, "srtf": srtf, "las": las, "ftf": ftf}
)


def in_order(key: Key, standings: Iterable[Standing], now_s: float) -> list[Standing]:
    """Return the jobs by an order, the one to run first in front."""
    return sorted(standings, key=lambda each: (key(each, now_s), each.arrival_s, each.job))
