"""Updates the conditions in the status of a GPUJob, and derives the phase from them."""

from collections.abc import Sequence
from dataclasses import dataclass

from gputopo.api.model import Condition
from gputopo.runtime.messages import shortened

MAX_MESSAGE = 1024

ACCEPTED = "Accepted"
PLACED = "Placed"
RUNNING = "Running"
COMPLETE = "Complete"
FAILED = "Failed"
SUSPENDED = "Suspended"
PROFILE_READY = "ProfileReady"
PROFILED = "Profiled"
SIZED = "Sized"
POSTPONED = "Postponed"

QUEUED = "Queued"
"""Reason of the condition Suspended while the job waits in gputopo's queue, and the phase then."""

POD_NOT_CREATED = "PodNotCreated"
"""Reason of the conditions Placed and Suspended while the API server rejects the pod."""

# The phase is the name of the first condition that is true.
_PHASES = (
    (FAILED, "Failed"),
    (COMPLETE, "Succeeded"),
    (SUSPENDED, "Suspended"),
    (RUNNING, "Running"),
    (PLACED, "Placed"),
)


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """The new value of one condition. ``holds`` is true if the condition's status is True."""

    type: str
    holds: bool
    reason: str
    message: str


def updated_conditions(
    previous: Sequence[Condition], updates: Sequence[ConditionUpdate], *, generation: int, now: str
) -> list[Condition]:
    """Return the conditions after these updates.

    The transition time of a condition changes only if its status changes. A condition of a type
    without an update is kept, because another client may have written it.
    """
    old = {condition.type: condition for condition in previous}
    updated = [_condition(old.get(update.type), update, generation, now) for update in updates]
    types = {update.type for update in updates}
    return updated + [condition for condition in previous if condition.type not in types]


def phase(conditions: Sequence[Condition]) -> str:
    """Return the phase of a GPUJob with these conditions.

    >>> phase([])
    'Pending'
    """
    status = {condition.type: condition.status for condition in conditions}
    otherwise = "Refused" if status.get(ACCEPTED) == "False" else "Pending"
    found = next((phase for type_, phase in _PHASES if status.get(type_) == "True"), otherwise)
    suspended = find(conditions, SUSPENDED)
    reasons = {QUEUED, POD_NOT_CREATED}
    queued = found == "Suspended" and suspended is not None and suspended.reason in reasons
    return QUEUED if queued else found


def find(conditions: Sequence[Condition], type_: str) -> Condition | None:
    """Return the condition of this type, or None if it does not exist."""
    return next((condition for condition in conditions if condition.type == type_), None)


def holds(conditions: Sequence[Condition], type_: str) -> bool:
    """Return whether the condition of this type exists and is true."""
    condition = find(conditions, type_)
    return condition is not None and condition.status == "True"


def _condition(
    old: Condition | None, update: ConditionUpdate, generation: int, now: str
) -> Condition:
    status = "True" if update.holds else "False"
    kept = old is not None and old.status == status
    return Condition(
        type=update.type,
        status=status,
        reason=update.reason,
        message=truncated(update.message),
        last_transition_time=old.last_transition_time if old is not None and kept else now,
        observed_generation=generation,
    )


def truncated(text: str) -> str:
    """Return the text, cut to the longest message that the API allows.

    >>> len(truncated("x" * 2000))
    1024
    """
    return shortened(text, MAX_MESSAGE)


def repeated(condition: Condition) -> ConditionUpdate:
    """Return an update that changes nothing."""
    holds = condition.status == "True"
    return ConditionUpdate(condition.type, holds, condition.reason, condition.message)
