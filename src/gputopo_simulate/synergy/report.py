"""Job completion times and other results of a run in hours, and their JSON."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import NamedTuple, TypeAlias

from gputopo_simulate.percentiles import interpolated
from gputopo_simulate.synergy.model import SECONDS_PER_HOUR, FinishedTrainingJob

PercentileFunction: TypeAlias = Callable[[Sequence[float], float], float]
"""See :mod:`gputopo_simulate.percentiles`."""


class JobHours(NamedTuple):
    """Times of one finished job, in hours.

    Attributes:
        jct: job completion time, the time from arrival to finish.
    """

    id: int
    arrival: float
    finish: float
    jct: float


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Completion times and makespan of the monitored jobs of a run, in hours.

    Attributes:
        makespan: end of the last job, from time 0.
        mean_jct: mean job completion time.
    """

    makespan: float
    mean_jct: float
    median_jct: float
    p99_jct: float


def job_hours(job: FinishedTrainingJob) -> JobHours:
    """Return the times of a job in hours."""
    arrival = job.arrival_seconds / SECONDS_PER_HOUR
    finish = job.finish_seconds / SECONDS_PER_HOUR
    return JobHours(job.id, arrival, finish, job.jct_seconds / SECONDS_PER_HOUR)


def logged_hours(job: FinishedTrainingJob) -> JobHours:
    """Return the times of a job in hours with two decimals, as the authors' program logs them."""
    _, arrival, finish, _ = (round(hours, 2) for hours in job_hours(job))
    return JobHours(job.id, arrival, finish, round(finish - arrival, 2))


def run_figures(
    jobs: Sequence[JobHours], percentile: PercentileFunction = interpolated
) -> RunFigures:
    """Return the statistics of ``jobs``, which has at least one job.

    The times are added one after another in floating point, as in the authors' program, because one
    of its printed means (3.6755 before it is rounded) depends on the rounding error of the sum.
    """
    ordered = sorted(job.jct for job in jobs)
    return RunFigures(
        makespan=max(job.finish for job in jobs),
        mean_jct=reduce(add, ordered) / len(ordered),
        median_jct=percentile(ordered, 0.5),
        p99_jct=percentile(ordered, 0.99),
    )


def figures_document(figures: RunFigures) -> dict[str, float]:
    """Return the JSON of these statistics."""
    return {
        "makespanHours": figures.makespan,
        "meanJctHours": figures.mean_jct,
        "medianJctHours": figures.median_jct,
        "p99JctHours": figures.p99_jct,
    }


def job_document(job: JobHours) -> dict[str, object]:
    """Return the JSON of one job."""
    return {
        "id": job.id,
        "arrivalHours": job.arrival,
        "finishHours": job.finish,
        "jctHours": job.jct,
    }
