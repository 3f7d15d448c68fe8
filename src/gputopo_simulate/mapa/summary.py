"""Summarize runs: quartiles, and speed-ups."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gputopo_simulate.mapa.model import FinishedSimulatedJob, SimulationResult
from gputopo_simulate.percentiles import interpolated

_MB_PER_GB: Final = 1000


class JobGroup(StrEnum):
    """Groups of jobs for statistics. A job of one GPU has no link and is only in the group ALL."""

    ALL = "all"
    SENSITIVE = "sensitive"
    INSENSITIVE = "insensitive"


_IN_GROUP: Final[Mapping[JobGroup, Callable[[FinishedSimulatedJob], bool]]] = MappingProxyType(
    {
        JobGroup.ALL: lambda _finished: True,
        JobGroup.SENSITIVE: lambda finished: _has_links(finished) and finished.job.sensitive,
        JobGroup.INSENSITIVE: lambda finished: _has_links(finished) and not finished.job.sensitive,
    }
)


@dataclass(frozen=True, slots=True)
class Quartiles:
    """Minimum, quartiles and maximum of a distribution."""

    minimum: float
    lower: float
    median: float
    upper: float
    maximum: float


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Statistics of a group of jobs of one run; a field is None if no job has a value for it.

    Attributes:
        jobs: number of jobs in the group.
        effective_gb_per_s: effective bandwidth of the jobs of two GPUs or more.
        throughput: number of all jobs of the run, divided by the makespan.
    """

    jobs: int
    effective_gb_per_s: Quartiles | None
    execution_time: Quartiles | None
    makespan: float
    throughput: float


@dataclass(frozen=True, slots=True)
class SpeedUp(Quartiles):
    """Speed of one policy relative to another, as in MAPA's table 3; above 1 is faster.

    Attributes:
        minimum: shortest execution time with the other policy, divided by the shortest execution
            time with this policy. The quartiles and the maximum are ratios of the same kind.
        throughput: throughput with this policy, divided by that with the other policy.
    """

    throughput: float


def jobs_in_group(result: SimulationResult, group: JobGroup) -> tuple[FinishedSimulatedJob, ...]:
    """Return the jobs of a group."""
    return tuple(filter(_IN_GROUP[group], result.jobs))


def effective_gb_per_s(jobs: Sequence[FinishedSimulatedJob]) -> list[float]:
    """Return the effective bandwidths of the jobs that have links."""
    return [
        job.effective_mb_per_s / _MB_PER_GB
        for job in jobs
        if _has_links(job) and job.effective_mb_per_s is not None
    ]


def summarize(result: SimulationResult, group: JobGroup = JobGroup.ALL) -> GroupSummary:
    """Return the statistics of a group of jobs; the run has at least one job."""
    jobs = jobs_in_group(result, group)
    return GroupSummary(
        jobs=len(jobs),
        effective_gb_per_s=quartiles(effective_gb_per_s(jobs)),
        execution_time=quartiles([job.execution_time for job in jobs]),
        makespan=result.makespan,
        throughput=len(result.jobs) / result.makespan,
    )


def speed_up(baseline: GroupSummary, other: GroupSummary) -> SpeedUp | None:
    """Return the speed-up of ``other`` over ``baseline``, or None if a group has no jobs."""
    if baseline.execution_time is None or other.execution_time is None:
        return None
    slow, fast = baseline.execution_time, other.execution_time
    times = zip(astuple(slow), astuple(fast), strict=True)
    ratios = [before / after for before, after in times]
    ratios.append(other.throughput / baseline.throughput)
    return SpeedUp(*ratios)


def quartiles(values: Sequence[float]) -> Quartiles | None:
    """Return minimum, quartiles and maximum, or None if there are no values."""
    if not values:
        return None
    ordered = sorted(values)
    return Quartiles(*(interpolated(ordered, quarter / 4) for quarter in range(5)))


def _has_links(finished: FinishedSimulatedJob) -> bool:
    return finished.job.pattern.size > 1
