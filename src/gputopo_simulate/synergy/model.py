"""Types of Synergy's simulators: the cluster, the jobs and their completion times."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.job_ids import with_unique_ids
from gputopo_simulate.synergy.measured import MeasuredModel

ROUND_SECONDS: Final = 300.0
"""Length of a scheduling round (Synergy, section 1)."""

SECONDS_PER_HOUR: Final = 3600

_STATIC_BEFORE_SECONDS: Final = 1.0
"""If all jobs arrive before this time, the first round begins at it, as in the paper."""


@dataclass(frozen=True, slots=True)
class SimulatedCluster:
    """A cluster of servers of equal size.

    Attributes:
        memory_gb: memory of one server, in 10^9 bytes.
        storage_mb_per_s: storage bandwidth of one server for data that is not in memory.
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
        iterations: number of training steps. All GPUs of the job take part in each step.
    """

    id: int
    model: MeasuredModel
    gpus: int
    arrival_seconds: float
    iterations: int


@dataclass(frozen=True, slots=True)
class FinishedTrainingJob:
    """A job and the time when it finished."""

    id: int
    arrival_seconds: float
    finish_seconds: float

    @property
    def jct_seconds(self) -> float:
        """Job completion time: time from arrival to finish, waiting included."""
        return self.finish_seconds - self.arrival_seconds


def check_jobs(jobs: Sequence[TrainingJob], cluster: SimulatedCluster) -> None:
    """Check that each job fits on the idle cluster.

    Raises:
        SimulationError: there is no job, two jobs have the same ID, or a job has too many GPUs.
    """
    if not jobs:
        raise SimulationError("jobs: the list is empty")
    for job in with_unique_ids(jobs):
        if job.gpus > cluster.servers * cluster.gpus:
            raise SimulationError(
                f"job {job.id}: gpus: {job.gpus}; the cluster has {cluster.servers * cluster.gpus}"
            )


def first_round_seconds(arrivals_seconds: Sequence[float]) -> float:
    """Return the second at which the first round begins.

    If all jobs arrive before second 1, the first round begins at second 1. If not, it begins at the
    first multiple of ``ROUND_SECONDS`` at or after the first arrival.
    """
    if max(arrivals_seconds) < _STATIC_BEFORE_SECONDS:
        return _STATIC_BEFORE_SECONDS
    return next_round_seconds(0.0, min(arrivals_seconds))


def next_round_seconds(
    now_seconds: float, arrival_seconds: float, round_seconds: float = ROUND_SECONDS
) -> float:
    """Return when the first round at or after an arrival starts; round 0 is at ``now_seconds``."""
    rounds = math.ceil((arrival_seconds - now_seconds) / round_seconds)
    return now_seconds + rounds * round_seconds
