"""Repeated timings: median, 99th percentile and CPU time.

A shared machine increases times and never lowers them. The median is the usual cost. The 99th
percentile is the worst case of a caller, machine included. CPU time does not include the time
of other processes.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

_MICROSECONDS: Final = 1e6
_MILLISECONDS: Final = 1e3


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of a repeated action, in seconds.

    Attributes:
        cpu: processor time of each repetition on average.
    """

    wall: tuple[float, ...]
    cpu: float

    @property
    def median(self) -> float:
        """The middle of the wall times."""
        return median(self.wall)

    @property
    def p99(self) -> float:
        """The wall time that one repetition in a hundred exceeds; of few ones, the longest."""
        return sorted(self.wall)[min(len(self.wall) - 1, 99 * len(self.wall) // 100)]


def timed(
    action: Callable[[], object],
    *,
    times: int,
    before: Callable[[], object] | None = None,
    cpu_clock: Callable[[], float] = time.process_time,
) -> Timing:
    """Return how long ``action`` takes; ``before`` each repetition is not counted."""
    wall: list[float] = []
    cpu = 0.0
    for _ in range(times):
        if before is not None:
            before()
        cpu_began, began = cpu_clock(), time.perf_counter()
        action()
        wall.append(time.perf_counter() - began)
        cpu += cpu_clock() - cpu_began
    return Timing(tuple(wall), cpu / times)


def joined(timings: Sequence[Timing]) -> Timing:
    """Combine several timings."""
    wall = tuple(seconds for timing in timings for seconds in timing.wall)
    return Timing(wall, sum(timing.cpu * len(timing.wall) for timing in timings) / len(wall))


def microseconds(seconds: float) -> str:
    """Return a time as a cell of a table."""
    return f"{seconds * _MICROSECONDS:,.1f}"


def milliseconds(seconds: float) -> str:
    """Return a time as a cell of a table."""
    return f"{seconds * _MILLISECONDS:,.2f}"
