"""Types of MAPA's simulators: jobs, finished jobs and the result of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gputopo.patterns.model import Pattern
from gputopo.placement.model import PolicyName
from gputopo.topology.model import GpuIndex, GpuMask
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.job_ids import with_unique_ids

MAX_TIME: Final = 1e15
MIN_SERVICE: Final = 1e-9
"""Limits of the times in a job list. Within these limits, sums of times are exact enough."""

JobId = int | str
"""ID of a job in its list. If the list has no IDs, it is the number of the row, from 0."""


class Queueing(StrEnum):
    """Which waiting job may start when GPUs become free.

    FIFO: only the job that has waited longest. All other jobs wait until this job has started.
    SKIP_AHEAD: of the jobs that fit now, the job that has waited longest, as with pods in
    kube-scheduler. No GPUs are reserved for a large job, so smaller jobs can delay it for long.
    """

    FIFO = "fifo"
    SKIP_AHEAD = "skip-ahead"


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """One job of a list. Times are in seconds, or in any unit that all jobs share.

    Attributes:
        pattern: pattern of the communication; its size is the number of GPUs of the job.
        arrival: time when the job joins the queue.
        service: run time on the best links.
        sensitive: whether the policy treats the job as bandwidth-sensitive.
        workload: program that the job runs; selects its slowdown curve. None if unknown.
    """

    id: JobId
    pattern: Pattern
    arrival: float
    service: float
    sensitive: bool
    workload: str | None = None


@dataclass(frozen=True, slots=True)
class GpusInUse:
    """GPUs that are not free when a simulation starts.

    Attributes:
        until: time at which the GPUs become free; infinite if they never do.
    """

    node: str
    gpus: GpuMask
    until: float


@dataclass(frozen=True, slots=True)
class FinishedSimulatedJob:
    """A finished job with its GPUs, start and end.

    Attributes:
        gpus: GPUs of the job, in rank order.
        aggregate_mb_per_s: aggregate bandwidth (MAPA, equation 1); 0 for one GPU.
        effective_mb_per_s: effective bandwidth by ``model``; None for one GPU, which has no link.
        model: name of the bandwidth model; None for one GPU.

    Raises:
        SimulationError: the service time is so short that ``start`` plus this time is rounded to
        ``start``.
    """

    job: SimulatedJob
    node: str
    gpus: tuple[GpuIndex, ...]
    start: float
    end: float
    aggregate_mb_per_s: int
    effective_mb_per_s: float | None
    model: str | None

    def __post_init__(self) -> None:
        if self.end <= self.start:
            raise SimulationError(
                f"job {self.job.id!r}: service: {self.job.service} is lost by rounding when it is"
                f" added to the start time {self.start}; use a longer time"
            )

    @property
    def execution_time(self) -> float:
        """Time from start to end."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """Settings of one run and its finished jobs.

    Attributes:
        model: name of the bandwidth model; ``default`` if node and pattern decided the model.
        time_law: name of the rule for execution times (:mod:`.timelaw`).
        waiting: whether sensitive jobs were allowed to wait for better links.
        jobs: in the order of the job list.
    """

    policy: PolicyName
    model: str
    time_law: str
    queueing: str
    waiting: bool
    jobs: tuple[FinishedSimulatedJob, ...]

    @property
    def makespan(self) -> float:
        """End of the last job, from time 0; 0 without jobs."""
        return max((job.end for job in self.jobs), default=0.0)


def check_jobs(jobs: Sequence[SimulatedJob]) -> None:
    """Check that the IDs of jobs are unique and their times are in range.

    Raises:
        SimulationError: if the check fails; the message names the job, the field and the value.
    """
    for job in with_unique_ids(jobs):
        _check_time(job.id, "arrival", job.arrival, 0.0)
        _check_time(job.id, "service", job.service, MIN_SERVICE)


def _check_time(job: JobId, field: str, value: float, least: float) -> None:
    if not least <= value <= MAX_TIME:
        raise SimulationError(
            f"job {job!r}: {field}: {value}; must be between {least:g} and {MAX_TIME:g}"
        )
