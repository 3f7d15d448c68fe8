"""What a run comes to: job completion times, and the document of ``gputopo synergy``."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from gputopo.simulate.synergy.model import SECONDS_PER_HOUR, FinishedJob


@dataclass(frozen=True, slots=True)
class Figures:
    """Hours, over the jobs that are looked at.

    Attributes:
        makespan: from time 0 to the end of the last of them.
        mean_jct: of the times from arrival to end, waiting and all.
        p99_jct: between two values in proportion, as the authors' program has it.
    """

    makespan: float
    mean_jct: float
    median_jct: float
    p99_jct: float


def figures(finished: Sequence[FinishedJob]) -> Figures:
    """Return the figures of one job at least."""
    times = jct_hours(finished)
    return Figures(
        makespan=max(job.finish_s for job in finished) / SECONDS_PER_HOUR,
        mean_jct=fmean(times),
        median_jct=percentile(times, 0.5),
        p99_jct=percentile(times, 0.99),
    )


def figures_of_the_log(finished: Sequence[FinishedJob]) -> Figures:
    """Return the same as it is read off the log of the authors' program.

    That has the ends and the arrivals in hours with two decimals; of so many times a
    percentile is then the nearest one there is.
    """
    times = sorted(
        round(job.finish_s / SECONDS_PER_HOUR, 2) - round(job.arrival_s / SECONDS_PER_HOUR, 2)
        for job in finished
    )
    return Figures(
        makespan=round(max(job.finish_s for job in finished) / SECONDS_PER_HOUR, 2),
        mean_jct=fmean(times),
        median_jct=times[round(0.5 * (len(times) - 1))],
        p99_jct=times[round(0.99 * (len(times) - 1))],
    )


def jct_hours(finished: Sequence[FinishedJob]) -> list[float]:
    """Return the completion times, ascending."""
    return sorted(job.jct_s / SECONDS_PER_HOUR for job in finished)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return a percentile of ascending values, between two of them in proportion."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def keyed(found: Figures) -> dict[str, float]:
    """Return figures by the names that they have in documents."""
    return {
        "makespanHours": found.makespan,
        "meanJctHours": found.mean_jct,
        "medianJctHours": found.median_jct,
        "p99JctHours": found.p99_jct,
    }


def job_document(job: FinishedJob) -> dict[str, object]:
    """Return one job of a run."""
    return {
        "id": job.id,
        "arrivalHours": job.arrival_s / SECONDS_PER_HOUR,
        "finishHours": job.finish_s / SECONDS_PER_HOUR,
        "jctHours": job.jct_s / SECONDS_PER_HOUR,
    }
