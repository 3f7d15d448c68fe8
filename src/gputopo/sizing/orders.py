"""Orders of the job queue, called policies in the Synergy paper (section 2).

Each order is a key function. Jobs with equal keys are ordered by arrival and then by ID, so that
equal input gives an equal order.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias


class JobProgress(NamedTuple):
    """Times of an unfinished job. A queue order sorts jobs by them.

    Attributes:
        attained_gpu_seconds: run time so far, multiplied by the number of GPUs.
        remaining_seconds: rest of the run time, if the job runs with its proportional share.
        alone_seconds: total run time with this share and without waiting; more than 0.
    """

    job: str
    arrival_seconds: float
    attained_gpu_seconds: float
    remaining_seconds: float
    alone_seconds: float


OrderKey: TypeAlias = Callable[[JobProgress, float], float]
"""Returns a number for a job and the current time. The job with the lowest number runs first."""


def fifo(progress: JobProgress, now_seconds: float) -> float:  # noqa: ARG001 - one signature
    """First in, first out."""
    return progress.arrival_seconds


def srtf(progress: JobProgress, now_seconds: float) -> float:  # noqa: ARG001 - one signature
    """Shortest remaining time first."""
    return progress.remaining_seconds


def las(progress: JobProgress, now_seconds: float) -> float:  # noqa: ARG001 - one signature
    """Least attained service first (Tiresias); service is run time multiplied by GPUs."""
    return progress.attained_gpu_seconds


def ftf(progress: JobProgress, now_seconds: float) -> float:
    """The job with the highest finish-time fairness first (Themis). A high value is a long delay.

    Finish-time fairness is the time from arrival to end if the job runs from now on, divided by
    ``alone_seconds``, the run time of the job in an idle cluster.
    """
    waited_seconds = now_seconds - progress.arrival_seconds
    return -(waited_seconds + progress.remaining_seconds) / progress.alone_seconds


ORDERS: Final[Mapping[str, OrderKey]] = MappingProxyType(
    {"fifo": fifo, "srtf": srtf, "las": las, "ftf": ftf}
)


def sort_jobs(
    order: OrderKey, jobs: Iterable[JobProgress], now_seconds: float
) -> list[JobProgress]:
    """Return the jobs in queue order."""
    return sorted(jobs, key=lambda each: (order(each, now_seconds), each.arrival_seconds, each.job))
