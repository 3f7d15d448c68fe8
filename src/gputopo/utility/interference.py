"""How much neighbours slow a job down, and the job its neighbours (equation 4 of the paper).

Equation 4 divides the time alone by the time beside others, so it falls when jobs are slower. As a
cost it must rise. So a slowdown here is the time beside a neighbour divided by the time alone; it
is 1 or more.

Equation 4 is the mean over the job and its neighbours. It is not used beside several neighbours,
because the jobs in the mean differ between placements: beside one neighbour that slows the job down
by 30 % the mean is 15 %, beside three such neighbours it would be 7.5 %, and the noisier socket
would win. So the slowdowns are added here, which never falls with another neighbour
(:func:`interference_costs`).
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from statistics import fmean, median
from types import MappingProxyType
from typing import Final, TypeAlias

from gputopo.topology.model import GpuMask
from gputopo.utility.communication import sockets_of
from gputopo.utility.cost import Cost, UtilityError


class SlowdownSource(StrEnum):
    """Where a slowdown comes from.

    MEASURED: this workload was measured beside this neighbour.
    GROUP: the mean over the measured pairs of the same two groups of workloads.
    ALL: the median over all measured pairs, because no pair of these groups was measured. One
        extreme pair must not decide for all unknown workloads.
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


Pair: TypeAlias = tuple[WorkloadKind, WorkloadKind]
"""A workload, and its neighbour."""

_NO_SLOWDOWNS: Final[Mapping[Pair, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NeighbourSlowdown:
    """Slowdown of one workload beside another, 1 or more, and its source."""

    value: float
    source: SlowdownSource


class SlowdownTable(Hashable):
    """Slowdowns of pairs of workloads. Tables with equal slowdowns are equal.

    Attributes:
        worst: highest slowdown in the table, at least 1: the worst case of every job.
    """

    def __init__(
        self,
        measured: Mapping[Pair, float],
        on_node: Mapping[Pair, float] = _NO_SLOWDOWNS,
        *,
        worst_pair_decides: bool = False,
    ) -> None:
        """Take the slowdown of the first workload of each pair beside the second.

        A value below 1 is an error of measurement, and counts as 1.

        Args:
            measured: slowdowns beside a neighbour on the same socket.
            on_node: slowdowns beside a neighbour that uses only other sockets of the node.
            worst_pair_decides: whether a job beside several neighbours is slowed down only by the
                worst of them; if not, the slowdowns of the pairs are multiplied.

        Raises:
            UtilityError: if a value is not a positive number.
        """
        groups: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._measured: dict[tuple[str, str], float] = {}
        for (own, neighbour), value in measured.items():
            slowdown = _valid(own, neighbour, value)
            self._measured[own.name, neighbour.name] = slowdown
            if own.group and neighbour.group:
                groups[own.group, neighbour.group].append(slowdown)
        self._by_group = {pair: fmean(values) for pair, values in groups.items()}
        self._median = median(self._measured.values()) if self._measured else None
        self._on_node = {
            (own.name, neighbour.name): _valid(own, neighbour, value)
            for (own, neighbour), value in on_node.items()
        }
        self.worst = max((*self._measured.values(), *self._on_node.values()), default=1.0)
        self._worst_pair_decides = worst_pair_decides

    def slowdown(self, own: WorkloadKind, neighbour: WorkloadKind) -> NeighbourSlowdown:
        """Return the slowdown of ``own`` beside ``neighbour``."""
        if (own.name, neighbour.name) in self._measured:
            value = self._measured[own.name, neighbour.name]
            return NeighbourSlowdown(value, SlowdownSource.MEASURED)
        if (own.group, neighbour.group) in self._by_group:
            value = self._by_group[own.group, neighbour.group]
            return NeighbourSlowdown(value, SlowdownSource.GROUP)
        if self._median is not None:
            return NeighbourSlowdown(self._median, SlowdownSource.ALL)
        return NeighbourSlowdown(1.0, SlowdownSource.UNKNOWN)

    def of_job(self, own: WorkloadKind) -> "SlowdownTable":
        """Return the slowdowns that ``own`` suffers or causes, in whole percent.

        Changed slowdowns of other pairs of workloads give an equal part, except if a value of many
        pairs or the highest slowdown changes by a percent.
        """
        part = copy(self)
        vars(part).update(
            _measured=_rounded(self._measured, own.name),
            _by_group=_rounded(self._by_group, own.group),
            _median=None if self._median is None else _in_percent(self._median),
            _on_node=_rounded(self._on_node, own.name),
            worst=_in_percent(self.worst),
        )
        return part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlowdownTable) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._median, self.worst, len(self._measured), len(self._on_node)))

    def slowdown_on_node(self, own: WorkloadKind, neighbour: WorkloadKind) -> NeighbourSlowdown:
        """Return the slowdown of ``own`` beside ``neighbour`` on other sockets of the node.

        A pair that was not measured has the slowdown 1, because most traffic stays on a socket.
        """
        value = self._on_node.get((own.name, neighbour.name))
        if value is None:
            return NeighbourSlowdown(1.0, SlowdownSource.UNKNOWN)
        return NeighbourSlowdown(value, SlowdownSource.MEASURED)

    def together(self, pairs: Sequence[float]) -> float:
        """Return the slowdown of a job beside several neighbours from those of its pairs."""
        return max(pairs, default=1.0) if self._worst_pair_decides else prod(pairs)


