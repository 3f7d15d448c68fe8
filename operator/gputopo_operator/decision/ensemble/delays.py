"""Decides which members wait, because their pods could not be created after their last start."""

from collections.abc import Sequence

from gputopo_operator.decision.ensemble.members import MemberState, failed_starts


def delayed_members(active: Sequence[MemberState], now: str) -> dict[str, str]:
    """Return the members that are not planned yet, with the reason."""
    return {
        member.name: f"{not_created(member)}; it is planned again after {member.failed.not_before}"
        for member in active
        if member.failed.delays(now)
    }


def not_created(member: MemberState) -> str:
    """Return why a member has no pod, as text for users."""
    return f"its pod could not be created: {member.failed.pod_error or 'the reason is unknown'}"


def planned_again(active: Sequence[MemberState], now: str) -> list[str]:
    """Return the members whose delay has just ended."""
    return [
        member.name
        for member in active
        if member.before.not_before is not None and not failed_starts(member.before).delays(now)
    ]
