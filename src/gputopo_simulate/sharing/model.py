"""Types of the simulator of shared GPUs: jobs, finished jobs and the result of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.job_ids import with_unique_ids
from gputopo_simulate.sharing.measured import MeasuredPairs


@dataclass(frozen=True, slots=True)
class OneGpuJob:
    """A job of one GPU. Times are in seconds.

    Attributes:
        model: a measured model, such as ``ResNet-18 (batch size 64)``.
        seconds: execution time alone.
    """

    id: int
    arrival: float
    model: str
    seconds: float


class FirstChoice(StrEnum):
    """What a policy did with a job that found no empty GPU when it arrived.

    RIGHT: it let the job share with a gain, or wait although no running job would have given one.
    SHARED_WRONG: it let the job share with a summed normalised speed of less than 1.
    WAITED_WRONG: it let the job wait although a pair with a gain above the margin was possible.
    NOT_NEEDED: a GPU was empty.
    """

    RIGHT = "Right"
    SHARED_WRONG = "SharedWrong"
    WAITED_WRONG = "WaitedWrong"
    NOT_NEEDED = "NotNeeded"


@dataclass(frozen=True, slots=True)
class FinishedSharedJob:
    """A finished job.

    Attributes:
        start: when it first ran.
        gpu: number of its last GPU, from 0.
        moves: how often its sharing was ended and it had to start again elsewhere.
    """

    job: OneGpuJob
    start: float
    end: float
    gpu: int
    moves: int
    first_choice: FirstChoice

    @property
    def completion(self) -> float:
        """Time from arrival to end."""
        return self.end - self.job.arrival

    @property
    def stretch(self) -> float:
        """Time from the first start to the end, relative to the time alone: 1.25 is 25 % more."""
        return (self.end - self.start) / self.job.seconds

    @property
    def slowdown(self) -> float:
        """Time from arrival to end, relative to the execution time alone."""
        return self.completion / self.job.seconds


@dataclass(frozen=True, slots=True)
class SharingResult:
    """The finished jobs of one run, in the order of the list."""

    policy: str
    jobs: tuple[FinishedSharedJob, ...]


def check_jobs(jobs: Sequence[OneGpuJob], pairs: MeasuredPairs) -> None:
    """Check that there are jobs, that their IDs are unique and their models were measured.

    Raises:
        SimulationError: if the check fails; the message names the job, the field and the value.
    """
    if not jobs:
        raise SimulationError("jobs: the list is empty")
    for job in with_unique_ids(jobs):
        pairs.require(job.model, f"job {job.id}: model")
        if not job.seconds > 0:
            raise SimulationError(f"job {job.id}: seconds: {job.seconds:g}; must be above 0")
