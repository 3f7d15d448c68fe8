"""What a run comes to, in hours: job completion times, and the document of ``gputopo synergy``."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import NamedTuple, TypeAlias

from gputopo_simulate.synergy.model import SECONDS_PER_HOUR, FinishedJob

Percentile: TypeAlias = Callable[[Sequence[float], float], float]
"""Which value stands for a share 0..1 of ascending ones."""


class Times(NamedTuple):
    """The hours of one job.

    Attributes:
        jct: from arrival to end, waiting and all.
    """

    id: int
    arrival: float
    finish: float
    jct: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Hours, over the jobs that are looked at.

    Attributes:
        makespan: from time 0 to the end of the last of them.
        mean_jct: of the times from arrival to end, waiting and all.
    """

    makespan: float
    mean_jct: float
    median_jct: float
    p99_jct: float


def times(job: FinishedJob) -> Times:
    """Return when a job came and ended, and how long that took."""
    arrival, finish = job.arrival_s / SECONDS_PER_HOUR, job.finish_s / SECONDS_PER_HOUR
    return Times(job.id, arrival, finish, job.jct_s / SECONDS_PER_HOUR)


def logged_times(job: FinishedJob) -> Times:
    """Return the same as the log of the authors' program has it: hours with two decimals."""
    _, arrival, finish, _ = (round(hours, 2) for hours in times(job))
    return Times(job.id, arrival, finish, round(finish - arrival, 2))


def between(ordered: Sequence[float], share: float) -> float:
    """Return a percentile of ascending values, between two of them in proportion."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def nearest(ordered: Sequence[float], share: float) -> float:
    """Return a percentile of ascending values, the nearest one there is."""
    return ordered[round(share * (len(ordered) - 1))]


def figures(jobs: Sequence[Times], percentile: Percentile = between) -> Figures:
    """Return the figures of one job at least.

    Times are added one after another, as they were for the authors' figures: a mean of
    3.6755 is 3.676 there by the last bit of such a sum.
    """
    ordered = sorted(job.jct for job in jobs)
    return Figures(
        makespan=max(job.finish for job in jobs),
        mean_jct=reduce(add, ordered) / len(ordered),
        median_jct=percentile(ordered, 0.5),
        p99_jct=percentile(ordered, 0.99),
    )


def keyed(found: Figures) -> dict[str, float]:
    """Return figures by the names that they have in documents."""
    return {
        "makespanHours": found.makespan,
        "meanJctHours": found.mean_jct,
        "medianJctHours": found.median_jct,
        "p99JctHours": found.p99_jct,
    }


def job_document(job: Times) -> dict[str, object]:
    """Return one job of a run."""
    return {
        "id": job.id,
        "arrivalHours": job.arrival,
        "finishHours": job.finish,
        "jctHours": job.jct,
    }
