"""From what is seen of a GPUJob to what is to be done: a pure, level-triggered decision.

Which event led here does not matter: everything follows from the snapshot. Applying the plan
and deciding again gives an empty plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gputopo.api.v1alpha1 import GPUJobSpec, GPUJobStatus, JobPlacement
from gputopo_operator.decision import condition_updates
from gputopo_operator.decision.child_job import SpecError, child_job, failures_borne
from gputopo_operator.decision.conditions import (
    ACCEPTED,
    COMPLETE,
    FAILED,
    PROFILE_READY,
    Claim,
    conditions,
    find,
    holds,
    phase,
)
from gputopo_operator.decision.events import news
from gputopo_operator.decision.failures import Tally, exceeded, tally
from gputopo_operator.decision.placements import current_pod, placement
from gputopo_operator.model import Child, Ending, Event, GpuJob, Object, Plan, Rules, Snapshot
from gputopo_operator.parse import QUEUE_LABEL, read_child

NAME_TAKEN_RECHECK_S: Final = 30.0
"""The end of a Job that is not ours is no event of ours."""

FORBIDDEN_RECHECK_S: Final = 60.0
"""A quota or an admission policy may allow the Job, or its GPUProfile, later."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    claims: Sequence[Claim]
    placements: Sequence[JobPlacement] = ()
    counts: Tally | None = None


def decide(seen: Snapshot, rules: Rules) -> Plan:
    """Return what brings the GPUJob's child Job and status to what they should be."""
    job, child = seen.job, seen.child
    if job.deleting:
        return Plan()
    own = child is not None and child.owner_uid == job.uid
    if _ending_before(job.status) is not None and not own:
        return _plan(
            seen, _Outcome(condition_updates.repeated(job.status.conditions), job.status.placements)
        )
    if job.spec is None:
        return _refused(seen, "SpecInvalid", job.spec_error)
    if child is None:
        return _without_child(seen, job.spec, rules)
    if not own:
        message = (
            f"metadata.name: Job {job.key.name} is there and belongs to somebody else; "
            "delete it, or give the GPUJob another name"
        )
        return _refused(seen, "JobNameTaken", message, recheck_after_s=NAME_TAKEN_RECHECK_S)
    return _with_child(seen, job.spec, child)


def _without_child(seen: Snapshot, spec: GPUJobSpec, rules: Rules) -> Plan:
    job = seen.job
    if seen.refusal is not None:
        if seen.refusal.permanent:
            message = f"{seen.refusal.message}; mend it in a new GPUJob, the template is immutable"
            return _refused(seen, "JobRefused", message)
        message = seen.refusal.message
        return _refused(seen, "JobForbidden", message, recheck_after_s=FORBIDDEN_RECHECK_S)
    if _was_refused_for_good(job):
        return _plan(seen, _Outcome(condition_updates.repeated(job.status.conditions)))
    try:
        manifest = child_job(job, spec, seen.profile, rules)
    except SpecError as error:
        return _refused(seen, "SpecRefused", str(error))
    plan = _with_child(seen, spec, read_child(manifest))
    created = Event("Normal", "JobCreated", f"Job {job.key.name} will make the pod")
    return replace(plan, create_job=manifest, events=(created, *plan.events))


def profile_to_read(job: GpuJob, child: Object | None) -> str | None:
    """Return the GPUProfile that a decision needs: for a new Job, or where it is to be created."""
    if job.spec is None or _ending_before(job.status) is not None:
        return None
    known = child is not None and holds(job.status.conditions, PROFILE_READY)
    return None if known else job.spec.workload.profile


