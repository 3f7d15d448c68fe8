"""Decides which writes one GPUJob needs; the reconciler calls the pure function ``decide``.

The decision is level-triggered: it depends on the state, not on the event that caused it. If
nothing changes after the writes of a plan, the next decision returns an empty plan.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gputopo.api.v1alpha1 import GPUJobSpec, GPUJobStatus, JobPlacement
from gputopo_operator.decision import condition_updates
from gputopo_operator.decision.child_job import child_job
from gputopo_operator.decision.conditions import (
    ACCEPTED,
    ConditionUpdate,
    find,
    phase,
    updated_conditions,
)
from gputopo_operator.decision.events import invalid_status, status_events
from gputopo_operator.decision.failures import FailureCounts, count_failures
from gputopo_operator.decision.job_patch import REJECTED_RECHECK_SECONDS, with_job_patch
from gputopo_operator.decision.job_profile import (
    profile_condition,
    profile_ready,
    with_missing_profile,
    with_profile,
)
from gputopo_operator.decision.link_run_job import ended_patch, link_run_job
from gputopo_operator.decision.link_runs import LinkPlan, link_plan
from gputopo_operator.decision.pod_creation import with_pod_check
from gputopo_operator.decision.pod_patch import with_pod_patch
from gputopo_operator.decision.postponed import postponed
from gputopo_operator.decision.profiled import profiled
from gputopo_operator.decision.situation import (
    ConditionRule,
    PlanRule,
    job_situation,
    recorded_result,
)
from gputopo_operator.decision.sized import job_resources, sized
from gputopo_operator.decision.spec_error import SpecError
from gputopo_operator.decision.throughput import job_throughput
from gputopo_operator.model.jobs import (
    ChildJob,
    GpuJob,
    GpuJobState,
    ObjectEvent,
    PodDefaults,
    PodSize,
    ReconcilePlan,
)
from gputopo_operator.parse.jobs import parse_child_job

NAME_TAKEN_RECHECK_SECONDS: Final = 30.0
"""Interval for a name that is taken: no event reports the deletion of a Job of another owner."""


CONDITIONS: Final[tuple[ConditionRule, ...]] = (
    condition_updates.accepted,
    condition_updates.placed,
    condition_updates.running,
    condition_updates.finished,
    condition_updates.suspended,
    profiled,
    sized,
    postponed,
    profile_ready,
)

PLANS: Final[tuple[PlanRule, ...]] = (
    with_job_patch,
    with_pod_patch,
    with_pod_check,
    with_missing_profile,
)


def decide(state: GpuJobState, defaults: PodDefaults) -> ReconcilePlan:
    """Return the plan of the writes that a GPUJob needs now."""
    job, child = state.job, state.child
    if job.deleting:
        return ReconcilePlan()
    owned = child is not None and child.owner_uid == job.uid
    if recorded_result(job.status) is not None and not owned:
        return _unchanged(state, job.status.placements)
    if job.spec is None:
        return _rejected(state, "SpecInvalid", job.spec_error)
    if child is None:
        return _without_child(state, job.spec, defaults)
    if not owned:
        message = (
            f"metadata.name: Job {job.key.name} exists, but this GPUJob does not own it; "
            "delete that Job, or give the GPUJob another name"
        )
        return _rejected(
            state, "JobNameTaken", message, recheck_after_seconds=NAME_TAKEN_RECHECK_SECONDS
        )
    return _with_child(state, job.spec, child)


def _without_child(state: GpuJobState, spec: GPUJobSpec, defaults: PodDefaults) -> ReconcilePlan:
    job, error = state.job, state.errors.job
    if error and state.errors.job_is_permanent:
        message = f"{error}; create a new GPUJob, because spec.template is immutable"
        return _rejected(state, "JobRefused", message)
    if error:
        return _rejected(
            state, "JobForbidden", error, recheck_after_seconds=REJECTED_RECHECK_SECONDS
        )
    if _is_rejected_for_good(job):
        return _unchanged(state)
    links = link_plan(state, spec)
    try:
        if links is not None and links.result is None:
            return _measuring_links(state, spec, links, defaults)
        result = links.result if links else None
        manifest = child_job(job, spec, state.profile, defaults, result, queued=state.queued)
    except SpecError as spec_error:
        return _rejected(state, "SpecRefused", str(spec_error))
    plan = _with_child(state, spec, parse_child_job(manifest))
    created = ObjectEvent(
        "Normal", "JobCreated", f"created Job {job.key.name}, which creates the pod"
    )
    return replace(plan, create_job=manifest, events=(created, *plan.events))


def _measuring_links(
    state: GpuJobState, spec: GPUJobSpec, links: LinkPlan, defaults: PodDefaults
) -> ReconcilePlan:
    """Return the plan of a job whose links are measured before its child Job is created."""
    updates = condition_updates.measuring_links(spec, links.waiting)
    updates += profile_condition(state, spec)
    plan = _status_plan(state, updates)
    plan = replace(plan, recheck_after_seconds=links.recheck_after_seconds)
    if links.create is not None:
        run = link_run_job(
            state.job,
            spec,
            state.profile,
            defaults,
            kind=links.create,
            node=links.node,
            pattern=links.pattern,
        )
        note = f"created Job {run['metadata']['name']}: a short run that measures the job's links"
        created = ObjectEvent("Normal", "LinkRunCreated", note)
        plan = replace(plan, create_link_run=run, events=(*plan.events, created))
    if links.stop is not None:
        run_to_end, result = links.stop
        note = f"ended Job {run_to_end.name}: {result.result}"
        stopped = ObjectEvent("Normal", "LinkRunEnded", note)
        patch = run_to_end.name, ended_patch(run_to_end, result)
        plan = replace(plan, link_run_patch=patch, events=(*plan.events, stopped))
    return with_profile(state, spec, plan)


def _with_child(state: GpuJobState, spec: GPUJobSpec, child: ChildJob) -> ReconcilePlan:
    found = job_situation(state, spec, child)
    updates = [update for rule in CONDITIONS for update in rule(found)]
    kept = found.before.placements if found.result is not None and found.pod is None else []
    size = found.pod.size if found.pod else None
    placements = [found.place] if found.place else kept
    plan = _status_plan(state, updates, placements, found.counts, size)
    for rule in PLANS:
        plan = rule(found, plan)
    return plan


def _rejected(
    state: GpuJobState, reason: str, message: str, *, recheck_after_seconds: float | None = None
) -> ReconcilePlan:
    plan = _status_plan(state, condition_updates.rejected(reason, message))
    return replace(plan, recheck_after_seconds=recheck_after_seconds)


def _unchanged(state: GpuJobState, placements: Sequence[JobPlacement] = ()) -> ReconcilePlan:
    updates = condition_updates.unchanged(state.job.status.conditions)
    return _status_plan(state, updates, placements)


def _status_plan(
    state: GpuJobState,
    updates: Sequence[ConditionUpdate],
    placements: Sequence[JobPlacement] = (),
    counts: FailureCounts | None = None,
    size: PodSize | None = None,
) -> ReconcilePlan:
    """Return the plan that writes status and events, or an empty plan if nothing changes."""
    before, generation = state.job.status, state.job.generation
    after = updated_conditions(before.conditions, updates, generation=generation, now=state.now)
    counts = counts or count_failures(before, ())
    throughput = job_throughput(before, placements, state.measured)
    status = GPUJobStatus(
        observed_generation=generation,
        phase=phase(after),
        conditions=after,
        failures=counts.failures,
        failed_pod_uids=list(counts.counted),
        queue=before.queue if state.queued else None,
        placements=list(placements),
        throughput=throughput,
        resources=job_resources(before, placements, size, throughput, state.measured),
    )
    return ReconcilePlan(
        status=status if status != before or state.job.status_error else None,
        events=(
            *invalid_status(state.job.status_error),
            *status_events(before, status, counts.new, state.job.spec),
        ),
        failed_pods=counts.new,
    )


def _is_rejected_for_good(job: GpuJob) -> bool:
    """Return whether the API server has rejected the child Job as invalid for the current spec."""
    before = find(job.status.conditions, ACCEPTED)
    return (
        before is not None
        and before.reason == "JobRefused"
        and before.observed_generation == job.generation
    )
