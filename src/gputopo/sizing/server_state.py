"""Mutable state of one sizing call: the free resources of servers, and the jobs placed on them."""

from collections.abc import Iterable, Sequence
from typing import Final, Self, TypeAlias

from gputopo.sizing.model import (
    Assignment,
    ResourceAmounts,
    ServerCapacity,
    ServerPart,
    SizingRequest,
    SizingResult,
)
from gputopo.sizing.options import JobOptions, Option, OptionChoice

TOLERANCE: Final = 1e-6
"""Allowed rounding error of sums of fractions, in CPUs, GB or MB/s."""


class ServerState:
    """Free resources of one server, and the jobs on it.

    A free amount can be negative: if jobs with 10 CPUs are on a server with 8, ``cpus`` is -2.
    """

    __slots__ = ("cpus", "gpus", "jobs", "memory_gb", "name", "storage_mb_per_s")

    def __init__(self, name: str, gpus: int, free: ResourceAmounts) -> None:
        self.name, self.gpus = name, gpus
        self.cpus, self.memory_gb, self.storage_mb_per_s = free
        self.jobs: list[PlacedJob] = []

    @classmethod
    def idle(cls, server: ServerCapacity) -> Self:
        """Return the state of a server without jobs."""
        free = ResourceAmounts(server.cpus, server.memory_gb, server.storage_mb_per_s)
        return cls(server.name, server.gpus, free)

    def has_free(self, option: Option, fraction: float) -> bool:
        """Return whether ``fraction`` of the option's CPUs, memory and storage is free here."""
        return (
            self.cpus + TOLERANCE >= option.cpus * fraction
            and self.memory_gb + TOLERANCE >= option.memory_gb * fraction
            and self.storage_mb_per_s + TOLERANCE >= option.storage_mb_per_s * fraction
        )

    def max_gpus(self, option: Option, gpus: int) -> int:
        """Return how many GPUs of a job fit here, if each needs 1 / ``gpus`` of ``option``."""
        fitting = float(self.gpus)
        free = (self.cpus, self.memory_gb, self.storage_mb_per_s)
        for amount, needed in zip(free, option, strict=False):
            if needed > 0:
                fitting = min(fitting, (amount + TOLERANCE) * gpus / needed)
        return int(fitting)

    @property
    def is_overcommitted(self) -> bool:
        """Whether the jobs on the server together have more of some resource than the server."""
        return min(self.cpus, self.memory_gb, self.storage_mb_per_s) < -TOLERANCE

    def take(self, option: Option, fraction: float) -> None:
        """Subtract this fraction of ``option`` from the free amounts; add it if negative."""
        self.cpus -= option.cpus * fraction
        self.memory_gb -= option.memory_gb * fraction
        self.storage_mb_per_s -= option.storage_mb_per_s * fraction


Slots: TypeAlias = list[tuple[ServerState, int]]
"""The servers of a job, with its number of GPUs on each server."""


class PlacedJob:
    """A job that is placed on servers, with its current option."""

    __slots__ = ("option", "options", "request", "slots")

    def __init__(
        self, request: SizingRequest, options: JobOptions, option: Option, slots: Slots
    ) -> None:
        """Place the job: subtract its GPUs and resources from the free amounts of the servers."""
        self.request, self.options, self.option, self.slots = request, options, option, slots
        self._occupy()

    def _occupy(self) -> None:
        for server, gpus in self.slots:
            server.gpus -= gpus
            server.take(self.option, gpus / self.request.gpus)
            server.jobs.append(self)

    def move(self, slots: Slots, option: Option) -> None:
        """Move the job to other servers, with another option."""
        for server, gpus in self.slots:
            server.gpus += gpus
            server.take(self.option, -gpus / self.request.gpus)
            server.jobs.remove(self)
        self.slots, self.option = slots, option
        self._occupy()

    def change_option(self, option: Option) -> None:
        """Replace the option of the job. The job keeps its servers and GPUs."""
        for server, gpus in self.slots:
            server.take(self.option, -gpus / self.request.gpus)
            server.take(option, gpus / self.request.gpus)
        self.option = option

    def can_change_option(self, option: Option) -> bool:
        """Return whether the additional resources of ``option`` are free on the job's servers."""
        now = self.option
        cpus, memory_gb = option.cpus - now.cpus, option.memory_gb - now.memory_gb
        storage = option.storage_mb_per_s - now.storage_mb_per_s
        for server, gpus in self.slots:
            fraction = gpus / self.request.gpus
            if (
                cpus * fraction > server.cpus + TOLERANCE
                or memory_gb * fraction > server.memory_gb + TOLERANCE
                or storage * fraction > server.storage_mb_per_s + TOLERANCE
            ):
                return False
        return True

    def assignment(self) -> Assignment:
        """Return the immutable result for this job."""
        whole = self.request.gpus
        cpus, memory_gb, storage, throughput, _ = self.option
        if len(self.slots) == 1:  # without a division amounts stay exact
            only = ServerPart(self.slots[0][0].name, whole, cpus, memory_gb, storage)
            return Assignment(self.request.job, (only,), throughput)
        parts = tuple(
            ServerPart(
                server.name,
                gpus,
                cpus * gpus / whole,
                memory_gb * gpus / whole,
                storage * gpus / whole,
            )
            for server, gpus in self.slots
        )
        return Assignment(self.request.job, parts, throughput)


def total_value(jobs: Iterable[OptionChoice | PlacedJob]) -> float:
    """Return the sum of :attr:`Option.value` over all jobs."""
    return sum(job.option.value for job in jobs)


def sizing_result(requests: Sequence[SizingRequest], placed: Iterable[PlacedJob]) -> SizingResult:
    """Return the result of a sizing call. Requests that are not placed wait."""
    running = {job.request.job: job for job in placed}
    return SizingResult(
        tuple(running[each.job].assignment() for each in requests if each.job in running),
        tuple(each.job for each in requests if each.job not in running),
    )
