"""Decides how the links of a job are measured before the job starts.

The job's own program runs twice for a short time on one node: first on the GPU set with the best
links, then on the GPU set with the worst links. The operator ends each run as soon as the agent has
taken three samples of the speed, so that one wrong sample has little effect. After half of the time
limit, one sample is enough. The two speeds show how much slower the job is on slow links. Then the
job itself starts, and an annotation of its pods states this slowdown. The authors of MAPA found the
sensitivity of a workload in this way, by hand.

The decisions depend only on API objects, so an operator that was killed continues.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gputopo.api.annotations import PlacementAnnotation
from gputopo.api.link_runs import LinkRunResult, LinksResult, RunResult
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo.profiles.comparable import MIN_SAMPLES
from gputopo.profiles.links import MIN_CONTRAST
from gputopo.runtime.times import seconds_since
from gputopo_operator.decision.link_results import failed_result, measured_result
from gputopo_operator.decision.link_skips import reason_to_skip
from gputopo_operator.decision.placements import current_pod
from gputopo_operator.model.jobs import GpuJobState, JobPod, LinkRun, LinkSet

PLACE_SECONDS: Final = 60
"""Longest time that a run waits for idle GPUs."""

STORE_SECONDS: Final = 60
"""Longest time that the job waits until its GPUProfile has the sample of the second run."""

POLL_SECONDS: Final = 10
"""Interval while a run waits for its sample, and while the GPUProfile does not have it: no event
reports this."""


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """The next step in measuring the links of a job.

    Attributes:
        create: the run to start.
        node: the node of this run; None if the scheduler chooses it.
        pattern: communication pattern of the first run, for the second; None if it is unknown.
        result: the final result, after which the job itself starts; None while links are measured.
        stop: the run to end, and its result.
        waiting: what the measurement waits for, as text for users.
        recheck_after_seconds: time after which to decide again, even without an event.
    """

    create: LinkSet | None = None
    node: str | None = None
    pattern: str | None = None
    result: LinksResult | None = None
    stop: tuple[LinkRun, LinkRunResult] | None = None
    waiting: str = ""
    recheck_after_seconds: float | None = None


def has_links_to_measure(spec: GPUJobSpec | None) -> bool:
    """Return whether a GPUJob requests to measure its links."""
    return spec is not None and "Links" in spec.profiling.measure


def link_plan(state: GpuJobState, spec: GPUJobSpec) -> LinkPlan | None:
    """Return the next step for a job without a child Job; None if it measures no links."""
    if not has_links_to_measure(spec):
        return None
    runs = {kind: run for kind, run in state.link_runs.items() if run.owner_uid == state.job.uid}
    skip = reason_to_skip(state, spec)
    for kind, run in runs.items():
        if run.result is None and not run.finished:
            return _active(state, spec, kind, stopped=_is_stopped(state, kind, skip))
    best = runs.get(LinkSet.BEST)
    if best is not None:
        return _after_best(state, spec, best, runs.get(LinkSet.WORST), skip)
    if skip is not None:
        return LinkPlan(result=skip)
    return LinkPlan(waiting="the job is suspended") if spec.suspend else _create(LinkSet.BEST, None)


def _is_stopped(state: GpuJobState, kind: LinkSet, skip: LinksResult | None) -> bool:
    """Return whether to end an active run because of ``skip``, a reason not to measure.

    The slowdown may be known from a sample of the second run itself. Then this run continues.
    """
    if skip is None or kind is LinkSet.BEST or skip.result != "Known":
        return skip is not None
    pods = (pod.view.uid for pod in state.pods if pod.job_uid == state.link_runs[kind].uid)
    return not any(state.samples.get(uid) for uid in pods)


def _after_best(
    state: GpuJobState,
    spec: GPUJobSpec,
    best: LinkRun,
    worst: LinkRun | None,
    skip: LinksResult | None,
) -> LinkPlan:
    if best.result is None or best.result.result != "Measured":
        return LinkPlan(result=failed_result(best.result))
    if worst is None:
        return LinkPlan(result=skip) if skip else _second(state, spec, best, best.result)
    if worst.result is None or worst.result.result != "Measured":
        return LinkPlan(result=failed_result(worst.result))
    return _both(state, best, best.result, worst.result)


def _second(state: GpuJobState, spec: GPUJobSpec, best: LinkRun, first: LinkRunResult) -> LinkPlan:
    """Start the second run on the node of the first run, after the first run's pod has ended."""
    left = _seconds_left(state, spec)
    if left <= 0:
        return LinkPlan(result=failed_result(first.model_copy(update={"result": "TimeLimit"})))
    if any(pod.job_uid == best.uid and pod.view.live for pod in state.pods):
        waiting = f"waiting until the pod of Job {best.name} has ended"
        return LinkPlan(waiting=waiting, recheck_after_seconds=left)
    return _create(LinkSet.WORST, first.node, first.pattern)


