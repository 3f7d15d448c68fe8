"""Optimistic profiling: the next number of CPUs to measure (Synergy, section 3.1).

A job is measured with the maximum of memory and with a few numbers of CPUs. The search is binary,
between the fewest and the most CPUs: if the upper half of the interval gains less than a tenth of
throughput, it continues in the lower half, else in the upper half. It ends at the knee of the
curve. Two more points complete the curve: the proportional share, which is the reference of the
job's minimum throughput, and the fewest CPUs.

Example: with 1 to 24 CPUs, throughput 100 at 24 and 99 at 12, the gain of the upper half is below
a tenth, so 6 CPUs are measured next.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from gputopo.sensitivity.matrix import SensitivityMatrix

MIN_GAIN: Final = 0.1
"""Gain in throughput below which an interval is not searched further (section 3.1)."""

Curve: TypeAlias = Mapping[int, float]
"""Throughput by number of CPUs, at one amount of memory."""


@dataclass(frozen=True, slots=True)
class ProfilingPlan:
    """Limits of the measurements of a job with its number of GPUs.

    Attributes:
        most_cpus: CPUs of the server.
        share_cpus: the job's proportional share of CPUs, an integer.
        memory_gb: amounts of memory to measure. It is only the largest one if the others are
            computed from it (:mod:`gputopo.sensitivity.memory_axis`).
        least_cpus: the fewest CPUs that the job can get.
    """

    most_cpus: int
    share_cpus: int
    memory_gb: tuple[float, ...]
    least_cpus: int = 1

    def __post_init__(self) -> None:
        """Raise ``ValueError`` with the field and the value if there is nothing to measure."""
        if self.least_cpus < 1:
            raise ValueError(f"least_cpus: {self.least_cpus} is not at least 1")
        if not self.least_cpus <= self.share_cpus <= self.most_cpus:
            raise ValueError(
                f"share_cpus: {self.share_cpus} is not in {self.least_cpus}..{self.most_cpus}"
            )
        if not self.memory_gb:
            raise ValueError("memory_gb: is empty")


def next_point(
    plan: ProfilingPlan, measured: Mapping[tuple[int, float], float]
) -> tuple[int, float] | None:
    """Return the next CPUs and memory to measure, or None if the profile is complete.

    ``measured`` has the throughput by CPUs and memory, of the points that were measured.
    """
    for memory_gb in sorted(plan.memory_gb, reverse=True):
        cpus = next_cpus(plan, _at(memory_gb, measured))
        if cpus is not None:
            return cpus, memory_gb
    return None


def next_cpus(plan: ProfilingPlan, curve: Curve) -> int | None:
    """Return the next number of CPUs to measure at one amount of memory, or None."""
    return next((cpus for cpus in _search(plan, curve) if cpus not in curve), None)


def interpolated(curve: Curve) -> dict[int, float]:
    """Return the throughput at every number of CPUs between the fewest and the most measured.

    Interpolation is linear. It does not overestimate a concave curve, and throughput that
    approaches a limit is concave.
    """
    counts = sorted(curve)
    result = {counts[-1]: curve[counts[-1]]} if counts else {}
    for low, high in pairwise(counts):
        slope = (curve[high] - curve[low]) / (high - low)
        result |= {cpus: curve[low] + slope * (cpus - low) for cpus in range(low, high)}
    return dict(sorted(result.items()))


def measured_matrix(gpus: int, measured: Mapping[tuple[int, float], float]) -> SensitivityMatrix:
    """Return the sensitivity matrix of a job that was measured at several amounts of memory.

    Raises:
        ValueError: if nothing was measured, or the amounts were measured with different ranges
            of CPUs.
    """
    memory_gb = sorted({amount for _, amount in measured})
    curves = [interpolated(_at(amount, measured)) for amount in memory_gb]
    cpus = list(curves[0]) if curves else []
    if any(list(curve) != cpus for curve in curves):
        raise ValueError(f"measured: different ranges of CPUs at {memory_gb} GB")
    rows = [[curve[count] for curve in curves] for count in cpus]
    return SensitivityMatrix.rising(gpus, cpus, memory_gb, rows)


def _search(plan: ProfilingPlan, curve: Curve) -> Iterable[int]:
    """Yield the numbers of CPUs to measure; ``curve`` must have a point before the next one."""
    low, high = plan.least_cpus, plan.most_cpus
    yield high
    while high - low > 1:
        middle = (low + high) // 2
        yield middle
        if curve[high] < (1 + MIN_GAIN) * curve[middle]:
            high = middle
        else:
            low = middle
    yield plan.share_cpus
    yield plan.least_cpus


def _at(memory_gb: float, measured: Mapping[tuple[int, float], float]) -> Curve:
    return {cpus: rate for (cpus, amount), rate in measured.items() if amount == memory_gb}
