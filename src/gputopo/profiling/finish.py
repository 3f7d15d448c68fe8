"""Ends a measurement: gives the container the CPUs that it had before the measurement."""

from typing import Final

from gputopo.api.profiling import CpuAmounts, ProfilingResult, ProfilingState
from gputopo.profiling.model import Done, ProfilingSituation, Restore, Step, Wait
from gputopo.profiling.report import summary
from gputopo.runtime.times import timestamp

POLL_SECONDS: Final = 5.0
"""How often the operator checks whether kubelet has applied a resize. No event reports this."""

RETRY_SECONDS: Final = 30.0
"""How often the operator tries to restore the CPUs while the API server or kubelet rejects this."""

_MAX_MESSAGE: Final = 1024

_NOT_SHOWN: Final = (
    "no sample of the pod shows that it had these CPUs, and its node does not have them free; "
    "delete the pod, or wait until other pods of the node end"
)


def end(
    situation: ProfilingSituation, state: ProfilingState, result: ProfilingResult, why: str
) -> Step:
    """Record the result of the measurement and restore the container's original CPUs."""
    return restore(situation, _with_result(state, result, why))


def close(state: ProfilingState, result: ProfilingResult, why: str) -> Step:
    """Record the result without changing the CPUs. If ``state`` has a result, keep that result."""
    ended = state if state.result else _with_result(state, result, why)
    return Done(ended.model_copy(update={"restored": True}))


def restore(situation: ProfilingSituation, state: ProfilingState) -> Step:
    """Return the next step to restore the container's original CPUs."""
    pod, original = situation.pod, state.original
    if pod.cpu != original:
        if not situation.is_restorable:
            return _wait_for_user(original, "gputopo", _NOT_SHOWN)
        if situation.rejection:
            return _wait_for_user(original, "the API server", situation.rejection)
        return Restore(resized(situation, state, original))
    if pod.problem is not None:
        return _wait_for_user(original, "kubelet", pod.problem_text)
    if pod.applied_milli_cpu not in {None, original.limit}:
        return Wait(POLL_SECONDS, "waiting until kubelet has restored the CPUs")
    return Done(state.model_copy(update={"restored": True}))


def raises_request(situation: ProfilingSituation) -> bool:
    """Return whether a restore of the original CPUs would raise the CPU request of the pod."""
    pod = situation.pod
    return bool(pod.state and pod.cpu and pod.state.original.request > pod.cpu.request)


def is_restorable(situation: ProfilingSituation) -> bool:
    """Return whether the pod had its original CPUs, or can have them without those of other pods.

    The annotation of the pod names the original CPUs, and the pod's user may be able to write it.
    Each measurement begins with a sample with the original CPU limit. So a sample of the node agent
    shows that the pod had this limit.
    """
    state = situation.pod.state
    if state is None or not raises_request(situation):
        return True
    had = any(sample.milli_cpu == state.original.limit for sample in situation.own)
    return had or state.original.request <= situation.available_milli_cpu


def resized(
    situation: ProfilingSituation, state: ProfilingState, target: CpuAmounts
) -> ProfilingState:
    """Return the state that the operator writes before it gives the container ``target``."""
    last = situation.pod.cpu or state.target
    moved = {"last": last, "target": target, "since": timestamp(situation.now)}
    return state.model_copy(update=moved)


def _with_result(state: ProfilingState, result: ProfilingResult, why: str) -> ProfilingState:
    message = f"{why}; {summary(state)}"[:_MAX_MESSAGE]
    return state.model_copy(update={"result": result, "message": message})


def _wait_for_user(original: CpuAmounts, component: str, message: str) -> Wait:
    reason = (
        f"the pod does not yet have its own {original.limit}m CPU back; gputopo tries again; "
        f"message of {component}: {message}"
    )
    return Wait(RETRY_SECONDS, reason, warning=True)
