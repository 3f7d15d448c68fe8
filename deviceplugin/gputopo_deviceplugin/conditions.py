"""The conditions of the node that the agent writes to the status of the GPUTopology."""

from dataclasses import dataclass

from gputopo.api.names import READY_CONDITION


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """One condition of the node.

    Attributes:
        type: name of the condition, for example ``Ready``.
        holds: whether the condition is true.
        reason: one word in CamelCase.
        message: a text for people.
    """

    type: str
    holds: bool
    reason: str
    message: str


def not_ready(reason: str, message: str) -> NodeCondition:
    """Return the condition ``Ready=False``: new containers get no GPUs of this node."""
    return NodeCondition(READY_CONDITION, holds=False, reason=reason, message=message)
