"""Types of sizing: requests and servers are the input, assignments are the result."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from gputopo.errors import InvalidInputError
from gputopo.sensitivity.matrix import SensitivityMatrix

MAX_AMOUNT: Final = 1e7
"""Upper limit of each resource of a server: sums below it are exact to one millionth."""


class ResourceAmounts(NamedTuple):
    """Amounts of the resources that sizing varies. A job's number of GPUs is fixed."""

    cpus: float
    memory_gb: float
    storage_mb_per_s: float


@dataclass(frozen=True, slots=True)
class ServerCapacity:
    """GPUs and other resources that jobs can get on one server.

    Attributes:
        memory_gb: in 10^9 bytes.
        storage_mb_per_s: read bandwidth of storage for data that is not in memory; infinite
            if storage limits no job.

    Raises:
        InvalidInputError: an amount is out of range; the message names server, field and value.
    """

    name: str
    gpus: int
    cpus: float
    memory_gb: float
    storage_mb_per_s: float = math.inf

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise InvalidInputError(f"server {self.name}: gpus: {self.gpus}; must be at least 1")
        amounts = {"cpus": self.cpus, "memory_gb": self.memory_gb}
        if self.storage_mb_per_s != math.inf:
            amounts["storage_mb_per_s"] = self.storage_mb_per_s
        for field, value in amounts.items():
            if not 0 < value <= MAX_AMOUNT:
                raise InvalidInputError(
                    f"server {self.name}: {field}: {value}; must be more than 0 and at most"
                    f" {MAX_AMOUNT:g}"
                )


@dataclass(frozen=True, slots=True)
class SizingRequest:
    """A running or waiting job that requests GPUs.

    Attributes:
        job: ID of the job.
        matrix: throughput of the job by CPUs and memory, with the requested number of GPUs.
        storage_mb_per_s: read rate of the job from storage at its best throughput. With less
            storage bandwidth its throughput falls in proportion.

    Raises:
        InvalidInputError: ``storage_mb_per_s`` is negative or infinite.
    """

    job: str
    matrix: SensitivityMatrix
    storage_mb_per_s: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.storage_mb_per_s) and self.storage_mb_per_s >= 0):
            raise InvalidInputError(
                f"job {self.job}: storage_mb_per_s: {self.storage_mb_per_s}; must be finite and"
                " at least 0"
            )

    @property
    def gpus(self) -> int:
        """Number of GPUs that the job needs to run."""
        return self.matrix.gpus


class ServerPart(NamedTuple):
    """GPUs and other resources of one job on one server."""

    server: str
    gpus: int
    cpus: float
    memory_gb: float
    storage_mb_per_s: float


class Assignment(NamedTuple):
    """Servers, CPUs and memory of one job.

    Attributes:
        parts: one for each server of the job. Each GPU has the same CPUs, memory and storage
            bandwidth in all parts (Synergy paper, section 4.2).
        throughput: predicted throughput, in the unit of the job's matrix.
    """

    job: str
    parts: tuple[ServerPart, ...]
    throughput: float


@dataclass(frozen=True, slots=True)
class SizingResult:
    """Assignments of the jobs that run, and IDs of the jobs that wait, in request order."""

    assignments: tuple[Assignment, ...]
    waiting: tuple[str, ...]


class SizingMechanism(Protocol):
    """Type of functions that assign jobs to servers for one scheduling round.

    Equal input gives an equal result. The Synergy paper calls these functions mechanisms, too.
    """

    def __call__(
        self, servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]
    ) -> SizingResult:
        """Return the assignments of the jobs that run now.

        Args:
            servers: all servers with their full capacity. Running jobs are assigned again.
            requests: requests of the running and waiting jobs, in queue order.

        Raises:
            InvalidInputError: there is no server, or two servers or jobs have the same name.
        """
        ...


def proportional_share(servers: Sequence[ServerCapacity], gpus: int) -> ResourceAmounts:
    """Return the CPUs, memory and storage bandwidth of a server in proportion to ``gpus``.

    Example: a server has 24 CPUs and 8 GPUs, so the share of 2 GPUs is 6 CPUs (C_i / G_i * g_j in
    section 4.1 of the Synergy paper). If servers differ, the smallest amount per GPU is used, so
    that every server has the share for each of its GPUs.
    """
    return ResourceAmounts(
        min(server.cpus / server.gpus for server in servers) * gpus,
        min(server.memory_gb / server.gpus for server in servers) * gpus,
        min(server.storage_mb_per_s / server.gpus for server in servers) * gpus,
    )


def total_capacity(servers: Sequence[ServerCapacity]) -> ResourceAmounts:
    """Return the sum of each resource over all servers."""
    return ResourceAmounts(
        sum(server.cpus for server in servers),
        sum(server.memory_gb for server in servers),
        sum(server.storage_mb_per_s for server in servers),
    )


def throughput_with(request: SizingRequest, resources: ResourceAmounts) -> float:
    """Return the throughput that the matrix predicts, or less if storage bandwidth limits it."""
    by_matrix = request.matrix.at(resources.cpus, resources.memory_gb)
    if resources.storage_mb_per_s >= request.storage_mb_per_s:
        return by_matrix
    by_storage = request.matrix.best * resources.storage_mb_per_s / request.storage_mb_per_s
    return min(by_matrix, by_storage)


def proportional_throughput(servers: Sequence[ServerCapacity], request: SizingRequest) -> float:
    """Return the throughput with the proportional share, which sizing guarantees to the job."""
    return throughput_with(request, proportional_share(servers, request.gpus))
