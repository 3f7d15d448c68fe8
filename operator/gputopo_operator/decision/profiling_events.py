"""The Kubernetes Events about the measurement of a pod's CPUs."""

from gputopo.profiling.model import Done, Resize, Step, Wait
from gputopo_operator.decision.conditions import truncated
from gputopo_operator.model.jobs import ObjectEvent


def profiling_event(step: Step, *, first: bool, budget_seconds: int) -> ObjectEvent | None:
    """Return the Event about a step of the measurement; ``first`` marks the pod's first resize."""
    match step:
        case Resize(state) if first:
            note = (
                f"measuring the throughput with up to {state.most_milli_cpu}m CPU for at most "
                f"{budget_seconds} s; then the pod gets its own {state.original.limit}m CPU back; "
                f"first limit: {state.target.limit}m CPU"
            )
            return ObjectEvent("Normal", "ProfilingStarted", note)
        case Resize(state):
            note = (
                f"next limit: {state.target.limit}m CPU; measurements so far: {len(state.points)}"
            )
            return ObjectEvent("Normal", "ProfilingStep", note)
        case Done(state):
            good = state.result in {"Done", "TimeLimit", "CPUsNeeded"}
            type_, reason = ("Normal", "ProfilingDone") if good else ("Warning", "ProfilingFailed")
            return ObjectEvent(type_, reason, truncated(f"{state.result}: {state.message}"))
        case Wait(reason=reason, warning=True):
            return ObjectEvent("Warning", "ProfilingFailed", truncated(reason))
        case _:
            return None
