"""Compares the chosen GPUs with the next best sets, and with those of an idle node."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gputopo.bandwidth.effective import effective_table
from gputopo.placement.model import Match
from gputopo.placement.place import ranking
from gputopo.topology.model import GpuIndex, NodeTopology
from gputopo.utility.utility import permille
from gputopo_explain.placed.recorded import DecisionInput
from gputopo_explain.placed.terms import UtilityExplanation, explain_utility

MOST_ALTERNATIVES: Final = 3


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """One GPU set, compared with the chosen set. All bandwidths are in MB/s.

    Attributes:
        gpus: the GPU of each rank.
        effective: effective bandwidth; None for one GPU.
        effective_difference: effective bandwidth minus that of the chosen set; None for one GPU.
        effective_percent: the same in percent of the chosen set's; None if that is 0 or unknown.
        preserved: bandwidth between the GPUs that stay free.
        preserved_difference: preserved bandwidth minus that of the chosen set.
        preserved_percent: the same in percent of the chosen set's; None if that is 0.
        utility: utility in per mille; None for all policies except Utility.
    """

    gpus: tuple[GpuIndex, ...]
    effective: int | None
    effective_difference: int | None
    effective_percent: float | None
    aggregate: int
    preserved: int
    preserved_difference: int
    preserved_percent: float | None
    utility: int | None = None


@dataclass(frozen=True, slots=True)
class IdleNode:
    """What the pod would have got if all GPUs of the node had been free.

    Attributes:
        choice: the set that the policy would have chosen.
        most_effective: highest effective bandwidth of all sets of this size, in MB/s; None for one
            GPU.
        reached_percent: effective bandwidth of the chosen set in percent of ``most_effective``.
    """

    choice: GpuChoice
    most_effective: int | None
    reached_percent: float | None


@dataclass(frozen=True, slots=True)
class Choices:
    """The chosen set and what it is compared with.

    Attributes:
        model: name of the bandwidth model; None for one GPU.
        alternatives: the next best sets by the policy, best first.
        utility: why the chosen set has its utility; None for all policies except Utility.
    """

    model: str | None
    chosen: GpuChoice
    alternatives: tuple[GpuChoice, ...]
    idle: IdleNode
    utility: UtilityExplanation | None = None


def choices(topology: NodeTopology, decision: DecisionInput) -> Choices:
    """Return the choice of a decision and its alternatives.

    The decision must fit: :func:`gputopo.placement.place.place` returns a match for it.
    """
    found = _ranked(topology, decision, topology_free=False, most=1 + MOST_ALTERNATIVES)
    [idle] = _ranked(topology, decision, topology_free=True, most=1)
    best = found[0]
    table = effective_table(topology, decision.request.pattern, decision.model)
    most = table.worst_and_best[1] if table.worst_and_best else None
    chosen, *others = (_compared(match, best) for match in found)
    return Choices(
        best.model,
        chosen,
        tuple(others),
        IdleNode(_compared(idle, best), most, _percent(best.effective_mb_per_s, most)),
        explain_utility(topology, decision, best, found[1] if len(found) > 1 else None),
    )


def _ranked(
    topology: NodeTopology, decision: DecisionInput, *, topology_free: bool, most: int
) -> Sequence[Match]:
    free, around, usable = decision.free, decision.surroundings, decision.usable
    if topology_free:
        free, around, usable = topology.mask, around and replace(around, neighbours=()), None
    return ranking(topology, free, decision.request, decision.model, around, usable, most=most)


def _compared(match: Match, chosen: Match) -> GpuChoice:
    effective, before = match.effective_mb_per_s, chosen.effective_mb_per_s
    difference = None if effective is None or before is None else effective - before
    preserved = match.preserved_mb_per_s - chosen.preserved_mb_per_s
    return GpuChoice(
        gpus=match.gpus,
        effective=effective,
        effective_difference=difference,
        effective_percent=_percent(difference, before),
        aggregate=match.aggregate_mb_per_s,
        preserved=match.preserved_mb_per_s,
        preserved_difference=preserved,
        preserved_percent=_percent(preserved, chosen.preserved_mb_per_s),
        utility=None if match.utility is None else permille(match.utility.value),
    )


def _percent(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else 100 * part / whole