def _valid(own: WorkloadKind, neighbour: WorkloadKind, value: float) -> float:
    if not 0 < value < float("inf"):
        raise UtilityError(
            f"slowdown of {own.name!r} beside {neighbour.name!r}: {value}; must be a number above 0"
        )
    return max(1.0, value)


def _rounded(values: Mapping[tuple[str, str], float], own: str) -> dict[tuple[str, str], float]:
    return {pair: _in_percent(value) for pair, value in values.items() if own in pair}


def _in_percent(slowdown: float) -> float:
    return 1 + to_percent(slowdown) / 100


def to_percent(slowdown: float) -> int:
    """Return how much longer a job runs, in whole percent, if its time grows by this factor.

    >>> to_percent(1.24)
    24
    """
    return round(100 * (slowdown - 1))


@dataclass(frozen=True, slots=True)
class RunningNeighbour:
    """A job that already runs on a node.

    Attributes:
        gpus: its GPUs there, or all GPUs of the sockets that it uses: the interference is equal.
    """

    workload: WorkloadKind
    gpus: GpuMask


def beside(
    gpus: GpuMask, neighbours: Iterable[RunningNeighbour], sockets: Sequence[GpuMask]
) -> tuple[WorkloadKind, ...]:
    """Return the workloads of the neighbours that share a socket with ``gpus``."""
    near = sockets_of(gpus, sockets)
    return tuple(neighbour.workload for neighbour in neighbours if neighbour.gpus & near)


def interference_costs(
    own: WorkloadKind, neighbours: Sequence[WorkloadKind], table: SlowdownTable
) -> tuple[Cost, Cost]:
    """Return the interference of a placement, and the slowdown that the job itself suffers.

    The interference is 1 + ((s - 1) + sum(c - 1)) / 2, where s is the slowdown that the job suffers
    and c are those that it causes. Beside one neighbour this is the mean of equation 4. Only pairs
    are measured, so s is the product of the slowdowns of the pairs: the facts are learnt by a model
    in which each further neighbour multiplies the time (:mod:`gputopo.profiles.terms`). Costs above
    the worst pair of the table have the term of the worst case.

    Example: a job that suffers 20 % and 10 %, and causes 5 % to one of both, has s = 1.32 and the
    interference 1 + (0.32 + 0.05) / 2 = 1.185.

    Args:
        own: the workload of the job.
        neighbours: workloads that share a socket with the job.
        table: the known slowdowns.
    """
    suffered = [table.slowdown(own, other).value for other in neighbours]
    caused = [table.slowdown(other, own).value for other in neighbours]
    own_slowdown, worst = table.together(suffered), table.worst
    added = (own_slowdown - 1) + sum(slowdown - 1 for slowdown in caused)
    return Cost(1 + added / 2, best=1.0, worst=worst), Cost(own_slowdown, best=1.0, worst=worst)
