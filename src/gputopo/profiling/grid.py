"""Computes the CPU limits with which a pod may be measured.

The planner (:mod:`gputopo.sensitivity.planner`) searches whole numbers, so it counts in *units* of
CPU. A unit is a round amount, at most an eighth of the container's original limit. If the highest
limit to measure is more than four times the original limit, a unit is a round amount of at most
1/32 of the highest limit: each measured limit takes minutes, so there must not be too many units.

Example: the original limit is 4 CPUs, and the highest limit to measure is 7 CPUs. A unit is 500m.
The planner may measure 1 unit (500m) to 14 units (7 CPUs). The original limit is 8 units.
With an original limit of 500m and a highest limit of 24 CPUs, a unit is 500m, too: 1 to 48 units.
"""

from dataclasses import dataclass
from typing import Final

from gputopo.api.profiling import CpuAmounts
from gputopo.sensitivity.planner import ProfilingPlan

MOST_TIMES_LIMIT: Final = 2
"""The highest limit that is measured, relative to the pod's own limit or its share of the node."""

_UNITS_MILLI_CPU: Final = (8000, 4000, 2000, 1000, 500, 250, 200, 100, 50, 25, 20, 10)
_LEAST_UNITS: Final = 8
_LEAST_UNITS_WIDE: Final = 32
_MILLI_CPU_PER_GPU: Final = 1000


@dataclass(frozen=True, slots=True)
class CpuGrid:
    """The CPU limits with which one container may be measured.

    Attributes:
        original: CPUs of the container before the measurement.
        most_milli_cpu: highest CPU limit to measure; at least the original limit.
        gpus: number of GPUs of the container.
        never_lowered: if true, the original limit is the lowest limit to measure. It is the floor
            of a pod that gputopo sizes.
    """

    original: CpuAmounts
    most_milli_cpu: int
    gpus: int
    never_lowered: bool = False

    @property
    def unit_milli_cpu(self) -> int:
        """One unit of the planner, in thousandths of a CPU."""
        limit, most = self.original.limit, self.most_milli_cpu
        if most // _LEAST_UNITS_WIDE > limit // _LEAST_UNITS:
            wide = (each for each in _UNITS_MILLI_CPU if most // each >= _LEAST_UNITS_WIDE)
            return next(wide, 1)
        for unit in _UNITS_MILLI_CPU:
            if limit % unit == 0 and limit // unit >= _LEAST_UNITS:
                return unit
        return max(1, limit // _LEAST_UNITS)

    @property
    def plan(self) -> ProfilingPlan:
        """Input of the planner, in units of CPU. ``share_cpus`` is the container's original limit.

        ``least_cpus`` is the lowest limit to measure: the lesser of one CPU for each GPU and an
        eighth of the original limit. A job with fewer CPUs could be so slow that it seems to have
        failed. A request below the limit is not changed, and ``least_cpus`` is above this request.
        """
        unit, share = self.unit_milli_cpu, self._share
        least = -(-min(_MILLI_CPU_PER_GPU * self.gpus, self.original.limit // _LEAST_UNITS) // unit)
        if not self.is_guaranteed:
            least = max(least, self.original.request // unit + 1)
        return ProfilingPlan(
            most_cpus=max(share, self.most_milli_cpu // unit),
            share_cpus=share,
            least_cpus=share if self.never_lowered else min(max(1, least), share),
        )

    @property
    def is_guaranteed(self) -> bool:
        """Whether request and limit are equal, as in a pod of the QoS class Guaranteed."""
        return self.original.request == self.original.limit

    def units(self, milli_cpu: int) -> int | None:
        """Return a CPU limit in units, or None if the limit is not a whole number of units."""
        if milli_cpu == self.original.limit:
            return self._share
        units, rest = divmod(milli_cpu, self.unit_milli_cpu)
        return None if rest or units == self._share else units

    def amounts(self, units: int) -> CpuAmounts:
        """Return the request and limit of the container for a limit of ``units``.

        A resize must not change the QoS class of the pod. So a request that equals the limit
        changes with the limit. A lower request is unchanged: every limit of the grid is above it.
        """
        if units == self._share:
            return self.original
        limit = units * self.unit_milli_cpu
        return CpuAmounts(
            request=limit if self.is_guaranteed else self.original.request, limit=limit
        )

    @property
    def _share(self) -> int:
        return max(1, self.original.limit // self.unit_milli_cpu)


def most_milli_cpu(
    original: CpuAmounts, available: int, *, share: int = 0, bound: int | None = None
) -> int:
    """Return the highest CPU limit to measure, at least the original limit.

    Args:
        original: CPUs of the container before the measurement.
        available: CPUs of the node that the container can have. The result does not exceed them.
        share: share of the pod in the CPUs of its node; 0 if gputopo does not size the pod. The
            original limit of a sized pod is its floor, so twice that limit can be too low.
        bound: most CPUs that the pod may get; None if the user has not set it.
    """
    wanted = MOST_TIMES_LIMIT * max(original.limit, share) if bound is None else bound
    return max(original.limit, min(wanted, available))
