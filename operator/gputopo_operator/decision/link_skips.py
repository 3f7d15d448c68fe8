"""Decides whether a job starts without measuring its links, and why."""

from gputopo.api.link_runs import LinksResult
from gputopo.api.profile import GPUProfile
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo_operator.decision.conditions import ACCEPTED, find
from gputopo_operator.model.jobs import GpuJobState
from gputopo_operator.parse.jobs import QUEUE_LABEL


def reason_to_skip(state: GpuJobState, spec: GPUJobSpec) -> LinksResult | None:
    """Return why the operator must not measure the links of a job, or None if it must measure."""
    job, known = state.job, _known(state.profile, spec.gpus_per_replica)
    accepted = find(job.status.conditions, ACCEPTED)
    taken = next((run for run in state.link_runs.values() if run.owner_uid != job.uid), None)
    if known:
        return LinksResult(result="Known", message=known)
    if spec.suspend and state.link_runs:
        return LinksResult(result="Stopped", message="the job is suspended")
    if accepted is not None and accepted.reason == "JobCreated":
        return LinksResult(
            result="Stopped", message="links are measured only before the Job is first created"
        )
    message = ""
    if spec.gpus_per_replica == 1:
        message = "spec.gpusPerReplica: 1 GPU uses no links"
    elif spec.workload.profile is None:
        message = "spec.workload.profile: missing; set it, because the result is stored there"
    elif QUEUE_LABEL in job.labels:
        message = f"metadata.labels[{QUEUE_LABEL}]: a queue decides when pods of the job start"
    elif state.errors.link_run:
        message = f"the Job of a short run was rejected: {state.errors.link_run}"
    elif taken is not None:
        message = f"Job {taken.name} exists, but this GPUJob does not own it; delete that Job"
    return LinksResult(result="NotPossible", message=message[:1024]) if message else None


def _known(profile: GPUProfile | None, gpus: int) -> str:
    """Return the slowdown on slow links that the GPUProfile states; empty if it states none."""
    if profile is None:
        return ""
    percent = profile.spec.bandwidth_sensitivity_percent
    if percent is not None:
        return f"the GPUProfile declares {percent} %"
    facts = profile.status.facts
    for fact in facts.links if facts else ():
        if fact.gpus == gpus and fact.sensitivity != "Unknown":
            return (
                f"the GPUProfile knows {fact.percent} % ({fact.low_percent}..{fact.high_percent})"
            )
    return ""