def _with_child(seen: Snapshot, spec: GPUJobSpec, child: Child) -> Plan:
    before = seen.job.status
    pods = tuple(pod for pod in seen.pods if child.uid and pod.job_uid == child.uid)
    counts = tally(before, () if _ending_before(before) else pods)
    ending = _ending(before, spec, child, counts)
    pod = current_pod(pods, over=ending is not None)
    place = placement(pod, seen.observed, before.placements) if pod else None
    queue = child.queue or seen.job.labels.get(QUEUE_LABEL, "")
    claimed = [
        condition_updates.accepted(spec, child),
        condition_updates.placed(seen.job.key.name, pod, place, before.conditions, ending),
        condition_updates.running(pod, ending),
        *condition_updates.ended(ending, counts.failures, spec),
        condition_updates.suspended(spec, child, queue, ending),
    ]
    if ending is None:
        claimed += condition_updates.profile(seen, spec.workload.profile)
    kept = before.placements if ending is not None and pod is None else []
    outcome = _Outcome(claimed, [place] if place else kept, counts)
    plan = _plan(seen, outcome, _job_patch(spec, child, queue, counts, ending))
    return plan if ending is not None else _with_profile(seen, spec, plan)


def _with_profile(seen: Snapshot, spec: GPUJobSpec, plan: Plan) -> Plan:
    """Return the plan with the creation of a missing GPUProfile, or with its next attempt.

    An empty GPUProfile has no effect on the job, so the job never waits for it.
    """
    if seen.profile_error:
        return replace(plan, recheck_after_s=FORBIDDEN_RECHECK_S)
    missing = seen.profile is None and not holds(seen.job.status.conditions, PROFILE_READY)
    return replace(plan, create_profile=spec.workload.profile if missing else None)


def _job_patch(
    spec: GPUJobSpec, child: Child, queue: str, counts: Tally, ending: Ending | None
) -> Object | None:
    """Return the merge patch that brings the child Job to what it should be.

    A Job is ended for good by the limit of its failures: that leaves alone what a queue
    owns, ``suspend`` and the template. Failures that are nobody's raise the limit.
    """
    if child.ending is not None or child.deleting or not child.uid:
        return None
    changes: Object = {}
    if ending is not None:
        if child.backoff_limit != 0:
            changes["backoffLimit"] = 0
    else:
        counted = counts.failures.application + counts.failures.admission
        needed = failures_borne(spec) + max(0, child.failed - counted)
        if child.backoff_limit < needed:
            changes["backoffLimit"] = needed
        if not queue and child.suspended != spec.suspend:
            changes["suspend"] = spec.suspend
    if not changes:
        return None
    # The API server refuses the patch where the Job has changed meanwhile.
    identity = {"uid": child.uid, "resourceVersion": child.resource_version}
    return {"metadata": identity, "spec": changes}


def _refused(
    seen: Snapshot, reason: str, message: str, *, recheck_after_s: float | None = None
) -> Plan:
    outcome = _Outcome(condition_updates.refused(reason, message))
    return replace(_plan(seen, outcome), recheck_after_s=recheck_after_s)


def _plan(seen: Snapshot, outcome: _Outcome, job_patch: Object | None = None) -> Plan:
    before, generation = seen.job.status, seen.job.generation
    said = conditions(before.conditions, outcome.claims, generation=generation, now=seen.now)
    counts = outcome.counts or tally(before, ())
    status = GPUJobStatus(
        observed_generation=generation,
        phase=phase(said),
        conditions=said,
        failures=counts.failures,
        failed_pod_uids=list(counts.counted),
        placements=list(outcome.placements),
    )
    return Plan(
        job_patch=job_patch,
        status=status if status != before else None,
        events=news(before, status, counts.new, seen.job.spec),
        failed_pods=counts.new,
    )


def _ending(before: GPUJobStatus, spec: GPUJobSpec, child: Child, counts: Tally) -> Ending | None:
    """Return how the job ended, None while it has not: an ending that was told stays."""
    told = _ending_before(before)
    if told is not None or (child.ending is not None and child.ending.succeeded):
        return told or child.ending
    return exceeded(counts.failures, spec.limits) or child.ending


def _ending_before(status: GPUJobStatus) -> Ending | None:
    for condition in status.conditions:
        if condition.type in {COMPLETE, FAILED} and condition.status == "True":
            succeeded = condition.type == COMPLETE
            return Ending(succeeded, condition.reason, condition.message)
    return None


def _was_refused_for_good(job: GpuJob) -> bool:
    """Whether the API server refused the child Job of this very spec."""
    before = find(job.status.conditions, ACCEPTED)
    return (
        before is not None
        and before.reason == "JobRefused"
        and before.observed_generation == job.generation
    )
