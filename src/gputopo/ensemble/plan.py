"""Plans an ensemble: flotilla after flotilla, with a forecast of who trains when.

All results depend only on the arguments: equal arguments give equal plans.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputopo.ensemble.candidate import member_limit
from gputopo.ensemble.flotilla import Flotilla, create_flotilla
from gputopo.ensemble.model import (
    EnsembleMember,
    EnsembleSettings,
    MemberPlacement,
    NodeGpuCount,
    UnknownRates,
    check_names,
)
from gputopo.ensemble.starts import members_to_start
from gputopo.ensemble.timeline import (
    MemberRun,
    TimelineChanges,
    TimelineState,
    end_of,
    run_ensemble,
)


@dataclass(frozen=True, slots=True)
class UnplannedMember:
    """A member that is in no flotilla.

    Attributes:
        needs_profile: whether it has to be profiled first; if not, it fits on no node.
    """

    name: str
    reason: str
    needs_profile: bool


@dataclass(frozen=True, slots=True)
class EnsemblePlan:
    """A plan for the members that have not ended.

    Attributes:
        flotillas: members and their numbers of GPUs, in the order in which they train.
        unplanned: members that are in no flotilla, with the reason.
        runs: forecast by the planned rates, from now on, in seconds. Members whose start is
            unknown, because members before them have no known end, are missing.
        seconds: forecast of the time until the last member ends; infinite if unknown.
    """

    flotillas: tuple[Flotilla, ...]
    unplanned: tuple[UnplannedMember, ...]
    runs: tuple[MemberRun, ...]
    seconds: float


def plan_ensemble(
    members: Sequence[EnsembleMember],
    nodes: Sequence[NodeGpuCount],
    settings: EnsembleSettings,
    running: Mapping[str, MemberPlacement] | None = None,
) -> EnsemblePlan:
    """Return the plan of an ensemble.

    Members that run keep their GPUs, and are in no flotilla. The flotillas of the others are
    planned on all GPUs of the ensemble, and start when enough GPUs are free.

    Args:
        members: members that have not ended.
        nodes: nodes with all GPUs that the ensemble may use, free or in use by its members.
        settings: limits and rules.
        running: placements of the members that run.

    Raises:
        EnsembleError: if a name is not unique.
    """
    check_names("members", [member.name for member in members])
    check_names("nodes", [node.name for node in nodes])
    active = {} if running is None else dict(running)
    waiting = [member for member in members if member.name not in active]
    plans = []
    for part in settings.reference_parts:
        flotillas, unplanned = plan_flotillas(waiting, nodes, settings, part)
        without = {member.name for member in unplanned}
        planned = [member for member in members if member.name not in without]
        runs = forecast(flotillas, planned, nodes, settings, active)
        plans.append(EnsemblePlan(flotillas, unplanned, runs, end_of(runs, len(planned))))
    return min(plans, key=lambda plan: plan.seconds)


def plan_flotillas(
    members: Sequence[EnsembleMember],
    nodes: Sequence[NodeGpuCount],
    settings: EnsembleSettings,
    reference_part: float = 1.0,
) -> tuple[tuple[Flotilla, ...], tuple[UnplannedMember, ...]]:
    """Return flotillas until each member is in one, and the members that can be in none."""
    to_profile = [
        UnplannedMember(member.name, "no rates are known: profile it first", needs_profile=True)
        for member in members
        if member.rates is None and settings.unknown is UnknownRates.PROFILE
    ]
    done = {member.name for member in to_profile}
    flotillas: list[Flotilla] = []
    while waiting := [member for member in members if member.name not in done]:
        flotilla = create_flotilla(waiting, nodes, settings, reference_part)
        if flotilla is None:
            too_large = [_too_large(member, nodes, settings) for member in waiting]
            return tuple(flotillas), (*to_profile, *too_large)
        flotillas.append(flotilla)
        done |= {member.name for member in flotilla.members}
    return tuple(flotillas), tuple(to_profile)


def forecast(
    flotillas: Sequence[Flotilla],
    members: Sequence[EnsembleMember],
    nodes: Sequence[NodeGpuCount],
    settings: EnsembleSettings,
    running: Mapping[str, MemberPlacement],
) -> tuple[MemberRun, ...]:
    """Return who runs when, by the planned rates."""

    def choose(state: TimelineState) -> TimelineChanges:
        waiting = {member.name for member in state.members} - set(state.running)
        return TimelineChanges(
            start=members_to_start(flotillas, waiting, state.running, nodes, settings)
        )

    return run_ensemble(members, nodes, choose, running=running, lockstep=settings.lockstep)


def _too_large(
    member: EnsembleMember, nodes: Sequence[NodeGpuCount], settings: EnsembleSettings
) -> UnplannedMember:
    least = 1 if member.rates is None else member.rates.least
    _, limit = member_limit(member, nodes, settings)
    reason = f"needs at least {least} GPUs; {limit}"
    return UnplannedMember(member.name, reason, needs_profile=False)
