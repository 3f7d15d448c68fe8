"""Optimistic profiling: which CPU count to measure next (Synergy, section 3.1).

A job is timed with all the memory there is, and with few of the CPU counts. From the most
CPUs on, the interval in question is halved: where its upper half brings less than a tenth,
the search goes on below, else above. That ends at the knee of the curve. Two more points
make the curve whole: the proportional share, by which the job's promise is measured, and
the least CPUs, since what a job loses with fewer is as much part of its sensitivity.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from gputopo.sensitivity.matrix import SensitivityMatrix

WORTH_MORE_CPUS: Final = 0.1
"""Gain in throughput below which CPUs are not worth a closer look (section 3.1)."""

Curve: TypeAlias = Mapping[int, float]
"""Throughput by CPU count, at one amount of memory."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What there is to find out about a job at its GPU count.

    Attributes:
        most_cpus: CPUs of the server.
        share_cpus: whole CPUs of the job's proportional share.
        memory_gb: the amounts to measure with. The most alone, where the others follow from
            it (:mod:`gputopo.sensitivity.memory_axis`).
        least_cpus: the fewest that the job may be given.
    """

    most_cpus: int
    share_cpus: int
    memory_gb: tuple[float, ...]
    least_cpus: int = 1

    def __post_init__(self) -> None:
        """Refuse what leaves nothing to measure.

        Raises:
            ValueError: naming the field and the value.
        """
        if self.least_cpus < 1:
            raise ValueError(f"least_cpus: {self.least_cpus} is not at least 1")
        if not self.least_cpus <= self.share_cpus <= self.most_cpus:
            raise ValueError(
                f"share_cpus: {self.share_cpus} is not in {self.least_cpus}..{self.most_cpus}"
            )
        if not self.memory_gb:
            raise ValueError("memory_gb: no amount at all")


def next_point(plan: Plan, measured: Mapping[tuple[int, float], float]) -> tuple[int, float] | None:
    """Return the CPUs and the memory to measure with next, or None when enough is known.

    Args:
        plan: what there is to find out.
        measured: throughput by CPUs and memory, as far as it was measured.
    """
    for memory_gb in sorted(plan.memory_gb, reverse=True):
        cpus = next_cpus(plan, _at(memory_gb, measured))
        if cpus is not None:
            return cpus, memory_gb
    return None


def next_cpus(plan: Plan, curve: Curve) -> int | None:
    """Return the CPU count to measure next at one amount of memory, or None when done."""
    return next((cpus for cpus in _search(plan, curve) if cpus not in curve), None)


def interpolated(curve: Curve) -> dict[int, float]:
    """Return the throughput at every CPU count between the least and the most measured.

    It is a straight line between two that were, which is not too much where a curve bends
    down, as they do that run into a limit.
    """
    counts = sorted(curve)
    whole = {counts[-1]: curve[counts[-1]]} if counts else {}
    for low, high in pairwise(counts):
        slope = (curve[high] - curve[low]) / (high - low)
        whole |= {cpus: curve[low] + slope * (cpus - low) for cpus in range(low, high)}
    return dict(sorted(whole.items()))


def measured_matrix(gpus: int, measured: Mapping[tuple[int, float], float]) -> SensitivityMatrix:
    """Return the matrix of a job that was measured at several amounts of memory.

    Raises:
        ValueError: nothing was measured, or the amounts were measured to different CPU counts.
    """
    memory_gb = sorted({amount for _, amount in measured})
    curves = [interpolated(_at(amount, measured)) for amount in memory_gb]
    cpus = list(curves[0]) if curves else []
    if any(list(curve) != cpus for curve in curves):
        raise ValueError(f"measured: not from the same to the same CPUs at all of {memory_gb} GB")
    rows = [[curve[count] for curve in curves] for count in cpus]
    return SensitivityMatrix.rising(gpus, cpus, memory_gb, rows)


def _search(plan: Plan, curve: Curve) -> Iterable[int]:
    """Yield what is to be measured; what comes later depends on what came before."""
    low, high = plan.least_cpus, plan.most_cpus
    yield high
    while high - low > 1:
        middle = (low + high) // 2
        yield middle
        if curve[high] < (1 + WORTH_MORE_CPUS) * curve[middle]:
            high = middle
        else:
            low = middle
    yield plan.share_cpus
    yield plan.least_cpus


def _at(memory_gb: float, measured: Mapping[tuple[int, float], float]) -> Curve:
    return {cpus: rate for (cpus, amount), rate in measured.items() if amount == memory_gb}