def _create(kind: LinkSet, node: str | None, pattern: str | None = None) -> LinkPlan:
    return LinkPlan(kind, node, pattern, recheck_after_seconds=PLACE_SECONDS)


def _both(
    state: GpuJobState, best: LinkRun, first: LinkRunResult, second: LinkRunResult
) -> LinkPlan:
    """Return the result of both runs when the GPUProfile has their samples; before that, wait."""
    samples = state.profile.status.samples if state.profile else ()
    stored = {sample.key for sample in samples if sample.pod_uid == second.pod_uid}
    reported = {sample.key for sample in state.samples.get(second.pod_uid or "", ())}
    missing = STORE_SECONDS - seconds_since(second.time, _time(state.now))
    if missing > 0 and (not stored or reported - stored):
        waiting = "waiting until the GPUProfile has the samples of both runs"
        return LinkPlan(waiting=waiting, recheck_after_seconds=min(missing, POLL_SECONDS))
    return LinkPlan(result=measured_result(best.created, first, second))


def _active(state: GpuJobState, spec: GPUJobSpec, kind: LinkSet, *, stopped: bool) -> LinkPlan:
    """End an active run if it has its samples, cannot get samples or has no time left."""
    run = state.link_runs[kind]
    pod = current_pod([pod for pod in state.pods if pod.job_uid == run.uid], finished=True)
    placed = pod is not None and pod.view.node is not None
    left = _seconds_left(state, spec)
    place_left = PLACE_SECONDS - seconds_since(run.created, _time(state.now))
    share = spec.profiling.max_seconds / 2
    late = left <= POLL_SECONDS or seconds_since(run.created, _time(state.now)) >= share
    needed = 1 if late else MIN_SAMPLES
    result = "Stopped" if stopped else _finding(state, kind, pod, needed)
    if result is None and left <= 0:
        result = "TimeLimit"
    elif result is None and not placed and place_left <= 0:
        result = "NotPlaced"
    if result is not None:
        return LinkPlan(stop=(run, _run_result(state, result, pod)))
    waiting = f"Job {run.name} waits for {'samples' if placed else 'idle GPUs'}"
    longest = POLL_SECONDS if placed else place_left
    return LinkPlan(waiting=waiting, recheck_after_seconds=min(left, longest))


def _finding(
    state: GpuJobState, kind: LinkSet, pod: JobPod | None, needed: int
) -> RunResult | None:
    """Return the result of an active run, or None if the run must continue.

    A run whose pod has at least ``needed`` samples has the result ``Measured``.
    """
    if pod is None:
        return None
    if len(state.samples.get(pod.view.uid, ())) >= needed:
        return "Measured"
    if not pod.view.live:
        return "Ended"
    best = state.link_runs[LinkSet.BEST].result if kind is LinkSet.WORST else None
    if pod.placement is not None and not _has_contrast(pod.placement, best):
        return "NoContrast"
    return None


def _has_contrast(placement: PlacementAnnotation, best: LinkRunResult | None) -> bool:
    """Return whether the GPU sets of both runs differ enough in bandwidth.

    During the first run, the second GPU set is not known. Then the bandwidth of the worst GPU set
    of the idle node is used.
    """
    if best is None:
        high, low = placement.physical_mb_per_s, placement.physical_worst_mb_per_s
    else:
        high, low = best.physical_mb_per_s, placement.physical_mb_per_s
    return high is not None and low is not None and high >= MIN_CONTRAST * low


def _run_result(state: GpuJobState, result: RunResult, pod: JobPod | None) -> LinkRunResult:
    samples = state.samples.get(pod.view.uid) if pod else None
    sample = samples[-1] if samples else None
    placement = pod.placement if pod else None
    return LinkRunResult(
        result=result,
        time=state.now,
        node=pod.view.node if pod else None,
        pod_uid=pod.view.uid if pod else None,
        physical_mb_per_s=placement.physical_mb_per_s if placement else None,
        micro_steps_per_second=sample.micro_steps_per_second if sample else None,
        pattern=placement.pattern[:64] if placement else None,
    )


def _seconds_left(state: GpuJobState, spec: GPUJobSpec) -> int:
    """Return the seconds until the time limit, which counts from the start of the first run."""
    started = min(run.created for run in state.link_runs.values())
    return spec.profiling.max_seconds - seconds_since(started, _time(state.now))


def _time(now: str) -> datetime:
    return datetime.fromisoformat(now)
