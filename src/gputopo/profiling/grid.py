"""Computes the CPU limits with which a pod may be measured.

The planner (:mod:`gputopo.sensitivity.planner`) searches whole numbers, so it counts in *units* of
CPU. A unit is a round amount, at most an eighth of the container's own limit.

Example: a container has a limit of 4 CPUs, and its node has CPUs for a limit of 7. A unit is 500m.
The planner may measure 1 unit (500m) to 14 units (7 CPUs). The container's own limit is 8 units.
"""

from dataclasses import dataclass
from typing import Final

from gputopo.api.profiling import CpuAmounts
from gputopo.sensitivity.planner import ProfilingPlan

MOST_TIMES_LIMIT: Final = 2
"""The highest limit that is measured, relative to the pod's own limit."""

_UNITS_MILLI_CPU: Final = (8000, 4000, 2000, 1000, 500, 250, 200, 100, 50, 25, 20, 10)
_LEAST_UNITS: Final = 8
_MILLI_CPU_PER_GPU: Final = 1000


@dataclass(frozen=True, slots=True)
class CpuGrid:
    """The CPU limits with which one container may be measured.

    Attributes:
        original: CPUs of the container before the measurement.
        most_milli_cpu: highest CPU limit to measure; at least the original limit.
        gpus: number of GPUs of the container.
    """

    original: CpuAmounts
    most_milli_cpu: int
    gpus: int

    @property
    def unit_milli_cpu(self) -> int:
        """One unit of the planner, in thousandths of a CPU."""
        limit = self.original.limit
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
            memory_gb=(1.0,),  # memory is not varied
            least_cpus=min(max(1, least), share),
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


def most_milli_cpu(original: CpuAmounts, available_milli_cpu: int) -> int:
    """Return the highest CPU limit to measure, at least the original limit.

    It is at most ``MOST_TIMES_LIMIT`` times the original limit, and at most
    ``available_milli_cpu``, the CPUs of the node that no other pod requests.
    """
    raised = min(MOST_TIMES_LIMIT * original.limit, available_milli_cpu)
    return max(original.limit, raised)
