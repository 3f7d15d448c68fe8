"""Explains the utility of a placement: each term with its cost, and the jobs beside the pod."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gputopo.placement.model import Match
from gputopo.topology.model import GpuMask, NodeTopology, mask_of
from gputopo.utility.communication import sockets, sockets_of
from gputopo.utility.cost import Cost
from gputopo.utility.interference import SlowdownSource
from gputopo.utility.surroundings import INSTALLATION_WEIGHTS, NodeNeighbour
from gputopo.utility.utility import PlacementUtility, UtilityWeights, permille
from gputopo_explain.placed.recorded import DecisionInput

UNKNOWN_WORKLOAD: Final = "a workload without a known slowdown"


@dataclass(frozen=True, slots=True)
class UtilityTerm:
    """One term of the utility.

    Attributes:
        name: ``communication``, ``interference`` or ``fragmentation``.
        chosen: term of the chosen GPUs, in per mille.
        next_best: term of the next best GPUs, in per mille; None if there are none.
        cost: cost of the chosen GPUs in words, with the best and the worst case.
    """

    name: str
    weight_percent: int
    chosen: int
    next_best: int | None
    cost: str


@dataclass(frozen=True, slots=True)
class BesideJob:
    """A job beside the pod, and the slowdowns in percent that were assumed.

    Attributes:
        same_socket: whether the job uses a socket of the pod.
        suffered, caused: how much the job slows the pod down, and the pod the job.
        suffered_from, caused_from: how this was known.
    """

    workload: str
    same_socket: bool
    suffered: int
    suffered_from: SlowdownSource
    caused: int
    caused_from: SlowdownSource

    def __str__(self) -> str:
        return (
            f"{self.workload}{'' if self.same_socket else ' on another socket'}: slows the pod by"
            f" {self.suffered} % ({self.suffered_from}), is slowed by {self.caused} %"
            f" ({self.caused_from})"
        )


@dataclass(frozen=True, slots=True)
class UtilityExplanation:
    """Why a GPU set has its utility. Utilities are in per mille.

    Attributes:
        next_best: utility of the next best GPUs; None if there are none.
        for_job: utility for the job, which is compared with the requested minimum.
        minimum_percent: None if the job requested none.
        beside: the jobs that count, the one that slows the pod most first.
    """

    terms: tuple[UtilityTerm, ...]
    chosen: int
    next_best: int | None
    for_job: int
    minimum_percent: int | None
    beside: tuple[BesideJob, ...]


def explain_utility(
    topology: NodeTopology, decision: DecisionInput, chosen: Match, next_best: Match | None
) -> UtilityExplanation | None:
    """Return the explanation of a decision; None for all policies except Utility."""
    found = chosen.utility
    if found is None:
        return None
    around = decision.surroundings
    other = next_best.utility if next_best else None
    weights = around.weights if around else INSTALLATION_WEIGHTS
    beside = _beside(topology, mask_of(chosen.gpus), around.neighbours if around else ())
    return UtilityExplanation(
        terms=_terms(found, other, weights),
        chosen=permille(found.value),
        next_best=None if other is None else permille(other.value),
        for_job=permille(found.job_value),
        minimum_percent=decision.request.min_utility_percent,
        beside=tuple(sorted(beside, key=lambda job: (-job.suffered, -job.caused, job.workload))),
    )


def _terms(
    chosen: PlacementUtility, other: PlacementUtility | None, weights: UtilityWeights
) -> tuple[UtilityTerm, ...]:
    texts = {
        "communication": _text("path length", chosen.costs.communication, ""),
        "interference": _text(
            "half the sum of the slowdowns", _percents(chosen.costs.interference, 1), " %"
        ),
        "fragmentation": _text(
            "free part of its sockets", _percents(chosen.costs.fragmentation, 0), " %"
        ),
    }
    return tuple(
        UtilityTerm(
            name,
            weight,
            _permille_of(chosen, name),
            None if other is None else _permille_of(other, name),
            text,
        )
        for (name, text), weight in zip(texts.items(), weights.percents, strict=True)
    )


def _permille_of(found: PlacementUtility, name: str) -> int:
    cost: Cost = getattr(found.costs, name)
    return round(1000 * cost.term)


def _percents(cost: Cost, least: int) -> Cost:
    """Return a cost in percent above ``least``: the slowdown 1.24 is 24 %."""
    value, best, worst = (round(100 * (it - least)) for it in (cost.value, cost.best, cost.worst))
    return Cost(value, best, worst)


def _text(what: str, cost: Cost, unit: str) -> str:
    return f"{what} {cost.value:g}{unit}; best {cost.best:g}{unit}, worst {cost.worst:g}{unit}"


def _beside(
    topology: NodeTopology, gpus: GpuMask, neighbours: Iterable[NodeNeighbour]
) -> Iterator[BesideJob]:
    near = sockets_of(gpus, sockets(topology))
    for each in neighbours:
        name = each.workload or UNKNOWN_WORKLOAD
        if each.gpus & near:
            suffered, caused = each.suffered, each.caused
            yield BesideJob(
                name, True, suffered.percent, suffered.source, caused.percent, caused.source
            )
        elif each.far is not None:
            measured = SlowdownSource.MEASURED
            yield BesideJob(name, False, each.far[0], measured, each.far[1], measured)
