"""Decides which fields of the child Job change."""

from dataclasses import replace
from typing import Final

from gputopo_kube.document import Document
from gputopo_operator.decision.child_job import backoff_limit
from gputopo_operator.decision.situation import JobSituation
from gputopo_operator.model.jobs import ObjectEvent, ReconcilePlan

REJECTED_RECHECK_SECONDS: Final = 60.0
"""Interval after a rejected write: a quota or an admission policy may allow it later."""


def with_job_patch(found: JobSituation, plan: ReconcilePlan) -> ReconcilePlan:
    """Add the patch of the child Job to the plan.

    If the API server has rejected the patch, add an event too. The plan still writes the status.
    """
    patch, error = _job_patch(found), found.state.errors.job_patch
    plan = replace(plan, job_patch=patch)
    if patch is None or not error:
        return plan
    name = found.state.job.key.name
    note = f"Job {name} was not changed to {patch['spec']}: {error}"
    return replace(
        plan,
        events=(*plan.events, ObjectEvent("Warning", "JobNotUpdated", note)),
        recheck_after_seconds=REJECTED_RECHECK_SECONDS,
    )


def _job_patch(found: JobSituation) -> Document | None:
    """Return the merge patch that the child Job needs, or None if no field has to change.

    Only a job without a Kueue queue is suspended and continued by this patch.

    If the job has a result, the patch ends the Job with ``backoffLimit: 0``, and not with
    ``suspend``, which Kueue may control. If the job has no result, the patch raises
    ``backoffLimit`` by the number of deleted pods, which the Job controller counts as failed.
    """
    child = found.child
    if child.result is not None or child.deleting or not child.uid:
        return None
    changes: Document = {}
    if found.result is not None:
        if child.backoff_limit != 0:
            changes["backoffLimit"] = 0
    else:
        failures = found.counts.failures
        counted = failures.application + failures.admission
        needed = backoff_limit(found.spec) + max(0, child.failed - counted)
        if child.backoff_limit < needed:
            changes["backoffLimit"] = needed
        suspend = found.spec.suspend or (found.state.queued and child.suspended)
        if not found.queue and child.suspended != suspend:
            changes["suspend"] = suspend
    if not changes:
        return None
    # With these fields the API server rejects the patch if the Job has changed meanwhile.
    identity = {"uid": child.uid, "resourceVersion": child.resource_version}
    return {"metadata": identity, "spec": changes}
