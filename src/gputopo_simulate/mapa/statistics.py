"""What a run, or runs over several seeds, come to."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev
from types import MappingProxyType
from typing import Final

from gputopo_simulate.mapa.model import FinishedJob, Result

_MB_PER_GB: Final = 1000


class Group(StrEnum):
    """Jobs that are looked at together; one GPU has no link, so that only ALL has such jobs."""

    ALL = "all"
    SENSITIVE = "sensitive"
    INSENSITIVE = "insensitive"


_IN_GROUP: Final[Mapping[Group, Callable[[FinishedJob], bool]]] = MappingProxyType(
    {
        Group.ALL: lambda _finished: True,
        Group.SENSITIVE: lambda finished: _linked(finished) and finished.job.sensitive,
        Group.INSENSITIVE: lambda finished: _linked(finished) and not finished.job.sensitive,
    }
)


@dataclass(frozen=True, slots=True)
class Quartiles:
    """Five points of a distribution, between two values in proportion (numpy's default)."""

    minimum: float
    lower: float
    median: float
    upper: float
    maximum: float


@dataclass(frozen=True, slots=True)
class Summary:
    """One group of one run; None where no job has the figure.

    Attributes:
        jobs: how many there are.
        effective_gb_per_s: of the jobs of two GPUs and more.
        throughput: jobs of the whole run per unit of time, over its makespan.
    """

    jobs: int
    effective_gb_per_s: Quartiles | None
    execution_time: Quartiles | None
    queueing_time: Quartiles | None
    makespan: float
    throughput: float


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """A policy against another, as MAPA's table 3: above 1 is better.

    Attributes:
        minimum: shortest execution time there over shortest here, and so on.
        throughput: here over there.
    """

    minimum: float
    lower: float
    median: float
    upper: float
    maximum: float
    throughput: float


@dataclass(frozen=True, slots=True)
class Interval:
    """Mean over seeds, and how far the 95 % interval reaches to each side of it."""

    mean: float
    half_width: float


def of_group(result: Result, group: Group) -> tuple[FinishedJob, ...]:
    """Return the jobs of a group."""
    return tuple(filter(_IN_GROUP[group], result.jobs))


def effective_gb_per_s(jobs: Sequence[FinishedJob]) -> list[float]:
    """Return the effective bandwidths of the jobs that have links."""
    return [
        job.effective_mb_per_s / _MB_PER_GB
        for job in jobs
        if _linked(job) and job.effective_mb_per_s is not None
    ]


def summarize(result: Result, group: Group = Group.ALL) -> Summary:
    """Return the figures of a group of a run that has jobs."""
    jobs = of_group(result, group)
    return Summary(
        jobs=len(jobs),
        effective_gb_per_s=quartiles(effective_gb_per_s(jobs)),
        execution_time=quartiles([job.execution_time for job in jobs]),
        queueing_time=quartiles([job.queueing_time for job in jobs]),
        makespan=result.makespan,
        throughput=len(result.jobs) / result.makespan,
    )


def speed_up(baseline: Summary, other: Summary) -> SpeedUp | None:
    """Return how much better ``other`` is; None where there is no job in the group."""
    if baseline.execution_time is None or other.execution_time is None:
        return None
    slow, fast = baseline.execution_time, other.execution_time
    return SpeedUp(
        minimum=slow.minimum / fast.minimum,
        lower=slow.lower / fast.lower,
        median=slow.median / fast.median,
        upper=slow.upper / fast.upper,
        maximum=slow.maximum / fast.maximum,
        throughput=other.throughput / baseline.throughput,
    )


def quartiles(values: Sequence[float]) -> Quartiles | None:
    """Return minimum, 25, 50 and 75 % and maximum; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return Quartiles(*(_at(ordered, quarter / 4) for quarter in range(5)))


def interval(values: Sequence[float]) -> Interval:
    """Return mean and 95 % interval by Student's t; one value has no width."""
    if len(values) == 1:
        return Interval(values[0], 0.0)
    t = _T_95[min(len(values) - 1, len(_T_95)) - 1]
    return Interval(fmean(values), t * stdev(values) / math.sqrt(len(values)))


_T_95: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Student's t, two-sided 95 %, for 1 to 30 degrees of freedom; the last serves for more."""


def _at(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _linked(finished: FinishedJob) -> bool:
    return finished.job.pattern.size > 1
