"""Load of a container in one training step, from the mean loads of its GPUs.

A load is a mean over time, in which idle time counts as 0. So load times the time of one step is
the time integral over one step: C for the occupancy, M for the DRAM.

Example: a mean occupancy of 0.4 and 250 ms for a step give C = 100 ms of full occupancy.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from gputopo.counters.model import GpuCounters, Load, LoadReading, LoadSource
from gputopo.topology.model import GpuIndex

LEAST_COVERED: Final = 0.25
"""Share of the time for which the load of each GPU has to be known."""

MAX_SECONDS: Final = 120.0
"""A mean over a longer time is not used; DCGM's exporter has 30 s."""


@dataclass(slots=True)
class _Integral:
    """Time integrals of the load of one GPU, in seconds; ``dram`` is None if a value is unknown."""

    seconds: float = 0.0
    occupancy: float = 0.0
    dram: float | None = 0.0

    def add(self, reading: LoadReading, seconds: float) -> None:
        self.seconds += seconds
        self.occupancy += reading.occupancy * seconds
        if self.dram is not None:
            self.dram = None if reading.dram is None else self.dram + reading.dram * seconds


class LoadCollector:
    """Collects the load of a container between two samples.

    There is no result if another container used one of the GPUs at any time between them, because
    the counters do not show which process causes the load.
    """

    def __init__(self, gpus: Collection[GpuIndex]) -> None:
        self._gpus: Final = gpus
        self._until_us: Final[dict[GpuIndex, int]] = {}
        self._integrals: Final[dict[tuple[LoadSource, GpuIndex], _Integral]] = {}
        self._alone = True

    def add(self, readings: Mapping[GpuIndex, GpuCounters], *, alone: bool) -> None:
        """Add what was read at one time; ``alone`` says whether no other container is there."""
        self._alone = self._alone and alone
        for gpu in self._gpus:
            reading = readings[gpu].load if gpu in readings else None
            if reading is not None and _is_plausible(reading):
                self._integrate(gpu, reading)

    def take(self, seconds: float, steps: float) -> Load | None:
        """Return the load per step, and begin again.

        Args:
            seconds: time with steps since the last call.
            steps: number of steps in this time.
        """
        integrals, alone = dict(self._integrals), self._alone
        self._integrals.clear()
        self._alone = True
        if not alone or not steps:
            return None
        for source in LoadSource:  # the best one first
            found = [integrals.get((source, gpu), _Integral()) for gpu in self._gpus]
            if all(each.seconds >= LEAST_COVERED * seconds for each in found):
                return _load(source, found, seconds / steps)
        return None

    def _integrate(self, gpu: GpuIndex, reading: LoadReading) -> None:
        until_us = self._until_us.get(gpu)
        self._until_us[gpu] = reading.to_us
        # The first interval of a GPU may have begun in another environment; the same value may be
        # read twice.
        if until_us is not None and reading.to_us > until_us:
            seconds = (reading.to_us - max(reading.from_us, until_us)) / 1e6
            self._integrals.setdefault((reading.source, gpu), _Integral()).add(reading, seconds)


def _is_plausible(reading: LoadReading) -> bool:
    """Return whether the shares are from 0 to 1 (NaN is not) and the interval is usable."""
    shares = (reading.occupancy, 0.0 if reading.dram is None else reading.dram)
    seconds = (reading.to_us - reading.from_us) / 1e6
    return all(0 <= share <= 1 for share in shares) and 0 < seconds <= MAX_SECONDS


def _load(source: LoadSource, integrals: list[_Integral], step_seconds: float) -> Load:
    occupancy = fmean(each.occupancy / each.seconds for each in integrals)
    shares = [each.dram / each.seconds for each in integrals if each.dram is not None]
    return Load(
        source,
        round(1e6 * step_seconds * occupancy),
        round(1e6 * step_seconds * fmean(shares)) if len(shares) == len(integrals) else None,
    )
