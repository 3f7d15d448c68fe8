"""Builds the status of a GPUEnsemble, and the events about its changes."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from gputopo.api.ensemble import (
    EnsembleMemberStatus,
    GPUEnsembleSpec,
    GPUEnsembleStatus,
)
from gputopo_operator.decision.conditions import (
    ACCEPTED,
    COMPLETE,
    FAILED,
    SUSPENDED,
    find,
    holds,
    truncated,
    updated_conditions,
)
from gputopo_operator.decision.ensemble.conditions import condition_updates, phase_of
from gputopo_operator.decision.ensemble.members import MemberState
from gputopo_operator.decision.ensemble.plans import EnsembleChanges, PlannedMember
from gputopo_operator.decision.ensemble.preprocessor import PREPROCESSED, PreprocessorPlan
from gputopo_operator.decision.ensemble.rates import micro
from gputopo_operator.model.ensembles import EnsembleInput
from gputopo_operator.model.jobs import ObjectEvent


def ensemble_status(
    found: EnsembleInput,
    spec: GPUEnsembleSpec,
    members: Sequence[MemberState],
    changes: EnsembleChanges,
    preprocessor: PreprocessorPlan,
) -> GPUEnsembleStatus:
    """Return the complete new status."""
    before, generation = found.ensemble.status, found.ensemble.generation
    updates = condition_updates(spec, members, changes.members, changes.plan)
    updates += preprocessor.updates
    conditions = updated_conditions(
        before.conditions, updates, generation=generation, now=found.now
    )
    running = [each for each in members if each.phase == "Running"]
    live = [each for each in members if each.phase in {"Starting", "Running"} and each.job]
    ended = sum(1 for each in members if each.ended)
    return GPUEnsembleStatus(
        observed_generation=generation,
        phase=phase_of(conditions),
        conditions=conditions,
        progress=f"{ended} of {len(members)} ended, {len(running)} run",
        gpus=sum(each.job.gpus for each in live if each.job),
        spread_percent=_spread(running),
        plan=changes.plan,
        members=[_member(each, changes) for each in members],
        preprocessor=preprocessor.status,
    )


def _spread(running: Sequence[MemberState]) -> int | None:
    """Return how far the slowest member is behind the fastest one, in percent."""
    rates = []
    for member in running:
        gpus, known = member.placement.gpus, member.rates
        if known is not None and known.least <= gpus <= known.most:
            rates.append(member.measured or known.at(gpus))
    return round(100 * (1 - min(rates) / max(rates))) if len(rates) > 1 else None


def _member(member: MemberState, changes: EnsembleChanges) -> EnsembleMemberStatus:
    before, pod = member.before, member.job.pod if member.job else None
    planned = changes.members.get(member.name)
    starts = any(each.member == member.name for each in changes.start)
    if member.ended or planned is None:
        flotilla, gpus, rate, limited = before.flotilla, before.gpus, before.planned, before.limited
    else:
        flotilla, gpus, limited = planned.flotilla, planned.gpus, planned.reason
        rate = None if planned.rate is None else micro(planned.rate)
    if not member.ended and planned is None:
        flotilla = gpus = rate = None
    done = member.progress.done
    if member.phase == "Succeeded" and member.total is not None:
        done = member.total
    return EnsembleMemberStatus(
        name=member.name,
        phase=member.phase,
        flotilla=flotilla,
        gpus=gpus,
        node=before.node if member.ended else member.node,
        planned=rate,
        measured=before.measured
        if member.ended
        else micro(member.measured)
        if member.measured
        else None,
        items_done=done,
        earlier_items=member.progress.earlier,
        items_counted=member.progress.counted,
        pod_uid=pod.uid if pod else before.pod_uid,
        starting_since=member.starting_since,
        progress_percent=_percent(done, member.total),
        limited=truncated(limited),
        # The GPUJob can be rejected as before. Then this status is still right, and not written.
        message=before.message if starts else truncated(_message(member, planned)),
        **member.failed._asdict(),
    )


def _message(member: MemberState, planned: PlannedMember | None) -> str:
    if member.message or member.phase != "Waiting" or planned is None:
        return member.message
    if planned.flotilla is None:
        return planned.reason
    return f"waits in flotilla {planned.flotilla} for {planned.gpus} free GPUs on one node"


def _percent(done: int, total: int | None) -> int | None:
    return None if total is None else min(100, 100 * done // total)


def ensemble_events(
    found: EnsembleInput, after: GPUEnsembleStatus, changes: EnsembleChanges
) -> tuple[ObjectEvent, ...]:
    """Return the events about the change to the new status."""
    before = found.ensemble.status
    stopped = (
        ObjectEvent("Normal", "MemberStopped", truncated(f"{name}: {text}"))
        for name, text in changes.stop.items()
    )
    parts = (_plan(before, after, changes), stopped, _members(before, after))
    return (*chain(*parts), *_conditions(before, after))


def started_events(changes: EnsembleChanges) -> dict[str, ObjectEvent]:
    """Return the events about the members that start now, by name of the member."""
    return {
        each.member: ObjectEvent(
            "Normal",
            "MemberStarted",
            f"{each.member}: {each.gpus} GPUs of node {each.nodes[0].name}",
        )
        for each in changes.start
    }


def _plan(
    before: GPUEnsembleStatus, after: GPUEnsembleStatus, changes: EnsembleChanges
) -> Iterator[ObjectEvent]:
    for wrong in changes.wrong:
        yield ObjectEvent("Warning", "RateDiffers", wrong.text)
    if after.plan is None or after.plan == before.plan:
        return
    old = {each.name: each.gpus for each in before.members}
    same = all(old.get(each.name) == each.gpus for each in after.members)
    if before.plan is None or not same:
        reason = "EnsemblePlanned" if before.plan is None else "EnsembleReplanned"
        yield ObjectEvent("Normal", reason, truncated(after.plan.reason))


def _members(before: GPUEnsembleStatus, after: GPUEnsembleStatus) -> Iterator[ObjectEvent]:
    phases: Mapping[str, str] = {each.name: each.phase for each in before.members}
    for each in after.members:
        if phases.get(each.name) == each.phase:
            continue
        if each.phase == "Succeeded":
            yield ObjectEvent("Normal", "MemberSucceeded", each.name)
        elif each.phase == "Failed":
            yield ObjectEvent("Warning", "MemberFailed", truncated(f"{each.name}: {each.message}"))


def _conditions(before: GPUEnsembleStatus, after: GPUEnsembleStatus) -> Iterator[ObjectEvent]:
    old, new = find(before.conditions, ACCEPTED), find(after.conditions, ACCEPTED)
    rejected = new is not None and new.status == "False"
    if rejected and new is not None and (old is None or old.message != new.message):
        yield ObjectEvent("Warning", "EnsembleRejected", new.message)
    old, new = find(before.conditions, PREPROCESSED), find(after.conditions, PREPROCESSED)
    if new is not None and new.reason == "PreprocessorRejected" and new != old:
        yield ObjectEvent("Warning", "PreprocessorRejected", truncated(new.message))
    for type_, kind, reason in (
        (COMPLETE, "Normal", "Completed"),
        (FAILED, "Warning", "Failed"),
        (SUSPENDED, "Normal", "Suspended"),
    ):
        found = find(after.conditions, type_)
        if found is not None and found.status == "True" and not holds(before.conditions, type_):
            yield ObjectEvent(kind, reason, truncated(found.message or found.reason))
