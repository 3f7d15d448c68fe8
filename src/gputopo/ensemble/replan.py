"""Plans again after a member ended, GPUs were taken, or rates were wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputopo.ensemble.model import EnsembleMember, EnsembleSettings, MemberPlacement, NodeGpuCount
from gputopo.ensemble.plan import EnsemblePlan, plan_ensemble
from gputopo.ensemble.starts import members_to_start


@dataclass(frozen=True, slots=True)
class WrongRate:
    """A member whose measured rate differs from the planned one by more than the limit."""

    member: str
    gpus: int
    planned: float
    measured: float

    @property
    def text(self) -> str:
        """Describe the difference."""
        percent = 100 * (self.measured / self.planned - 1)
        return (
            f"{self.member} makes {self.measured:.4g} items per second with {self.gpus} GPUs,"
            f" planned {self.planned:.4g} ({percent:+.0f} %)"
        )


@dataclass(frozen=True, slots=True)
class NewPlan:
    """What changes now.

    Attributes:
        plan: the new plan of the members that are not in ``running`` any more or not yet.
        stop: members that run and must stop, with the reason: their GPUs were taken, or a restart
            with another number of GPUs ends the ensemble earlier.
        start: members that start as soon as the stopped ones have ended.
        keeps: members that run on.
    """

    plan: EnsemblePlan
    stop: Mapping[str, str]
    start: tuple[MemberPlacement, ...]
    keeps: tuple[str, ...]


def replan(
    members: Sequence[EnsembleMember],
    running: Mapping[str, MemberPlacement],
    nodes: Sequence[NodeGpuCount],
    settings: EnsembleSettings,
) -> NewPlan:
    """Return the new plan, and what changes now.

    Members whose GPUs were taken stop. The other running members keep their GPUs, and the waiting
    members are planned again. If members can be restarted, a plan for all members on all GPUs is
    compared with that: it is chosen if the ensemble then ends earlier by more than the stated part,
    including the time of a restart.

    Args:
        members: members that have not ended, with corrected rates and the items left.
        running: placements of the members that run.
        nodes: nodes with all GPUs that the ensemble may use now, free or in use by its members.
        settings: limits and rules.
    """
    lost = _lost(running, nodes)
    keeps = {name: each for name, each in running.items() if name not in lost}
    plan = plan_ensemble(members, nodes, settings, keeps)
    if settings.restarts and keeps:
        other = plan_ensemble(members, nodes, settings)
        limit = (1 - settings.least_gain) * plan.seconds
        if other.seconds + settings.restart_seconds < limit:
            return _with_restarts(other, keeps, lost, nodes, settings)
    return _changes(plan, keeps, lost, nodes, settings)


def _with_restarts(
    plan: EnsemblePlan,
    keeps: Mapping[str, MemberPlacement],
    stop: Mapping[str, str],
    nodes: Sequence[NodeGpuCount],
    settings: EnsembleSettings,
) -> NewPlan:
    """Stop the running members of which the plan wants another number of GPUs, or a later start."""
    first = {member.name: member.gpus for member in plan.flotillas[0].members}
    kept = {name: each for name, each in keeps.items() if first.get(name) == each.gpus}
    reasons = {
        name: f"continues with {first[name]} GPUs instead of {each.gpus}"
        if name in first
        else "continues in a later flotilla"
        for name, each in keeps.items()
        if name not in kept
    }
    return _changes(plan, kept, {**stop, **reasons}, nodes, settings)


def _changes(
    plan: EnsemblePlan,
    keeps: Mapping[str, MemberPlacement],
    stop: Mapping[str, str],
    nodes: Sequence[NodeGpuCount],
    settings: EnsembleSettings,
) -> NewPlan:
    planned = {member.name for flotilla in plan.flotillas for member in flotilla.members}
    start = members_to_start(plan.flotillas, planned - set(keeps), keeps, nodes, settings)
    return NewPlan(plan, stop, start, tuple(keeps))


def _lost(running: Mapping[str, MemberPlacement], nodes: Sequence[NodeGpuCount]) -> dict[str, str]:
    """Return the members that no longer fit on their nodes; those that are listed first stay."""
    free = {node.name: node.gpus for node in nodes}
    lost: dict[str, str] = {}
    for name, placement in running.items():
        missing = [each for each in placement.nodes if free.get(each.name, 0) < each.gpus]
        if missing:
            node = missing[0]
            lost[name] = f"node {node.name} has {free.get(node.name, 0)} of {node.gpus} GPUs left"
            continue
        for each in placement.nodes:
            free[each.name] -= each.gpus
    return lost
