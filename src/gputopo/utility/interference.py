"""How much neighbours slow a job down, and the job its neighbours (equation 4 of the paper).

Equation 4 divides the time alone by the time beside others, so it falls when jobs are slower. As a
cost it must rise. So a slowdown here is the time beside a neighbour divided by the time alone; it
is 1 or more.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from gputopo.topology.model import GpuMask
from gputopo.utility.cost import Cost, UtilityError


class SlowdownSource(StrEnum):
    """Where a slowdown comes from.

    MEASURED: this workload was measured beside this neighbour.
    GROUP: the mean over the measured pairs of the same two groups of workloads.
    ALL: the mean over all measured pairs, because no pair of these groups was measured.
    UNKNOWN: nothing was measured; the slowdown is 1.
    """

    MEASURED = "Measured"
    GROUP = "Group"
    ALL = "All"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """What a job runs. Jobs with equal names behave equally.

    Attributes:
        group: workloads that behave similarly, such as all with a small batch; empty if unknown.
    """

    name: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class NeighbourSlowdown:
    """Slowdown of one workload beside another, 1 or more, and its source."""

    value: float
    source: SlowdownSource


class SlowdownTable:
    """Slowdowns of pairs of workloads.

    Attributes:
        worst: highest slowdown in the table, at least 1: the worst case of every job.
    """

    def __init__(self, measured: Mapping[tuple[WorkloadKind, WorkloadKind], float]) -> None:
        """Take the slowdown of the first workload of each pair beside the second.

        A value below 1 is an error of measurement, and counts as 1.

        Raises:
            UtilityError: if a value is not a positive number.
        """
        groups: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._measured: dict[tuple[str, str], float] = {}
        for (own, neighbour), value in measured.items():
            if not 0 < value < float("inf"):
                raise UtilityError(
                    f"slowdown of {own.name!r} beside {neighbour.name!r}: {value}; must be a"
                    " number above 0"
                )
            slowdown = self._measured[own.name, neighbour.name] = max(1.0, value)
            if own.group and neighbour.group:
                groups[own.group, neighbour.group].append(slowdown)
        self._by_group = {pair: fmean(values) for pair, values in groups.items()}
        values = self._measured.values()
        self._mean = fmean(values) if values else None
        self.worst = max(values, default=1.0)

    def slowdown(self, own: WorkloadKind, neighbour: WorkloadKind) -> NeighbourSlowdown:
        """Return the slowdown of ``own`` beside ``neighbour``."""
        if (own.name, neighbour.name) in self._measured:
            value = self._measured[own.name, neighbour.name]
            return NeighbourSlowdown(value, SlowdownSource.MEASURED)
        if (own.group, neighbour.group) in self._by_group:
            value = self._by_group[own.group, neighbour.group]
            return NeighbourSlowdown(value, SlowdownSource.GROUP)
        if self._mean is not None:
            return NeighbourSlowdown(self._mean, SlowdownSource.ALL)
        return NeighbourSlowdown(1.0, SlowdownSource.UNKNOWN)


@dataclass(frozen=True, slots=True)
class RunningNeighbour:
    """A job that already runs on a node, and its GPUs there."""

    workload: WorkloadKind
    gpus: GpuMask


def beside(
    gpus: GpuMask, neighbours: Iterable[RunningNeighbour], sockets: Sequence[GpuMask]
) -> tuple[WorkloadKind, ...]:
    """Return the workloads of the neighbours that share a socket with ``gpus``."""
    near = 0
    for socket in sockets:
        if socket & gpus:
            near |= socket
    return tuple(neighbour.workload for neighbour in neighbours if neighbour.gpus & near)


def interference_costs(
    own: WorkloadKind, neighbours: Sequence[WorkloadKind], table: SlowdownTable
) -> tuple[Cost, Cost]:
    """Return the interference of a placement, and the part that the job itself suffers.

    The first is equation 4: the mean slowdown of the job and of all neighbours that it disturbs.
    Only pairs are measured, so the slowdown beside several neighbours is that of the worst pair.
    """
    suffered = max((table.slowdown(own, other).value for other in neighbours), default=1.0)
    caused = [table.slowdown(other, own).value for other in neighbours]
    mean = (suffered + sum(caused)) / (1 + len(caused))
    worst = table.worst
    return Cost(mean, best=1.0, worst=worst), Cost(suffered, best=1.0, worst=worst)
