"""Decides the condition Profiled: the state of the measurements that a GPUJob requests."""

from collections.abc import Iterator

from gputopo.api.profiling import ProfilingState
from gputopo_operator.decision.conditions import PROFILED, ConditionUpdate, find
from gputopo_operator.decision.situation import JobSituation
from gputopo_operator.model.jobs import ChildJob

_LINKS_KNOWN = {"Done", "Known"}


def profiled(found: JobSituation) -> list[ConditionUpdate]:
    """Return a list with the condition Profiled, or an empty list if it must not change.

    It must not change if the job requests no measurement or the measured pod no longer exists.
    """
    spec, state = found.spec, found.pod.profiling if found.pod else None
    before = find(found.before.conditions, PROFILED)
    kept = before is not None and before.reason != "MeasuringLinks"
    if "CPUs" in spec.profiling.measure and state is None and kept:
        return []
    parts = [*_links(found.child), *(_cpus(state) if "CPUs" in spec.profiling.measure else ())]
    if not parts:
        return []
    decisive = next((part for part in parts if not part.holds), parts[-1])
    message = "; ".join(part.message for part in parts)
    return [ConditionUpdate(PROFILED, decisive.holds, decisive.reason, message)]


def _links(child: ChildJob) -> Iterator[ConditionUpdate]:
    if child.links is not None:
        result, message = child.links.result, f"Links: {child.links.message}"
        yield ConditionUpdate(PROFILED, result in _LINKS_KNOWN, result, message)


def _cpus(state: ProfilingState | None) -> Iterator[ConditionUpdate]:
    if state is None:
        message = "CPUs: waiting for the first sample"
        yield ConditionUpdate(PROFILED, False, "Waiting", message)
    elif state.result is None:
        message = (
            f"CPUs: waiting for a sample with a limit of {state.target.limit}m; measurements "
            f"so far: {len(state.points)}; the pod's own limit is {state.original.limit}m"
        )
        yield ConditionUpdate(PROFILED, False, "Measuring", message)
    else:
        reason = state.result if state.restored else "Restoring"
        yield ConditionUpdate(PROFILED, reason == "Done", reason, f"CPUs: {state.message}")
