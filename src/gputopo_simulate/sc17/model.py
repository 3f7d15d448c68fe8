"""Types of the simulators: jobs, finished jobs and the result of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gputopo.topology.model import GpuMask
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.job_ids import with_unique_ids
from gputopo_simulate.sc17.profiles import CaffeProfiles

SLOW: Final = 0.1
"""A job is slow if its execution takes over 10 % longer than alone on its best GPUs."""


@dataclass(frozen=True, slots=True)
class CaffeJob:
    """One job of a list. Times are in seconds.

    Attributes:
        net: the neural network, such as ``bvlc_alexnet``.
        batch: samples of one GPU in a training step.
        min_utility: utility for the job below which TOPO-AWARE-P postpones it.
    """

    id: int
    arrival: float
    net: str
    batch: int
    gpus: int
    min_utility: float


@dataclass(frozen=True, slots=True)
class FinishedCaffeJob:
    """A finished job.

    Attributes:
        machine: number of its machine, from 0.
        ideal: execution time alone on the best GPUs.
        job_utility: its utility for the job when it started.
        utility: its utility for the cluster when it started.
    """

    job: CaffeJob
    machine: int
    gpus: GpuMask
    start: float
    end: float
    ideal: float
    job_utility: float
    utility: float

    @property
    def wait(self) -> float:
        """Time from arrival to start."""
        return self.start - self.job.arrival

    @property
    def slowdown(self) -> float:
        """Additional execution time, relative to the ideal: 0.25 is 25 % more."""
        return (self.end - self.start) / self.ideal - 1

    @property
    def slowdown_with_wait(self) -> float:
        """Additional time from arrival to end, relative to the ideal execution time."""
        return (self.end - self.job.arrival) / self.ideal - 1


@dataclass(frozen=True, slots=True)
class Sc17Result:
    """The finished jobs of one run, in the order of the list.

    Attributes:
        decision_seconds: time of each choice of GPUs; empty if the run measured none.
    """

    policy: str
    jobs: tuple[FinishedCaffeJob, ...]
    decision_seconds: tuple[float, ...] = ()

    @property
    def makespan(self) -> float:
        """End of the last job, from time 0; the paper calls it cumulative execution time."""
        return max(job.end for job in self.jobs)


def check_jobs(jobs: Sequence[CaffeJob], profiles: CaffeProfiles) -> None:
    """Check that there are jobs, that their IDs are unique and their times were measured.

    Raises:
        SimulationError: if the check fails; the message names the job, the field and the value.
    """
    if not jobs:
        raise SimulationError("jobs: the list is empty")
    for job in with_unique_ids(jobs):
        profiles.require(f"job {job.id}", job.net, job.batch, job.gpus)


def unreachable_minimum(job: CaffeJob) -> SimulationError:
    """Return the error for a job that waits for its minimum on idle machines."""
    return SimulationError(
        f"job {job.id}: min_utility: no placement on idle machines reaches the minimum of this"
        " job, so it would wait forever; use a lower one or a longest wait"
    )
