"""Decides which fields of the child Job change."""

from dataclasses import replace
from typing import Final

from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo_kube.document import Document
from gputopo_operator.decision.child_job import backoff_limit
from gputopo_operator.decision.failures import FailureCounts
from gputopo_operator.model.jobs import ChildJob, GpuJobState, JobResult, ObjectEvent, ReconcilePlan

REJECTED_RECHECK_SECONDS: Final = 60.0
"""Interval after a rejected write: a quota or an admission policy may allow it later."""


def job_patch(
    spec: GPUJobSpec,
    child: ChildJob,
    suspend: bool | None,  # noqa: FBT001 - a value of the Job
    counts: FailureCounts,
    result: JobResult | None,
) -> Document | None:
    """Return the merge patch that the child Job needs, or None if no field has to change.

    If the argument ``suspend`` is None, the patch does not change ``suspend`` of the Job.

    If the job has a result, the patch ends the Job with ``backoffLimit: 0``, and not with
    ``suspend``, which Kueue may control. If the job has no result, the patch raises
    ``backoffLimit`` by the number of deleted pods, which the Job controller counts as failed.
    """
    if child.result is not None or child.deleting or not child.uid:
        return None
    changes: Document = {}
    if result is not None:
        if child.backoff_limit != 0:
            changes["backoffLimit"] = 0
    else:
        counted = counts.failures.application + counts.failures.admission
        needed = backoff_limit(spec) + max(0, child.failed - counted)
        if child.backoff_limit < needed:
            changes["backoffLimit"] = needed
        if suspend is not None and child.suspended != suspend:
            changes["suspend"] = suspend
    if not changes:
        return None
    # With these fields the API server rejects the patch if the Job has changed meanwhile.
    identity = {"uid": child.uid, "resourceVersion": child.resource_version}
    return {"metadata": identity, "spec": changes}


def with_job_patch(
    state: GpuJobState, plan: ReconcilePlan, patch: Document | None
) -> ReconcilePlan:
    """Add the patch of the child Job to the plan.

    If the API server has rejected the patch, add an event too. The plan still writes the status.
    """
    plan = replace(plan, job_patch=patch)
    if patch is None or not state.errors.job_patch:
        return plan
    note = f"Job {state.job.key.name} was not changed to {patch['spec']}: {state.errors.job_patch}"
    return replace(
        plan,
        events=(*plan.events, ObjectEvent("Warning", "JobNotUpdated", note)),
        recheck_after_seconds=REJECTED_RECHECK_SECONDS,
    )
