"""Decides the condition Profiled: what was measured on purpose, and what it cost."""

from collections.abc import Sequence

from gputopo.api.model import Condition
from gputopo.api.profiling import ProfilingState
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo_operator.decision.conditions import PROFILED, ConditionUpdate, find
from gputopo_operator.model import JobPod


def profiled(
    spec: GPUJobSpec, pod: JobPod | None, previous: Sequence[Condition]
) -> list[ConditionUpdate]:
    """Return the condition Profiled of a job that measures CPUs.

    The list is empty if the condition does not change because no pod has a new state.
    """
    if "CPUs" not in spec.profiling.measure:
        return []
    state = pod.profiling if pod else None
    if state is not None:
        return [_of_state(state)]
    if find(previous, PROFILED) is not None:
        return []
    return [ConditionUpdate(PROFILED, False, "Waiting", "CPUs: waiting for the first sample")]


def _of_state(state: ProfilingState) -> ConditionUpdate:
    if state.result is None:
        message = (
            f"CPUs: waiting for a sample with {state.target.limit}m; points so far: "
            f"{len(state.points)}; the pod's own limit is {state.original.limit}m"
        )
        return ConditionUpdate(PROFILED, False, "Measuring", message)
    message = f"CPUs: {state.message}"
    if not state.restored:
        return ConditionUpdate(PROFILED, False, "Restoring", message)
    return ConditionUpdate(PROFILED, state.result == "Done", state.result, message)
