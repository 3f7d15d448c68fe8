"""Statistics of simulated ensembles, paired differences over several seeds, and their JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from gputopo_simulate.ensemble.policies import EnsemblePolicy
from gputopo_simulate.ensemble.run import EnsembleResult
from gputopo_simulate.intervals import ConfidenceInterval, mean_change

_SECONDS_PER_HOUR: Final = 3600


@dataclass(frozen=True, slots=True)
class EnsembleComparison:
    """Statistics of a policy over several seeds. Times are in hours.

    Attributes:
        makespan: mean of all seeds.
        change: paired change of the makespan against the first policy.
        bound: mean of the lower bounds of the makespan.
        idle: mean share of the GPU time that no member used.
        worst_idle: the highest of these shares.
        flotillas: mean number.
        borders: mean number of node borders inside members.
        restarts: mean number.
        plan_seconds: longest time of a first plan; None if it was not measured.
    """

    policy: EnsemblePolicy
    makespans: tuple[float, ...]
    change: ConfidenceInterval
    bound: float
    idle: float
    worst_idle: float
    flotillas: float
    borders: float
    restarts: float
    plan_seconds: float | None

    @property
    def makespan(self) -> float:
        """The mean makespan."""
        return fmean(self.makespans)


def compare(results: Sequence[Sequence[EnsembleResult]]) -> list[EnsembleComparison]:
    """Compare policies on the same ensembles; ``results`` has the results of each seed."""
    by_policy = list(zip(*results, strict=True))
    return [_comparison(own, by_policy[0]) for own in by_policy]


def comparison_document(compared: EnsembleComparison) -> dict[str, object]:
    """Return the JSON of the statistics of a policy."""
    return {
        "policy": compared.policy.value,
        "makespanHours": compared.makespan,
        "makespanChange": {
            "mean": compared.change.mean,
            "halfWidth": compared.change.half_width,
        },
        "boundHours": compared.bound,
        "meanIdle": compared.idle,
        "worstIdle": compared.worst_idle,
        "flotillas": compared.flotillas,
        "nodeBorders": compared.borders,
        "restarts": compared.restarts,
        "planSeconds": compared.plan_seconds,
        "makespansHours": list(compared.makespans),
    }


def _comparison(
    own: Sequence[EnsembleResult], first: Sequence[EnsembleResult]
) -> EnsembleComparison:
    pairs = zip(own, first, strict=True)
    times = [each.plan_seconds for each in own if each.plan_seconds is not None]
    return EnsembleComparison(
        policy=own[0].policy,
        makespans=tuple(each.makespan / _SECONDS_PER_HOUR for each in own),
        change=mean_change([(one.makespan, other.makespan) for one, other in pairs]),
        bound=fmean(each.bound for each in own) / _SECONDS_PER_HOUR,
        idle=fmean(each.idle for each in own),
        worst_idle=max(each.idle for each in own),
        flotillas=fmean(each.flotillas for each in own),
        borders=fmean(each.borders for each in own),
        restarts=fmean(each.restarts for each in own),
        plan_seconds=max(times, default=None),
    )
