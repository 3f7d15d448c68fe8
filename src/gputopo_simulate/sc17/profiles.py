"""Execution times of Caffe jobs that the authors measured on their machine, alone and in pairs."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from gputopo.utility.interference import SlowdownTable, WorkloadKind
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.tables import TableRow, rows

BATCH_GROUPS: Final[Mapping[int, str]] = MappingProxyType(
    {1: "tiny", 4: "small", 64: "medium", 128: "big"}
)
"""The paper's names of the four batch sizes. Jobs of one batch size are a group of workloads."""

_MAX_SECONDS: Final = 1e9
_MAX_GPUS: Final = 64


class Sockets(StrEnum):
    """Whether the GPUs of a job are on one socket, in the words of the authors' tables."""

    ONE = "intra-socket"
    SEVERAL = "inter-socket"


class JobKind(NamedTuple):
    """What decides the execution time of a job: network, batch size and number of GPUs."""

    net: str
    batch: int
    gpus: int


@dataclass(frozen=True)
class CaffeProfiles:
    """Execution times in seconds. A time that was not measured is missing.

    Attributes:
        alone: time of each kind of job alone.
        beside: time of the first kind while a job of the second shares its sockets.
    """

    alone: Mapping[tuple[JobKind, Sockets], float]
    beside: Mapping[tuple[JobKind, JobKind], float]

    def require(self, where: str, net: str, batch: int, gpus: int) -> JobKind:
        """Return the kind of a job.

        Raises:
            SimulationError: if the kind was not measured; the message begins with ``where``.
        """
        kind = JobKind(net, batch, gpus)
        if (kind, Sockets.ONE) in self.alone:
            return kind
        for position, field in enumerate(kind._fields):
            known = sorted({other[position] for other, _ in self.alone})
            if kind[position] not in known:
                raise SimulationError(
                    f"{where}: {field}: {kind[position]!r:.80} is not one of"
                    f" {', '.join(map(str, known))}"
                )
        raise SimulationError(f"{where}: {net} with batch {batch} on {gpus} GPUs was not measured")

    def ideal(self, kind: JobKind) -> float:
        """Return the execution time alone on the best GPUs."""
        one = self.alone[kind, Sockets.ONE]
        return min(one, self.alone.get((kind, Sockets.SEVERAL), one))

    def link_slowdown(self, kind: JobKind, sockets: Sockets) -> float:
        """Return the execution time alone on these GPUs, relative to the best GPUs.

        A job of three GPUs is always on two sockets of the authors' machine, so its only time is
        that of its best GPUs.
        """
        one = self.alone[kind, Sockets.ONE]
        return self.alone.get((kind, sockets), one) / self.ideal(kind)

    @cached_property
    def slowdowns(self) -> SlowdownTable:
        """Slowdown of each kind of job beside each other kind, without the effect of its links.

        Two jobs of two GPUs can share sockets only if both are on two sockets. So the time of such
        a pair is divided by the time alone on two sockets. As in the simulation, only the worst
        neighbour of a job slows it down.
        """
        return SlowdownTable(
            {
                (workload_of(own), workload_of(other)): seconds / self._alone_beside_others(own)
                for (own, other), seconds in self.beside.items()
            },
            worst_pair_decides=True,
        )

    def _alone_beside_others(self, kind: JobKind) -> float:
        one = self.alone[kind, Sockets.ONE]
        return self.alone.get((kind, Sockets.SEVERAL), one)


def workload_of(kind: JobKind) -> WorkloadKind:
    """Return the workload of a kind of job; its group is the batch size."""
    name = f"{kind.net} batch {kind.batch} on {kind.gpus}"
    return WorkloadKind(name, BATCH_GROUPS.get(kind.batch, f"batch {kind.batch}"))


def parse_profiles(alone: str, beside: str) -> CaffeProfiles:
    """Return the profiles of two CSV tables in the authors' form, where 0 is "not measured".

    Args:
        alone: columns net, batch, gpus, placement, seconds.
        beside: columns net, batch, gpus, other_net, other_batch, other_gpus, seconds.

    Raises:
        SimulationError: if a text is not such a table.
    """
    times_alone: dict[tuple[JobKind, Sockets], float] = {}
    for row in rows("solo", alone, ("net", "batch", "gpus", "placement", "seconds")):
        sockets = _sockets(row)
        if seconds := row.number("seconds", 0, _MAX_SECONDS):
            times_alone[_kind(row, ""), sockets] = seconds
    times_beside: dict[tuple[JobKind, JobKind], float] = {}
    others = ("other_net", "other_batch", "other_gpus")
    for row in rows("collocation", beside, ("net", "batch", "gpus", *others, "seconds")):
        own = _kind(row, "")
        if (own, Sockets.ONE) not in times_alone:
            raise row.error("net", f"{own.net} with this batch and gpus has no time alone")
        if seconds := row.number("seconds", 0, _MAX_SECONDS):
            times_beside[own, _kind(row, "other_")] = seconds
    return CaffeProfiles(times_alone, times_beside)


def _sockets(row: TableRow) -> Sockets:
    text = row.text("placement")
    if text not in {*Sockets}:
        raise row.error("placement", f"{text!r:.80} is not one of {', '.join(Sockets)}")
    return Sockets(text)


def _kind(row: TableRow, prefix: str) -> JobKind:
    batch = row.whole(f"{prefix}batch", 1)
    return JobKind(row.text(f"{prefix}net"), batch, row.whole(f"{prefix}gpus", 1, _MAX_GPUS))
