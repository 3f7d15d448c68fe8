"""Decides when the members of an ensemble are planned again, and which of them start and stop.

The plan is stored in the status before it is carried out. So an operator that is killed continues
with the same plan.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from gputopo.api.ensemble import EnsemblePlanStatus, GPUEnsembleSpec
from gputopo.ensemble.flotilla import Flotilla, FlotillaMember
from gputopo.ensemble.model import (
    EnsembleSettings,
    MemberPlacement,
    NodeGpuCount,
    PaceMeasure,
)
from gputopo.ensemble.replan import NewPlan, WrongRate
from gputopo.ensemble.starts import members_to_start
from gputopo_operator.decision.conditions import truncated
from gputopo_operator.decision.ensemble.delays import delayed_members
from gputopo_operator.decision.ensemble.fill import new_plan
from gputopo_operator.decision.ensemble.members import MemberState
from gputopo_operator.decision.ensemble.nodes import nodes_hash, nodes_text
from gputopo_operator.decision.ensemble.rates import LARGEST, MICRO
from gputopo_operator.decision.ensemble.reasons import rate_of, replan_reason, wrong_rates
from gputopo_operator.decision.ensemble.withdrawn import withdrawn_members
from gputopo_operator.model.ensembles import EnsembleInput


@dataclass(frozen=True, slots=True)
class PlannedMember:
    """What the plan says about a member that has not ended.

    Attributes:
        flotilla: None if the member is in none.
        rate: planned items per second; None if unknown.
        reason: why it has not the GPUs that its pace needs, or is in no flotilla; empty otherwise.
    """

    flotilla: int | None = None
    gpus: int | None = None
    rate: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EnsembleChanges:
    """The plan, and what it changes now.

    Attributes:
        plan: None while the ensemble is suspended.
        members: members that have not ended.
        stop: GPUJobs to delete, with the reason.
        start: GPUJobs to create.
        wrong: measured rates that differ too much from the planned ones.
        waits_seconds: time until a member is withdrawn that waits for GPUs; None if none waits.
    """

    plan: EnsemblePlanStatus | None = None
    members: Mapping[str, PlannedMember] = field(default_factory=dict)
    stop: Mapping[str, str] = field(default_factory=dict)
    start: tuple[MemberPlacement, ...] = ()
    wrong: tuple[WrongRate, ...] = ()
    waits_seconds: float | None = None


def settings_of(spec: GPUEnsembleSpec) -> EnsembleSettings:
    """Return the settings of the planner."""
    default = EnsembleSettings()
    percent = spec.spread_percent
    return EnsembleSettings(
        max_gpus=spec.max_gpus,
        max_gpus_per_member=spec.max_gpus_per_member,
        spread=default.spread if percent is None else percent / 100,
        pace=PaceMeasure(spec.pace),
        lockstep=spec.preprocessing is not None and spec.preprocessing.shared,
        rate_difference=spec.rate_difference_percent / 100,
        restarts=spec.restarts == "FromCheckpoint",
        restart_seconds=float(spec.restart_seconds),
    )


def changes_of(
    found: EnsembleInput, spec: GPUEnsembleSpec, members: Sequence[MemberState]
) -> EnsembleChanges:
    """Return the plan, and the members that start and stop now."""
    settings = settings_of(spec)
    active = [member for member in members if not member.ended]
    delayed = delayed_members(active, found.now)
    without = {name: PlannedMember(reason=text) for name, text in delayed.items()}
    withdrawn, waits = withdrawn_members(found, active)
    kept = [
        member
        for member in active
        if member.phase in {"Starting", "Running"} and member.name not in withdrawn
    ]
    running = {member.name: member.placement for member in kept}
    nodes = _with_kept(found.nodes, running.values())
    wrong = wrong_rates(kept, settings)
    reason = replan_reason(found, settings, members, withdrawn, wrong)
    stored = found.ensemble.status.plan
    if stored is not None and not reason:
        stop = _not_stopped_yet(kept, settings)
        keeps = {name: each for name, each in running.items() if name not in stop}
        planned = {member.name: _stored(member, keeps) for member in active} | without
        start = _starts(_flotillas(planned, keeps), active, keeps, nodes, settings)
        return EnsembleChanges(stored, planned, stop, start, (), waits)
    to_plan = [member for member in active if member.name not in delayed]
    new = new_plan([member.planned for member in to_plan], running, nodes, settings)
    planned = _planned(new, active, members) | without
    text = _with_differences(reason, active, planned)
    plan = EnsemblePlanStatus(
        time=found.now,
        reason=truncated(text),
        generation=found.ensemble.generation,
        ended=len(members) - len(active),
        nodes=nodes_text(found.nodes),
        nodes_hash=nodes_hash(found.nodes),
        flotillas=len(new.plan.flotillas),
        seconds=_whole_seconds(new.plan.seconds) if to_plan else None,
    )
    keeps = {name: each for name, each in running.items() if name not in new.stop}
    start = _starts(new.plan.flotillas, active, keeps, nodes, settings)
    return EnsembleChanges(plan, planned, {**withdrawn, **new.stop}, start, wrong, waits)


def _with_kept(
    nodes: Sequence[NodeGpuCount], kept: Collection[MemberPlacement]
) -> list[NodeGpuCount]:
    """Return the nodes with at least the GPUs of the members that keep theirs.

    A member that runs on a node whose agent is not ready, or on a GPU that became unhealthy, is
    left alone: Kubernetes decides whether its pod ends.
    """
    used: dict[str, int] = {}
    for node in (node for placement in kept for node in placement.nodes):
        used[node.name] = used.get(node.name, 0) + node.gpus
    found = {node.name: max(node.gpus, used.pop(node.name, 0)) for node in nodes}
    return [NodeGpuCount(name, gpus) for name, gpus in sorted({**found, **used}.items())]


def _not_stopped_yet(kept: Sequence[MemberState], settings: EnsembleSettings) -> dict[str, str]:
    """Return the members that have other GPUs than the stored plan, with the reason.

    The operator was killed after it had stored the plan. Without checkpoints, a member whose pod is
    on a node keeps its GPUs.
    """
    return {
        member.name: f"continues with {member.before.gpus} GPUs instead of {member.job.gpus}"
        for member in kept
        if member.job is not None and member.before.gpus not in {None, member.job.gpus}
        if settings.restarts or not member.bound
    }


def _stored(member: MemberState, keeps: Collection[str]) -> PlannedMember:
    """Return what the stored plan says about a member; a member that runs has its own GPUs."""
    before, job = member.before, member.job
    rate, gpus = None if before.planned is None else before.planned / MICRO, before.gpus
    if member.name in keeps and job is not None and job.gpus != gpus:
        rate, gpus = rate_of(member, job.gpus), job.gpus
    return PlannedMember(before.flotilla, gpus, rate, before.limited)


def _flotillas(
    planned: Mapping[str, PlannedMember], running: Collection[str]
) -> tuple[Flotilla, ...]:
    """Return the flotillas of the stored plan, with the members that do not run yet."""
    numbers = sorted(
        {each.flotilla for name, each in planned.items() if each.flotilla and name not in running}
    )
    return tuple(
        Flotilla(
            tuple(
                FlotillaMember(name, each.gpus, each.rate)
                for name, each in planned.items()
                if each.flotilla == number and each.gpus and name not in running
            ),
            reference=0.0,
            spread=0.0,
            idle=0,
        )
        for number in numbers
    )


def _starts(
    flotillas: Sequence[Flotilla],
    active: Sequence[MemberState],
    running: Mapping[str, MemberPlacement],
    nodes: Sequence[NodeGpuCount],
    settings: EnsembleSettings,
) -> tuple[MemberPlacement, ...]:
    """Return the members to start. Members whose former pod still ends keep their place."""
    waiting = {member.name for member in active} - set(running)
    placed = members_to_start(flotillas, waiting, running, nodes, settings)
    free = {member.name for member in active if member.free_to_start}
    return tuple(each for each in placed if each.member in free)


def _planned(
    new: NewPlan, active: Sequence[MemberState], members: Sequence[MemberState]
) -> dict[str, PlannedMember]:
    """Return the new plan by member. Members that go on keep the number of their flotilla."""
    started = [
        each.before.flotilla or 1
        for each in members
        if each.before.flotilla and (each.job is not None or each.ended)
    ]
    first = max(started, default=0) + 1
    found = {each.name: PlannedMember(reason=each.reason) for each in new.plan.unplanned}
    for number, flotilla in enumerate(new.plan.flotillas, first):
        for each in flotilla.members:
            found[each.name] = PlannedMember(number, each.gpus, each.rate, each.reason)
    for member in active:
        if member.name in new.keeps and member.job is not None:
            gpus, number = member.job.gpus, member.before.flotilla or first
            rate, limited = rate_of(member, gpus), member.before.limited
            found[member.name] = PlannedMember(number, gpus, rate, limited)
    return found


def _with_differences(
    reason: str, active: Sequence[MemberState], planned: Mapping[str, PlannedMember]
) -> str:
    """Add to the reason of a new plan which members get other numbers of GPUs than before."""
    changed = [
        f"{member.name} gets {gpus} GPUs instead of {member.before.gpus}"
        for member in active
        if (gpus := planned[member.name].gpus) and member.before.gpus not in {None, gpus}
    ]
    return "; ".join([reason, *changed])


def _whole_seconds(seconds: float) -> int | None:
    return min(LARGEST, round(seconds)) if isfinite(seconds) else None
