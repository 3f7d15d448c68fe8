"""Predicts speeds from the loads of the jobs alone: each resource of a GPU is divided evenly.

A job that is alone uses a share of the occupancy and of the DRAM: its load in one step, divided by
the time of the step. The thesis sums C itself. But C grows with the length of a step, so a job with
long steps looks heavier than it is; the share does not depend on the length.

If the shares of all jobs fit into the capacity of the GPU, no job is slower. Otherwise all jobs
slow down by the factor by which the sum exceeds the capacity.

Example: shares of the occupancy of 0.3, 0.3 and 0.4 with a capacity of 0.5 give the speed
0.5 / 1.0 = 0.5 for each job, and the summed speed 1.5.

The achieved occupancy is a weak measure of what a kernel needs (arXiv 2501.16909). So the capacity
is calibrated for each GPU model, and without a calibration nothing is predicted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from gputopo.sharing.model import SharingError, SharingWorkload

FULL_DRAM: Final = 1.0
"""Capacity of the DRAM: the share of time with transfers cannot exceed 1."""

_MICRO: Final = 1e-6


class LoadShare(NamedTuple):
    """Share of the occupancy and of the DRAM activity of a GPU over time, 0 to 1."""

    occupancy: float
    dram: float


@dataclass(frozen=True, slots=True)
class LoadCapacity:
    """What the jobs of one GPU of this model can use together without slowing down.

    Attributes:
        occupancy: sum of the shares of the occupancy.
        dram: sum of the shares of the DRAM activity.
    """

    occupancy: float
    dram: float = FULL_DRAM

    def __post_init__(self) -> None:
        for field, value in (("occupancy", self.occupancy), ("dram", self.dram)):
            if not 0 < value < inf:
                raise SharingError(f"{field} capacity: {value}; must be above 0")

    def speed(self, shares: Sequence[LoadShare]) -> float:
        """Return the normalised speed of jobs with these shares on one GPU.

        A job can need more than the capacity alone. Its speed is relative to its speed alone.
        """
        occupancy = sum(share.occupancy for share in shares) / self._most(shares, 0)
        dram = sum(share.dram for share in shares) / self._most(shares, 1)
        return 1 / max(1.0, occupancy, dram)

    def _most(self, shares: Sequence[LoadShare], resource: int) -> float:
        """Return the capacity, or what one of the jobs uses alone if this is more."""
        capacity = (self.occupancy, self.dram)[resource]
        return max(capacity, *(share[resource] for share in shares))


def load_share(workload: SharingWorkload) -> LoadShare | None:
    """Return the share of a GPU that a workload uses alone; None if load or rate is unknown.

    An unknown DRAM activity counts as 0.
    """
    load, rate = workload.load, workload.steps_per_second
    if load is None or rate is None:
        return None
    occupancy, dram = load.occupancy_us, load.dram_us or 0.0
    return LoadShare(min(1.0, occupancy * rate * _MICRO), min(1.0, dram * rate * _MICRO))
