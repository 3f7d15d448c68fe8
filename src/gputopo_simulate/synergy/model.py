"""What is simulated of Synergy, and what comes of it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from gputopo.errors import InvalidInputError
from gputopo.sensitivity.models import Model

ROUND_S: Final = 300.0
"""How long a decision holds (Synergy, section 3)."""

SECONDS_PER_HOUR: Final = 3600

_STATIC_BEFORE_S: Final = 1.0
"""A list whose jobs all come before is looked at when they are there, as in the paper."""


class SynergyError(InvalidInputError):
    """Jobs or servers that cannot be simulated; the message names the job, field and value."""


Progress: TypeAlias = Callable[[int, int], None]
"""Told how many jobs have ended, and of how many."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Servers all alike.

    Attributes:
        memory_gb: of one server, in 10^9 bytes.
        storage_mb_per_s: how fast one server reads what it has not in memory.
    """

    servers: int
    gpus: int
    cpus: float
    memory_gb: float
    storage_mb_per_s: float = math.inf

    @property
    def cpus_per_gpu(self) -> float:
        """CPUs of the proportional share of one GPU."""
        return self.cpus / self.gpus

    @property
    def memory_gb_per_gpu(self) -> float:
        """Memory of the proportional share of one GPU."""
        return self.memory_gb / self.gpus


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One job of a list.

    Attributes:
        iterations: steps until it is done, all its GPUs together.
    """

    id: int
    model: Model
    gpus: int
    arrival_s: float
    iterations: int


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A job, and when it was done."""

    id: int
    arrival_s: float
    finish_s: float

    @property
    def jct_s(self) -> float:
        """Job completion time: from arrival to end, waiting and all."""
        return self.finish_s - self.arrival_s


def require_fitting(jobs: Sequence[TrainingJob], cluster: Cluster) -> None:
    """Do nothing for jobs that the cluster could run one by one.

    Raises:
        SynergyError: on no job at all, an id that two have, or more GPUs than there are.
    """
    if not jobs:
        raise SynergyError("jobs: the list is empty")
    seen: set[int] = set()
    for job in jobs:
        if job.id in seen:
            raise SynergyError(f"job {job.id}: id: another job has it")
        seen.add(job.id)
        if job.gpus > cluster.servers * cluster.gpus:
            raise SynergyError(
                f"job {job.id}: gpus: {job.gpus} of {cluster.servers * cluster.gpus} there are"
            )


def first_round_s(arrivals_s: Sequence[float]) -> float:
    """Return when the first round begins; the others follow each other from there."""
    if max(arrivals_s) < _STATIC_BEFORE_S:
        return _STATIC_BEFORE_S
    return next_round_s(0.0, min(arrivals_s))


def next_round_s(now_s: float, arrival_s: float, round_s: float = ROUND_S) -> float:
    """Return the first round, counted from one that begins now, that knows of an arrival."""
    return now_s + math.ceil((arrival_s - now_s) / round_s) * round_s
