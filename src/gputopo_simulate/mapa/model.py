"""What is simulated, and what comes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gputopo.errors import InvalidInputError
from gputopo.patterns.model import Pattern
from gputopo.placement.model import PolicyName
from gputopo.topology.model import GpuIndex

LONGEST_TIME: Final = 1e15
SHORTEST_SERVICE: Final = 1e-9
"""Times of a job list; within them no sum of a run leaves the numbers that there are."""

JobId = int | str
"""What the job list calls a job; a row's number, from 0, where the list names none."""


class SimulationError(InvalidInputError):
    """Jobs or settings that cannot be simulated; the message names the job, field and value."""


class Queueing(StrEnum):
    """Who may start when GPUs come free.

    FIFO: only the job that has waited longest; while it does not fit, all wait.
    SKIP_AHEAD: the longest waiting of the jobs that fit now, as kube-scheduler does with pods.
    Nothing is reserved for a job that is overtaken: a big one may wait for long.
    """

    FIFO = "fifo"
    SKIP_AHEAD = "skip-ahead"


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """One job of a list; times in seconds, or in any one unit that all jobs share.

    Attributes:
        pattern: how its GPUs talk; its size is how many it needs.
        arrival: when it joins the queue.
        service: how long it runs on the best links.
        sensitive: what the policy is told of it.
        workload: what it runs, for the time law; None where that is not known.
    """

    id: JobId
    pattern: Pattern
    arrival: float
    service: float
    sensitive: bool
    workload: str | None = None


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A job, where it ran and when.

    Attributes:
        gpus: in rank order.
        aggregate_mb_per_s: MAPA, equation 1; 0 for one GPU.
        effective_mb_per_s: by ``model``; None for one GPU, which has no link.
        model: the bandwidth model that valued the GPUs; None for one GPU.

    Raises:
        SimulationError: where the job is so short that the clock cannot tell its end from its
            start.
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
                f"job {self.job.id!r}: service: {self.job.service} is too short to count at the"
                f" time {self.start}"
            )

    @property
    def execution_time(self) -> float:
        """From start to end."""
        return self.end - self.start

    @property
    def queueing_time(self) -> float:
        """From arrival to start."""
        return self.start - self.job.arrival


@dataclass(frozen=True, slots=True)
class Result:
    """One run: how it was set, and what became of each job.

    Attributes:
        model: name of the bandwidth model asked for; ``default`` for that of node and pattern.
        time_law: name of the law that execution times follow.
        waiting: whether sensitive jobs could wait for better links.
        jobs: in the order of the job list.
    """

    policy: PolicyName
    model: str
    time_law: str
    queueing: str
    waiting: bool
    jobs: tuple[FinishedJob, ...]

    @property
    def makespan(self) -> float:
        """From time 0 to the end of the last job; 0 without jobs."""
        return max((job.end for job in self.jobs), default=0.0)


def require_sound(jobs: Sequence[SimulatedJob]) -> None:
    """Do nothing for a list that can be simulated.

    Raises:
        SimulationError: on an id that two jobs have, or a time that is out of range.
    """
    seen: set[JobId] = set()
    for job in jobs:
        if job.id in seen:
            raise SimulationError(f"job {job.id!r}: id: another job has it")
        seen.add(job.id)
        _require_within(job.id, "arrival", job.arrival, 0.0)
        _require_within(job.id, "service", job.service, SHORTEST_SERVICE)


def _require_within(job: JobId, field: str, value: float, least: float) -> None:
    if not least <= value <= LONGEST_TIME:
        raise SimulationError(
            f"job {job!r}: {field}: {value} is no time of {least:g}..{LONGEST_TIME:g}"
        )
