"""Statistics of a run, and their JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from gputopo.topology.model import indices_of
from gputopo_simulate.percentiles import nearest
from gputopo_simulate.sc17.model import SLOW, FinishedCaffeJob, Sc17Result

_MS_PER_SECOND = 1e3


@dataclass(frozen=True, slots=True)
class Sc17Figures:
    """Statistics of the jobs of a run. Times are in seconds, slowdowns relative to the ideal time.

    Attributes:
        slow_jobs: jobs whose execution took over 10 % longer than the ideal.
        mean_slowdown: mean additional execution time.
        mean_slowdown_with_wait: mean additional time from arrival to end.
    """

    makespan: float
    slow_jobs: int
    mean_slowdown: float
    mean_slowdown_with_wait: float
    mean_wait: float
    max_wait: float


@dataclass(frozen=True, slots=True)
class DecisionTimes:
    """Number of decisions, and percentiles of their times in milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float


def figures(jobs: Sequence[FinishedCaffeJob]) -> Sc17Figures:
    """Return the statistics of at least one job."""
    waits = [job.wait for job in jobs]
    return Sc17Figures(
        makespan=max(job.end for job in jobs),
        slow_jobs=sum(job.slowdown > SLOW for job in jobs),
        mean_slowdown=fmean(job.slowdown for job in jobs),
        mean_slowdown_with_wait=fmean(job.slowdown_with_wait for job in jobs),
        mean_wait=fmean(waits),
        max_wait=max(waits),
    )


def decision_times(result: Sc17Result) -> DecisionTimes | None:
    """Return the times of decisions; None if the run measured none."""
    ordered = sorted(result.decision_seconds)
    if not ordered:
        return None
    p50, p99 = (nearest(ordered, fraction) * _MS_PER_SECOND for fraction in (0.5, 0.99))
    return DecisionTimes(len(ordered), p50, p99)


def figures_document(result: Sc17Result) -> dict[str, object]:
    """Return the JSON of the statistics of a run."""
    found, times = figures(result.jobs), decision_times(result)
    return {
        "policy": result.policy,
        "makespanSeconds": found.makespan,
        "slowJobs": found.slow_jobs,
        "meanSlowdown": found.mean_slowdown,
        "meanSlowdownWithWait": found.mean_slowdown_with_wait,
        "meanWaitSeconds": found.mean_wait,
        "maxWaitSeconds": found.max_wait,
        "decisions": None
        if times is None
        else {"count": times.count, "p50Ms": times.p50_ms, "p99Ms": times.p99_ms},
    }


def job_document(finished: FinishedCaffeJob) -> dict[str, object]:
    """Return the JSON of one job."""
    job = finished.job
    return {
        "id": job.id,
        "net": job.net,
        "batch": job.batch,
        "machine": finished.machine,
        "gpus": list(indices_of(finished.gpus)),
        "arrivalSeconds": job.arrival,
        "startSeconds": finished.start,
        "endSeconds": finished.end,
        "slowdown": finished.slowdown,
        "jobUtility": finished.job_utility,
        "minUtility": job.min_utility,
        "utility": finished.utility,
    }
