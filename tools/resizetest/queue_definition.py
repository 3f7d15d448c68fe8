"""What the definitions of the queue's orders say about some jobs, without gputopo's code. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

ORDERS = ("FIFO", "SRTF", "LAS", "FTF")

_SAME_SECONDS = 1.0
"""The operator starts all jobs of one decision within this time."""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that waits in the queue.

    Attributes:
        seconds: how long it runs when it starts.
        expected_seconds: what its GPUJob states.
        ran_seconds: how long it ran before, until it was suspended.
        created: time of its creation, in seconds since 1970.
    """

    name: str
    gpus: int
    seconds: float
    expected_seconds: float
    ran_seconds: float = 0.0
    created: float = 0.0

    def key(self, order: str, now: float) -> float:
        """Return the number by which the order sorts it; the lowest is first."""
        remaining_seconds = self.expected_seconds - self.ran_seconds
        match order:
            case "FIFO":
                return self.created
            case "SRTF":
                return remaining_seconds
            case "LAS":
                return self.gpus * self.ran_seconds
            case _:  # FTF: (wait + remaining time) / expected duration, the highest is first
                return -(now - self.created + remaining_seconds) / self.expected_seconds


@dataclass(frozen=True, slots=True)
class JobRun:
    """One job from its start until its end; seconds since 1970."""

    job: QueuedJob
    start: float
    end: float


def sort_jobs(order: str, jobs: Collection[QueuedJob], now: float) -> list[QueuedJob]:
    """Return waiting jobs in the order of the queue."""
    return sorted(jobs, key=lambda job: (job.key(order, now), job.created, job.name))


def agrees(order: str, jobs: Sequence[QueuedJob], now: float, tolerance_seconds: float) -> bool:
    """Return whether jobs are in the order of the queue at a time that is not known exactly.

    Two neighbours may be the other way round if both orders occur within the tolerance of ``now``.
    Only FTF depends on the time.
    """
    keys = [
        [job.key(order, now - tolerance_seconds), job.key(order, now + tolerance_seconds)]
        for job in jobs
    ]
    return all(min(first) <= max(second) for first, second in pairwise(keys))


def expected_runs(
    order: str, jobs: Collection[QueuedJob], gpus: int, begin: float, extra_seconds: float
) -> list[JobRun]:
    """Return the runs on one node, in the order of their starts.

    When GPUs become free, the jobs are tried in the order of the queue, and each that fits starts.

    Args:
        order: of the queue.
        jobs: those that wait.
        gpus: of the node, all free at the begin.
        begin: time at which the first jobs start.
        extra_seconds: time from a job's end until its GPUs can be used again.
    """
    runs: list[JobRun] = []
    now, waiting = begin, list(jobs)
    while waiting:
        for job in sort_jobs(order, waiting, now):
            if job.gpus <= gpus - used(runs, now):
                runs.append(JobRun(job, now, now + job.seconds + extra_seconds))
                waiting.remove(job)
        now = min((run.end for run in runs if run.end > now), default=now)
    return runs


def used(runs: Collection[JobRun], at: float) -> int:
    """Return how many GPUs the runs have at a time."""
    return sum(run.job.gpus for run in runs if run.start <= at < run.end)


def mean_completion_seconds(runs: Collection[JobRun], begin: float) -> float:
    """Return the mean time from the begin to the end of a job."""
    return sum(run.end - begin for run in runs) / len(runs)


def starts_out_of_order(
    order: str, runs: Sequence[JobRun], gpus: int, tolerance_seconds: float
) -> list[str]:
    """Return the starts that the order forbids, by the observed times of starts and ends.

    A job may start only if no job that comes before it fits. GPUs that became free in the last
    ``tolerance_seconds`` may still be unknown to the operator, and count as used. Jobs that start
    at about the same time are started by one decision, so their sequence does not matter.

    Args:
        order: of the queue.
        runs: in the order of their starts.
        gpus: of the node.
        tolerance_seconds: see above.
    """
    found = []
    for number, run in enumerate(runs):
        former = [JobRun(it.job, it.start, it.end + tolerance_seconds) for it in runs[:number]]
        free = gpus - used(former, run.start)
        later = [it.job for it in runs[number:] if it.start > run.start + _SAME_SECONDS]
        waiting = sort_jobs(order, [run.job, *later], run.start)
        before = waiting[: waiting.index(run.job)]
        found += [
            f"{run.job.name} before {job.name}, which needs {job.gpus} of {free} free GPUs"
            for job in before
            if job.gpus <= free
        ]
    return found


def names(runs: Sequence[JobRun]) -> str:
    """Return the names of the jobs in the order of their starts."""
    return " ".join(run.job.name for run in runs)
