"""Decides the next step while the operator measures a running pod with several CPU limits.

The method is optimistic profiling of the Synergy paper (section 3.1). The decision depends only on
the current state, not on the event that caused the decision. So an operator that has restarted can
repeat the decision.

Example: a pod has a limit of 4 CPUs, and its node has CPUs for a limit of 8. The agent's first
sample of the pod gives the speed with 4 CPUs. The pod then gets 8 CPUs until the agent has taken a
sample. If the pod is at least 10 % faster with 8 CPUs than with 4, it then gets 6 CPUs, else 2. At
the end, or if anything fails, the pod gets its 4 CPUs back.
"""

from dataclasses import replace
from typing import Final

from gputopo.api.names import PROFILING_SECONDS_ANNOTATION
from gputopo.api.profiling import CpuAmounts, ProfilingResult, ProfilingState
from gputopo.profiling.duration import MIN_POINT_SECONDS, longest_seconds, needed_seconds
from gputopo.profiling.finish import POLL_SECONDS, close, end, resized, restore
from gputopo.profiling.grid import most_milli_cpu
from gputopo.profiling.model import ProfilingSituation, Resize, Step, Wait
from gputopo.profiling.progress import ProfilingProgress
from gputopo.runtime.times import seconds_since, timestamp

_NONE: Final = CpuAmounts(request=1, limit=1)
_REJECTED: Final = frozenset({"Deferred", "Infeasible"})


def next_step(situation: ProfilingSituation) -> Step:
    """Return the operator's next step. ``situation`` is all that the decision depends on."""
    pod = situation.pod
    state = pod.state
    if state is None:
        return _begin(situation)
    if state.restored:
        return Wait(None, "the measurement has ended")
    if not pod.running:
        return close(state, "Stopped", "the pod has ended")
    if pod.cpu not in {state.original, state.last, state.target}:
        return close(state, "ResizedByOther", "another client has resized the pod")
    return _continue(situation, state)


def _continue(situation: ProfilingSituation, state: ProfilingState) -> Step:
    if state.result is not None:
        return restore(situation, state)
    stop = _stop(situation, state)
    if stop is None:
        return _measure(situation, state)
    progress = ProfilingProgress.of(situation, state)
    return end(situation, progress.ended(situation), *stop)


def _begin(situation: ProfilingSituation) -> Step:
    """Begin when the pod has a sample with its original CPUs; until then, wait for the sample."""
    pod, now = situation.pod, timestamp(situation.now)
    if not pod.requested or pod.deleting or not pod.running:
        return Wait(None, "nothing to measure")
    cpu = pod.cpu or _NONE
    state = ProfilingState(
        uid=pod.uid,
        container=pod.container,
        original=cpu,
        most_milli_cpu=most_milli_cpu(
            cpu,
            situation.available_milli_cpu,
            share=situation.share_milli_cpu,
            bound=pod.most_milli_cpu,
        ),
        started=now,
        last=cpu,
        target=cpu,
        since=now,
    )
    if pod.obstacle or pod.cpu is None:
        return close(state, "NotPossible", pod.obstacle or _no_cpus(pod.container))
    if situation.profile is None:
        return Wait(None, "the GPUProfile of the pod does not exist; create it", warning=True)
    newest = max(situation.own, key=lambda sample: sample.time, default=None)
    if newest is None or newest.milli_cpu != cpu.limit:
        return Wait(None, "waiting for the first sample of the pod")
    return _measure(situation, state)


def _no_cpus(container: str) -> str:
    return (
        f"container {container} has no CPU request or no CPU limit; set both under "
        "resources.requests and resources.limits"
    )


def _stop(
    situation: ProfilingSituation, state: ProfilingState
) -> tuple[ProfilingResult, str] | None:
    pod = situation.pod
    spent = seconds_since(state.started, situation.now)
    if pod.deleting:
        return "Stopped", "the pod is being deleted"
    if not pod.requested:
        return "Stopped", "the request to measure CPUs was removed from the pod"
    if situation.profile is None:
        return "Stopped", "the GPUProfile was deleted"
    if spent < 0:
        return "Stopped", "the clock of the operator was set back"
    if spent >= situation.budget_seconds:
        return "TimeLimit", f"the limit of {situation.budget_seconds} s is reached"
    return None


