"""Optimistic profiling: the next number of CPUs to measure (Synergy paper, section 3.1).

A job is measured with the maximum of memory and with a few numbers of CPUs. A binary search between
the fewest and the most CPUs chooses these numbers. If throughput rises by less than 10 % over the
upper half of the interval, the search continues in the lower half. If throughput rises by 10 % or
more, the search continues in the upper half. So the search finds the number of CPUs above which
throughput hardly rises. Two more numbers of CPUs are measured: the fewest, and the proportional
share of the job. For example, the share of a job with 2 of the 8 GPUs of a server is 2/8 of the
CPUs. :mod:`gputopo.sizing` guarantees the throughput with this share.

Example: throughput is 100 with 24 CPUs and 99 with 12 CPUs. The gain from 12 to 24 is below 10 %,
so 6 CPUs are measured next.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

MIN_GAIN: Final = 0.1
"""Least gain in throughput for which the search continues at more CPUs (section 3.1)."""

Curve: TypeAlias = Mapping[int, float]
"""Throughput by number of CPUs, at one amount of memory."""


@dataclass(frozen=True, slots=True)
class ProfilingPlan:
    """The CPUs with which one job is measured.

    Attributes:
        most_cpus: CPUs of the server.
        share_cpus: proportional share of the job: 2/8 of ``most_cpus`` for 2 of 8 GPUs.
        least_cpus: the fewest CPUs that the job can get.
    """

    most_cpus: int
    share_cpus: int
    least_cpus: int = 1

    def __post_init__(self) -> None:
        """Raise ``ValueError`` if a number of CPUs is out of range."""
        if self.least_cpus < 1:
            raise ValueError(f"least_cpus: {self.least_cpus} is not at least 1")
        if not self.least_cpus <= self.share_cpus <= self.most_cpus:
            raise ValueError(
                f"share_cpus: {self.share_cpus} is not in {self.least_cpus}..{self.most_cpus}"
            )


def next_cpus(plan: ProfilingPlan, curve: Curve) -> int | None:
    """Return the number of CPUs to measure next, or None if no further number is needed."""
    return next((cpus for cpus in _search(plan, curve) if cpus not in curve), None)


def interpolated(curve: Curve) -> dict[int, float]:
    """Return the throughput at every number of CPUs from the fewest to the most measured CPUs.

    The interpolation is linear. If the true curve becomes flatter with more CPUs, the result is
    never too high.
    """
    counts = sorted(curve)
    result = {counts[-1]: curve[counts[-1]]} if counts else {}
    for low, high in pairwise(counts):
        slope = (curve[high] - curve[low]) / (high - low)
        result |= {cpus: curve[low] + slope * (cpus - low) for cpus in range(low, high)}
    return dict(sorted(result.items()))


def _search(plan: ProfilingPlan, curve: Curve) -> Iterable[int]:
    """Yield the numbers of CPUs to measure. The caller adds each result to ``curve``.

    A throughput of 0 is one that could not be measured, so it is no gain.
    """
    low, high = plan.least_cpus, plan.most_cpus
    yield high
    while high - low > 1:
        middle = (low + high) // 2
        yield middle
        if not curve[high] or curve[high] < (1 + MIN_GAIN) * curve[middle]:
            high = middle
        else:
            low = middle
    yield plan.share_cpus
    yield plan.least_cpus
