"""Decides whether the members of an ensemble must be planned again, and why."""

from collections.abc import Mapping, Sequence

from gputopo.api.ensemble import EnsemblePlanStatus
from gputopo.ensemble.model import EnsembleSettings
from gputopo.ensemble.replan import WrongRate
from gputopo_operator.decision.ensemble.delays import planned_again
from gputopo_operator.decision.ensemble.members import MemberState
from gputopo_operator.decision.ensemble.nodes import changed_nodes_text, nodes_hash
from gputopo_operator.decision.ensemble.rates import MICRO
from gputopo_operator.model.ensembles import EnsembleInput


def wrong_rates(kept: Sequence[MemberState], settings: EnsembleSettings) -> tuple[WrongRate, ...]:
    """Return the members whose measured rate differs too much from the planned one."""
    wrong = []
    for member in kept:
        planned, job = (member.before.planned or 0) / MICRO, member.job
        if not planned or member.own_rate is None or job is None or member.before.gpus != job.gpus:
            continue
        if abs(member.own_rate / planned - 1) > settings.rate_difference:
            wrong.append(WrongRate(member.name, job.gpus, planned, member.own_rate))
    return tuple(wrong)


def replan_reason(
    found: EnsembleInput,
    settings: EnsembleSettings,
    members: Sequence[MemberState],
    withdrawn: Mapping[str, str],
    wrong: Sequence[WrongRate],
) -> str:
    """Return why the members must be planned now; empty if the stored plan is still right."""
    status, active = found.ensemble.status, [each for each in members if not each.ended]
    if status.plan is None:
        return "the ensemble was resumed" if status.phase == "Suspended" else "first plan"
    if status.plan.generation != found.ensemble.generation:
        return "the spec was changed"
    if withdrawn:
        return "; ".join(f"{name} does not start: {text}" for name, text in withdrawn.items())
    if status.plan.ended != len(members) - len(active):
        names = [each.name for each in members if each.ended and each.phase != each.before.phase]
        return f"{', '.join(names) or 'a member'} ended"
    if again := planned_again(active, found.now):
        return f"{', '.join(again)} is tried again, after its pod could not be created"
    rates = "; ".join(each.text for each in wrong) or _known_now(active, settings)
    return rates or _other_nodes(found, active, status.plan, settings)


def _known_now(active: Sequence[MemberState], settings: EnsembleSettings) -> str:
    known = [each.name for each in active if _is_known_now(each, settings.rate_difference)]
    return f"rates of {', '.join(known)} are known now" if known else ""


def _other_nodes(
    found: EnsembleInput,
    active: Sequence[MemberState],
    plan: EnsemblePlanStatus,
    settings: EnsembleSettings,
) -> str:
    """Return how the usable GPUs have changed; empty if this changes nothing."""
    waits = any(member.phase in {"Waiting", "Stopping"} for member in active)
    differs = nodes_hash(found.nodes) != plan.nodes_hash and (waits or settings.restarts)
    return f"usable GPUs: {changed_nodes_text(plan.nodes, found.nodes)}" if differs else ""


def _is_known_now(member: MemberState, most: float) -> bool:
    """Return whether the rate of a member is known, and was not planned or planned otherwise."""
    rate = rate_of(member, member.before.gpus)
    if rate is None or member.before.flotilla is None:
        return False
    return not member.before.planned or abs(rate * MICRO / member.before.planned - 1) > most


def rate_of(member: MemberState, gpus: int | None) -> float | None:
    """Return the known rate of a member with a number of GPUs; None if it is unknown."""
    rates = member.rates
    if rates is None or gpus is None or not rates.least <= gpus <= rates.most:
        return None
    return rates.at(gpus)