def _measure(situation: ProfilingSituation, state: ProfilingState) -> Step:
    pod, problem = situation.pod, _rejection(situation, state)
    if problem and state.target.limit <= state.original.limit:
        message = f"the resize to {state.target.limit}m CPU was rejected: {problem}"
        # Only this resize was rejected. The restore may be accepted.
        return end(replace(situation, rejection=""), state, "NotPossible", message)
    if problem:
        state = state.model_copy(update={"most_milli_cpu": _most_after_rejection(situation, state)})
    progress = ProfilingProgress.of(situation, state)
    chosen = progress.next_amounts()
    if chosen is None or not chosen == state.target == pod.cpu:
        return _move(situation, progress, chosen)
    spent = seconds_since(state.since, situation.now)
    longest = longest_seconds(progress.step_seconds)
    if spent >= longest:
        without = progress.without_rate()
        return _move(situation, without, without.next_amounts())
    left = min(_seconds_left(situation, state), longest - spent)
    applied = pod.applied_milli_cpu == state.target.limit
    reason = f"waiting for a sample with {state.target.limit}m CPU"
    return Wait(left if applied else min(left, POLL_SECONDS), reason)


def _rejection(situation: ProfilingSituation, state: ProfilingState) -> str:
    """Return why the API server or kubelet rejected the newest resize; empty if neither did."""
    pod = situation.pod
    if pod.cpu != state.target or pod.problem not in _REJECTED:
        return situation.rejection
    return situation.rejection or pod.problem_text


def _most_after_rejection(situation: ProfilingSituation, state: ProfilingState) -> int:
    """Return the highest limit to measure after a raise was rejected.

    If another pod has taken CPUs since the raise, the result is the CPUs that the node has left.
    In all other cases the reason of the rejection is unknown, and the result is the original limit.
    """
    own, left = state.original.limit, situation.available_milli_cpu
    return left if own < left < state.target.limit else own


def _move(
    situation: ProfilingSituation, progress: ProfilingProgress, chosen: CpuAmounts | None
) -> Step:
    """Resize the pod to ``chosen``. End the measurement if ``chosen`` is None or not possible."""
    state = progress.timed(situation)
    if chosen is None and progress.without_rates:
        return end(situation, state, "TimeLimit", "the curve is not complete")
    if chosen is None:
        return end(situation, state, "Done", "the curve is complete")
    needed = needed_seconds(progress.step_seconds)
    if needed > max(situation.budget_seconds, MIN_POINT_SECONDS):
        message = _too_slow(progress.step_seconds, needed, situation.budget_seconds)
        return end(situation, state, "NotPossible", message)
    if _seconds_left(situation, state) < needed:
        message = (
            f"the time limit of {situation.budget_seconds} s leaves no time for another CPU limit"
        )
        return end(situation, state, "TimeLimit", message)
    if _would_be_taken(situation, state, chosen):
        message = f"with a limit of {chosen.limit}m CPU, a pending pod would take the freed CPUs"
        return end(situation, state, "CPUsNeeded", message)
    return Resize(resized(situation, state, chosen))


def _too_slow(step_seconds: float, needed: int, budget_seconds: int) -> str:
    return (
        f"a training step takes {step_seconds:.3g} s, so one CPU limit takes {needed} s, but the "
        f"time limit is {budget_seconds} s; set spec.profiling.maxSeconds, or the annotation "
        f"{PROFILING_SECONDS_ANNOTATION}, to at least {needed} for each CPU limit"
    )


def _would_be_taken(
    situation: ProfilingSituation, state: ProfilingState, chosen: CpuAmounts
) -> bool:
    """Return whether a pending pod could get CPUs that the measured pod frees.

    kube-scheduler would give these CPUs to the pending pod within a second, and the measured pod
    could not get them back. Example: the node has 16 CPUs, and the measured pod would be resized
    from 12 to 4. A pending pod that requests 8 CPUs could get them. One that requests 2 CPUs fits
    even before the resize, so it would not take CPUs of the measured pod.
    """
    if chosen.request >= state.original.request:
        return False
    if situation.waiting_milli_cpu is None:
        return True
    free = situation.available_milli_cpu - state.original.request
    freed = situation.available_milli_cpu - chosen.request
    return any(free < waiting <= freed for waiting in situation.waiting_milli_cpu)


def _seconds_left(situation: ProfilingSituation, state: ProfilingState) -> int:
    return situation.budget_seconds - seconds_since(state.started, situation.now)
