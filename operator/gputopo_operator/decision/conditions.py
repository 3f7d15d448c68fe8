"""The conditions of a GPUJob, and the phase that follows from them."""

from collections.abc import Sequence
from dataclasses import dataclass

from gputopo.api.v1alpha1 import Condition

MAX_MESSAGE = 1024

ACCEPTED = "Accepted"
PLACED = "Placed"
RUNNING = "Running"
COMPLETE = "Complete"
FAILED = "Failed"
SUSPENDED = "Suspended"
PROFILE_READY = "ProfileReady"

# The phase is the name of the first condition that is true.
_PHASES = (
    (FAILED, "Failed"),
    (COMPLETE, "Succeeded"),
    (SUSPENDED, "Suspended"),
    (RUNNING, "Running"),
    (PLACED, "Placed"),
)


@dataclass(frozen=True, slots=True)
class Claim:
    """What is to be said under one condition type."""

    type: str
    holds: bool
    reason: str
    message: str


def conditions(
    previous: Sequence[Condition], claims: Sequence[Claim], *, generation: int, now: str
) -> list[Condition]:
    """Return the conditions that say ``claims``.

    The time of a transition stays while the status does. Conditions of types that are
    not claimed belong to somebody else and are kept.
    """
    old = {condition.type: condition for condition in previous}
    claimed = [_condition(old.get(claim.type), claim, generation, now) for claim in claims]
    types = {claim.type for claim in claims}
    return claimed + [condition for condition in previous if condition.type not in types]


def phase(conditions: Sequence[Condition]) -> str:
    """Return the one word on a GPUJob.

    >>> phase([])
    'Pending'
    """
    status = {condition.type: condition.status for condition in conditions}
    waiting = "Refused" if status.get(ACCEPTED) == "False" else "Pending"
    return next((phase for type_, phase in _PHASES if status.get(type_) == "True"), waiting)


def find(conditions: Sequence[Condition], type_: str) -> Condition | None:
    """Return the condition of this type."""
    return next((condition for condition in conditions if condition.type == type_), None)


def holds(conditions: Sequence[Condition], type_: str) -> bool:
    """Return whether the condition of this type is there and true."""
    condition = find(conditions, type_)
    return condition is not None and condition.status == "True"


def _condition(old: Condition | None, claim: Claim, generation: int, now: str) -> Condition:
    status = "True" if claim.holds else "False"
    kept = old is not None and old.status == status
    return Condition(
        type=claim.type,
        status=status,
        reason=claim.reason,
        message=truncated(claim.message),
        last_transition_time=old.last_transition_time if old is not None and kept else now,
        observed_generation=generation,
    )


def truncated(text: str) -> str:
    """Return the text, cut where it is longer than a message may be.

    >>> len(truncated("x" * 2000))
    1024
    """
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 3] + "..."
