"""Decides about the GPUProfile that a GPUJob names: condition ProfileReady, and its creation."""

from dataclasses import replace

from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo_kube.document import Document
from gputopo_operator.decision.conditions import (
    PROFILE_READY,
    ConditionUpdate,
    find,
    holds,
    repeated,
)
from gputopo_operator.decision.job_patch import REJECTED_RECHECK_SECONDS
from gputopo_operator.decision.situation import JobSituation, recorded_result
from gputopo_operator.model.jobs import GpuJob, GpuJobState, ReconcilePlan


def profile_to_read(job: GpuJob, child: Document | None) -> str | None:
    """Return the name of the GPUProfile that the next decision uses, or None if it uses none.

    A decision uses the GPUProfile to create the child Job, and later to check whether a missing
    GPUProfile has been created. After that, changes of the GPUProfile have no effect, because the
    pod template of a Job is immutable.
    """
    if job.spec is None or recorded_result(job.status) is not None:
        return None
    known = child is not None and holds(job.status.conditions, PROFILE_READY)
    return None if known else job.spec.workload.profile


def profile_ready(found: JobSituation) -> list[ConditionUpdate]:
    """Return the condition ProfileReady of a job that has not ended."""
    return [] if found.result is not None else profile_condition(found.state, found.spec)


def profile_condition(state: GpuJobState, spec: GPUJobSpec) -> list[ConditionUpdate]:
    """Return the condition ProfileReady, or an empty list if the job names no GPUProfile."""
    name, before = spec.workload.profile, find(state.job.status.conditions, PROFILE_READY)
    if name is None:
        return []
    if state.errors.profile:
        # The remedy comes first: a long message of the API server is cut at its end.
        message = (
            f"GPUProfile {name} was not created, so the job runs without it; create it yourself, "
            f"or fix the error (gputopo tries again once a minute): {state.errors.profile}"
        )
        return [ConditionUpdate(PROFILE_READY, False, "ProfileNotCreated", message)]
    if before is not None and before.status == "True":
        return [repeated(before)]
    reason = "ProfileFound" if state.profile else "ProfileCreated"
    return [ConditionUpdate(PROFILE_READY, True, reason, f"GPUProfile {name}")]


def with_missing_profile(found: JobSituation, plan: ReconcilePlan) -> ReconcilePlan:
    """Add the creation of a missing GPUProfile to the plan of a job that has not ended."""
    return plan if found.result is not None else with_profile(found.state, found.spec, plan)


def with_profile(state: GpuJobState, spec: GPUJobSpec, plan: ReconcilePlan) -> ReconcilePlan:
    """Add the creation of a missing GPUProfile to the plan, or a recheck if it was rejected.

    The job does not wait for the created GPUProfile, because an empty GPUProfile has no effect.
    """
    if state.errors.profile:
        return replace(plan, recheck_after_seconds=REJECTED_RECHECK_SECONDS)
    missing = state.profile is None and not holds(state.job.status.conditions, PROFILE_READY)
    return replace(plan, create_profile=spec.workload.profile if missing else None)
