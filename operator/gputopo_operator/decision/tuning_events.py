"""The Kubernetes Events about sizing running pods."""

from gputopo.tuning.model import TuningEvent
from gputopo_operator.decision.conditions import truncated
from gputopo_operator.model.jobs import ObjectEvent


def tuning_event(reason: TuningEvent, message: str) -> ObjectEvent:
    """Return the Event about a resize that has ended."""
    type_ = "Normal" if reason is TuningEvent.RESIZED else "Warning"
    return ObjectEvent(type_, reason, truncated(message))


def profile_event(error: str) -> ObjectEvent:
    """Return the Event about a pod that names its GPUProfile wrongly."""
    return ObjectEvent("Warning", "ProfileIgnored", truncated(f"sized without facts: {error}"))


def obstacle_event(obstacle: str) -> ObjectEvent:
    """Return the Event about a pod that cannot be sized."""
    return ObjectEvent("Warning", "NotSized", truncated(f"the pod keeps its resources: {obstacle}"))
