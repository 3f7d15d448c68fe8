"""Waits until gputopo has measured a job with several numbers of CPUs."""

from gputopo.api.profile import CpuFact
from gputopo.api.profiling import ProfilingState, parse_profiling_state
from learntest import profiles
from learntest.bench import Bench
from learntest.manifests import Run
from showcase.kubectl import wait_for


def wait_measured(bench: Bench, run: Run, seconds: float) -> tuple[ProfilingState, CpuFact]:
    """Wait until the CPUs of a job are measured and restored; return the end and the curve.

    Raises:
        TimeoutError: it was not measured in this time.
    """
    state = wait_for(
        f"the CPUs of {run.name} are measured and restored",
        lambda: _finished(bench, run),
        timeout_s=seconds,
    )
    fact = wait_for(f"the curve of {run.name} is known", lambda: _curve(bench, run, state))
    return state, fact


def _finished(bench: Bench, run: Run) -> ProfilingState | None:
    pod = bench.pod_of(run.name)
    if pod is None:
        return None
    metadata = pod["metadata"]
    state = parse_profiling_state(metadata.get("annotations", {}), metadata["uid"])
    return state if state is not None and state.restored else None


def _curve(bench: Bench, run: Run, state: ProfilingState) -> CpuFact | None:
    """Return the curve when it has all points that the measurement has."""
    fact = profiles.cpu_fact(bench.status_of(run.measuring.profile or ""), run.gpus)
    return fact if fact is not None and len(fact.points) >= len(state.points) else None
