"""Statistics of runs, their differences over several seeds, and their JSON."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from statistics import fmean
from typing import Final

from gputopo_simulate.intervals import ConfidenceInterval, mean_change
from gputopo_simulate.percentiles import interpolated
from gputopo_simulate.sharing.model import FirstChoice, SharingResult

_SECONDS_PER_HOUR: Final = 3600
_P99: Final = 0.99


@dataclass(frozen=True, slots=True)
class PolicyFigures:
    """Statistics of the jobs of a run. Times are in hours.

    Attributes:
        makespan: end of the last job.
        completion: mean time from arrival to end.
        p99_slowdown: 99th percentile of the time from arrival to end, relative to the time alone.
        stretch: mean time from first start to end, relative to the time alone.
        choices: share of the jobs that found no empty GPU when they arrived.
        wrong: share of wrong decisions of these jobs; 0 if there are none.
        moves: how often a sharing was ended.
    """

    makespan: float
    completion: float
    p99_slowdown: float
    stretch: float
    choices: float
    wrong: float
    moves: float


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """Statistics of one policy over several job lists.

    Attributes:
        figures: statistics of each list.
        makespan: paired change against the first policy, relative: -0.5 is half.
        completion: the same for the mean completion time.
    """

    policy: str
    figures: tuple[PolicyFigures, ...]
    makespan: ConfidenceInterval
    completion: ConfidenceInterval

    @property
    def mean(self) -> PolicyFigures:
        """The mean of each statistic over the lists."""
        return PolicyFigures(*map(fmean, zip(*map(astuple, self.figures), strict=True)))


def figures(result: SharingResult) -> PolicyFigures:
    """Return the statistics of a run."""
    jobs = result.jobs
    choices = [job.first_choice for job in jobs if job.first_choice != FirstChoice.NOT_NEEDED]
    return PolicyFigures(
        makespan=max(job.end for job in jobs) / _SECONDS_PER_HOUR,
        completion=fmean(job.completion for job in jobs) / _SECONDS_PER_HOUR,
        p99_slowdown=interpolated(sorted(job.slowdown for job in jobs), _P99),
        stretch=fmean(job.stretch for job in jobs),
        choices=len(choices) / len(jobs),
        wrong=sum(each != FirstChoice.RIGHT for each in choices) / max(1, len(choices)),
        moves=sum(job.moves for job in jobs),
    )


def compare(runs: Sequence[Sequence[SharingResult]]) -> list[PolicyComparison]:
    """Compare policies on the same job lists; ``runs`` has the results of each list."""
    by_policy = [tuple(map(figures, results)) for results in zip(*runs, strict=True)]
    first = by_policy[0]
    return [
        PolicyComparison(
            results[0].policy,
            own,
            mean_change(
                [(one.makespan, other.makespan) for one, other in zip(own, first, strict=True)]
            ),
            mean_change(
                [(one.completion, other.completion) for one, other in zip(own, first, strict=True)]
            ),
        )
        for own, results in zip(by_policy, zip(*runs, strict=True), strict=True)
    ]


def comparison_document(compared: PolicyComparison) -> dict[str, object]:
    """Return the JSON of the statistics of a policy."""
    return {
        "policy": compared.policy,
        "mean": _document(compared.mean),
        "makespanChange": _interval_document(compared.makespan),
        "completionChange": _interval_document(compared.completion),
        "lists": [_document(each) for each in compared.figures],
    }


def _interval_document(interval: ConfidenceInterval) -> dict[str, float | None]:
    return {"mean": interval.mean, "halfWidth": interval.half_width}


def _document(found: PolicyFigures) -> dict[str, float]:
    return {
        "makespanHours": found.makespan,
        "meanCompletionHours": found.completion,
        "p99Slowdown": found.p99_slowdown,
        "meanStretch": found.stretch,
        "sharingDecisions": found.choices,
        "wrongDecisions": found.wrong,
        "endedSharings": found.moves,
    }
