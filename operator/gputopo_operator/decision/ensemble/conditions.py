"""Decides the conditions and the phase of a GPUEnsemble."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gputopo.api.ensemble import EnsemblePhase, EnsemblePlanStatus, GPUEnsembleSpec
from gputopo.api.model import Condition
from gputopo_operator.decision.conditions import (
    ACCEPTED,
    COMPLETE,
    FAILED,
    POD_NOT_CREATED,
    RUNNING,
    SUSPENDED,
    ConditionUpdate,
    holds,
)
from gputopo_operator.decision.ensemble.members import MemberState
from gputopo_operator.decision.ensemble.plans import PlannedMember

PLANNED: Final = "Planned"
DO_NOT_FIT: Final = "MembersDoNotFit"
RATES_KNOWN: Final = "RatesKnown"
LIMITED: Final = "Limited"

_PHASES: Final[tuple[tuple[str, EnsemblePhase], ...]] = (
    (FAILED, "Failed"),
    (COMPLETE, "Succeeded"),
    (SUSPENDED, "Suspended"),
    (RUNNING, "Running"),
)


def rejected(message: str) -> list[ConditionUpdate]:
    """Return the conditions of an ensemble whose spec is not valid."""
    others = (PLANNED, RUNNING, COMPLETE, FAILED, SUSPENDED)
    return [
        ConditionUpdate(ACCEPTED, False, "SpecInvalid", message),
        *(ConditionUpdate(each, False, "NotAccepted", "") for each in others),
    ]


def condition_updates(
    spec: GPUEnsembleSpec,
    members: Sequence[MemberState],
    planned: Mapping[str, PlannedMember],
    plan: EnsemblePlanStatus | None,
) -> list[ConditionUpdate]:
    """Return all conditions of an ensemble whose spec is valid."""
    active = [member for member in members if not member.ended]
    return [
        ConditionUpdate(ACCEPTED, True, "Valid", ""),
        _planned(active, planned, plan),
        _rates_known(active, planned),
        _limited(active, planned),
        _running(active),
        *_finished(members, active),
        ConditionUpdate(
            SUSPENDED,
            spec.suspend and bool(active),
            "SuspendedByUser" if spec.suspend and active else "NotSuspended",
            "",
        ),
    ]


def phase_of(conditions: Sequence[Condition]) -> EnsemblePhase:
    """Return the phase of an ensemble with these conditions."""
    otherwise: EnsemblePhase = "Pending" if holds(conditions, ACCEPTED) else "Rejected"
    return next((phase for type_, phase in _PHASES if holds(conditions, type_)), otherwise)


def _planned(
    active: Sequence[MemberState],
    planned: Mapping[str, PlannedMember],
    plan: EnsemblePlanStatus | None,
) -> ConditionUpdate:
    if plan is None:
        return ConditionUpdate(PLANNED, False, "NotPlanned", "")
    without = [member for member in active if planned[member.name].flotilla is None]
    if not without:
        return ConditionUpdate(PLANNED, True, PLANNED, plan.reason)
    reasons = {member.name: planned[member.name].reason for member in without}
    message = f"{_texts(reasons)}; usable GPUs: {plan.nodes or 'no node with GPUs'}"
    delayed = any(member.failed.not_before for member in without)
    return ConditionUpdate(PLANNED, False, POD_NOT_CREATED if delayed else DO_NOT_FIT, message)


def _rates_known(
    active: Sequence[MemberState], planned: Mapping[str, PlannedMember]
) -> ConditionUpdate:
    unknown = [
        member.name
        for member in active
        if member.rates is None and member.name in planned and member.measured is None
    ]
    if not unknown:
        return ConditionUpdate(RATES_KNOWN, True, "RatesKnown", "")
    message = (
        f"{_names(unknown)}: no rates are known, so each gets one GPU; set rates of the member, or "
        "run its GPUProfile once with 1, 2 and 4 GPUs"
    )
    return ConditionUpdate(RATES_KNOWN, False, "RatesUnknown", message)


def _limited(
    active: Sequence[MemberState], planned: Mapping[str, PlannedMember]
) -> ConditionUpdate:
    reasons = {
        member.name: each.reason
        for member in active
        if (each := planned.get(member.name)) and each.reason and each.flotilla
        if member.rates is not None
    }
    if not reasons:
        return ConditionUpdate(LIMITED, False, "NotLimited", "")
    return ConditionUpdate(LIMITED, True, "MembersLimited", _texts(reasons))


def _running(active: Iterable[MemberState]) -> ConditionUpdate:
    running = [member for member in active if member.phase == "Running"]
    if not running:
        return ConditionUpdate(RUNNING, False, "NoMemberRuns", "")
    names = _names([member.name for member in running])
    return ConditionUpdate(RUNNING, True, "MembersRun", names)


def _finished(
    members: Sequence[MemberState], active: Sequence[MemberState]
) -> list[ConditionUpdate]:
    failed = {each.name: each.message for each in members if each.phase == "Failed"}
    count = f"{len(failed)} of {len(members)} members failed"
    if active:
        text = f"{count}: {_texts(failed)}; the others go on" if failed else ""
        return [
            ConditionUpdate(COMPLETE, False, "NotFinished", ""),
            ConditionUpdate(FAILED, False, "MembersFailed" if failed else "NoMemberFailed", text),
        ]
    if failed:
        return [
            ConditionUpdate(COMPLETE, False, "MembersFailed", ""),
            ConditionUpdate(FAILED, True, "MembersFailed", f"{count}: {_texts(failed)}"),
        ]
    return [
        ConditionUpdate(COMPLETE, True, "MembersSucceeded", f"{len(members)} members succeeded"),
        ConditionUpdate(FAILED, False, "NoMemberFailed", ""),
    ]


def _names(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _texts(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {text}" for name, text in reasons.items())
