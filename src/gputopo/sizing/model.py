"""What is asked of a cluster's GPUs, CPUs and memory, and what each job is given."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from gputopo.sensitivity.matrix import SensitivityMatrix

MOST: Final = 1e7
"""Of anything in one server, so that sums are right to the millionth."""


class Resources(NamedTuple):
    """An amount of all that a job can be given more or less of; its GPUs are fixed."""

    cpus: float
    memory_gb: float
    storage_mb_per_s: float


@dataclass(frozen=True, slots=True)
class Server:
    """A server with GPUs, or what is to be given away of it.

    Attributes:
        memory_gb: in 10^9 bytes.
        storage_mb_per_s: how fast it can read data sets that it has not in memory;
            infinite where that holds nobody up.
    """

    name: str
    gpus: int
    cpus: float
    memory_gb: float
    storage_mb_per_s: float = math.inf

    def __post_init__(self) -> None:
        """Refuse amounts that are none.

        Raises:
            ValueError: naming the server, the field and the value.
        """
        if self.gpus < 1:
            raise ValueError(f"server {self.name}: gpus: {self.gpus} is not at least 1")
        amounts = {"cpus": self.cpus, "memory_gb": self.memory_gb}
        if self.storage_mb_per_s != math.inf:
            amounts["storage_mb_per_s"] = self.storage_mb_per_s
        for field, value in amounts.items():
            if not 0 < value <= MOST:
                raise ValueError(
                    f"server {self.name}: {field}: {value} is not more than 0 and at most {MOST:g}"
                )


@dataclass(frozen=True, slots=True)
class Ask:
    """A job that would run now.

    Attributes:
        job: its id.
        matrix: its sensitivity at its GPU count, which is the number of GPUs it asks for.
        storage_mb_per_s: what it reads from storage at its best throughput; with less it
            is slower in proportion, whatever its CPUs and memory.
    """

    job: str
    matrix: SensitivityMatrix
    storage_mb_per_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a need that is none.

        Raises:
            ValueError: naming the job, the field and the value.
        """
        if not (math.isfinite(self.storage_mb_per_s) and self.storage_mb_per_s >= 0):
            raise ValueError(
                f"job {self.job}: storage_mb_per_s: {self.storage_mb_per_s} is not at least 0"
            )

    @property
    def gpus(self) -> int:
        """The GPUs it asks for, never more nor less."""
        return self.matrix.gpus


class Part(NamedTuple):
    """What a job has on one server."""

    server: str
    gpus: int
    cpus: float
    memory_gb: float
    storage_mb_per_s: float


class Grant(NamedTuple):
    """What one job is given.

    Attributes:
        parts: one for each server it runs on. CPUs, memory and storage bandwidth are in
            the same ratio to the GPUs in all of them (Synergy, section 4.2).
        throughput: what that yields, in the unit of the job's matrix.
    """

    job: str
    parts: tuple[Part, ...]
    throughput: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Who runs and who waits, each in the order of the asks."""

    grants: tuple[Grant, ...]
    waiting: tuple[str, ...]


class Allocation(Protocol):
    """A way to give servers away for a while: pure, and the same each time for the same input."""

    def __call__(self, servers: Sequence[Server], asks: Sequence[Ask]) -> Outcome:
        """Return who gets what.

        Args:
            servers: all that there is to give.
            asks: running and waiting jobs alike, the one that should run first in front.

        Raises:
            ValueError: no server, or a server or job named twice.
        """
        ...


def proportional_share(servers: Sequence[Server], gpus: int) -> Resources:
    """Return what so many GPUs have by right: as much per GPU as every server can give.

    That is C_i / G_i * g_j and M_i / G_i * g_j (Synergy, section 4.1), and where servers
    differ the least of them, so that it can be had wherever there are GPUs.
    """
    return Resources(
        min(server.cpus / server.gpus for server in servers) * gpus,
        min(server.memory_gb / server.gpus for server in servers) * gpus,
        min(server.storage_mb_per_s / server.gpus for server in servers) * gpus,
    )


def whole_capacity(servers: Sequence[Server]) -> Resources:
    """Return what all servers have together."""
    return Resources(
        sum(server.cpus for server in servers),
        sum(server.memory_gb for server in servers),
        sum(server.storage_mb_per_s for server in servers),
    )


def throughput_of(ask: Ask, given: Resources) -> float:
    """Return how fast a job is with so much: W[c, m], or what its storage bandwidth yields."""
    fed = ask.matrix.at(given.cpus, given.memory_gb)
    if given.storage_mb_per_s >= ask.storage_mb_per_s:
        return fed
    return min(fed, ask.matrix.best * given.storage_mb_per_s / ask.storage_mb_per_s)


def proportional_throughput(servers: Sequence[Server], ask: Ask) -> float:
    """Return what a job is promised: its throughput with the proportional share of its GPUs."""
    return throughput_of(ask, proportional_share(servers, ask.gpus))
