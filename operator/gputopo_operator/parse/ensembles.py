"""Parses the objects for a decision about a GPUEnsemble."""

from collections.abc import Iterable, Mapping, Sequence

from pydantic import ValidationError

from gputopo.api.model import Condition
from gputopo.api.names import (
    ENSEMBLE_LABEL,
    ENSEMBLE_MEMBER_LABEL,
    ENSEMBLE_NODE_ANNOTATION,
    JOB_LABEL,
)
from gputopo.api.profile import GPUProfile, ScalingFact
from gputopo.api.readable import readable_status
from gputopo.api.v1alpha1 import GPUJobStatus
from gputopo_kube.document import Document, ObjectKey, controller_of
from gputopo_operator.model.ensembles import (
    MemberJob,
    MemberPod,
    member_job_name,
)
from gputopo_operator.model.jobs import JobResult
from gputopo_operator.parse.readable import each_readable

_REJECTED_FOR_GOOD = frozenset({"JobRefused", "SpecRefused", "SpecInvalid"})
_NOT_CREATED = frozenset({"PodNotCreated", "JobForbidden", "JobNameTaken"})
_WAITS = ("Accepted", "Suspended", "Placed", "Running")


def parse_member_jobs(
    jobs: Iterable[Document], pods: Iterable[Document]
) -> dict[ObjectKey, dict[str, MemberJob]]:
    """Return the GPUJobs of all ensembles: by ensemble, and by name of the member.

    GPUJobs that have the labels of a member, but not its name, are skipped.
    """
    by_job: dict[ObjectKey, list[Document]] = {}
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        name = labels.get(JOB_LABEL, "") if ENSEMBLE_LABEL in labels else ""
        by_job.setdefault(ObjectKey(pod["metadata"]["namespace"], name), []).append(pod)
    found: dict[ObjectKey, dict[str, MemberJob]] = {}

    def parse(raw: Document) -> None:
        metadata = raw["metadata"]
        ensemble = ObjectKey(metadata["namespace"], metadata["labels"][ENSEMBLE_LABEL])
        member = metadata["labels"].get(ENSEMBLE_MEMBER_LABEL, "")
        if metadata["name"] == member_job_name(ensemble.name, member):  # else it is a copy
            job = _member_job(raw, by_job.get(ObjectKey.of(raw), ()))
            found.setdefault(ensemble, {})[member] = job

    for _ in each_readable(parse, jobs):
        pass
    return found


def _member_job(raw: Document, pods: Sequence[Document]) -> MemberJob:
    metadata = raw["metadata"]
    status, _ = readable_status(GPUJobStatus, raw.get("status"))
    return MemberJob(
        name=metadata["name"],
        uid=metadata["uid"],
        owner_uid=str(controller_of(raw).get("uid", "")),
        deleting="deletionTimestamp" in metadata,
        gpus=raw["spec"]["gpusPerReplica"],
        node=(metadata.get("annotations") or {}).get(ENSEMBLE_NODE_ANNOTATION),
        result=_result(status),
        message=_waits_for(status),
        pod=_newest(pods),
        suspended=bool(raw["spec"].get("suspend")),
        pod_error=_pod_error(status),
        queued_since=next(
            (each.last_transition_time for each in status.conditions if _is_queued(each)), None
        ),
    )


def _result(status: GPUJobStatus) -> JobResult | None:
    for condition in status.conditions:
        if condition.type in {"Complete", "Failed"} and condition.status == "True":
            return JobResult(condition.type == "Complete", condition.reason, condition.message)
        rejected = condition.type == "Accepted" and condition.status == "False"
        if rejected and condition.reason in _REJECTED_FOR_GOOD:
            return JobResult(succeeded=False, reason=condition.reason, message=condition.message)
    return None


def _is_queued(condition: Condition) -> bool:
    """Return whether the condition is that a queue suspends the job, and not the user."""
    return condition.status == "True" and condition.reason in {"Queued", "SuspendedByQueue"}


def _pod_error(status: GPUJobStatus) -> str:
    """Return why the Job or the pod of a GPUJob could not be created, by its conditions."""
    for condition in status.conditions:
        if condition.reason in _NOT_CREATED:
            return condition.message or condition.reason
    return ""


def _waits_for(status: GPUJobStatus) -> str:
    """Return the message of the condition for which a GPUJob waits; empty if it runs."""
    conditions = {each.type: each for each in status.conditions}
    for name in _WAITS:
        condition = conditions.get(name)
        waits = "True" if name == "Suspended" else "False"
        if condition is not None and condition.status == waits:
            return condition.message or condition.reason
    return ""


def _newest(pods: Sequence[Document]) -> MemberPod | None:
    if not pods:
        return None
    pod = max(
        pods, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["uid"])
    )
    status = pod.get("status") or {}
    return MemberPod(
        uid=pod["metadata"]["uid"],
        node=pod["spec"].get("nodeName"),
        running=status.get("phase") == "Running",
        deleting="deletionTimestamp" in pod["metadata"],
        started=status.get("startTime"),
    )


def parse_remains(
    children: Iterable[Document], pods: Iterable[Document], jobs: Mapping[ObjectKey, str]
) -> dict[ObjectKey, str]:
    """Return what still exists of earlier GPUJobs, as text, by their namespace and name.

    Args:
        children: batch/v1 Jobs of members.
        pods: live pods.
        jobs: UIDs of the GPUJobs that exist and are not being deleted.
    """
    remains: dict[ObjectKey, str] = {}
    uids: dict[ObjectKey, str] = {}
    for raw in children:
        key = ObjectKey.of(raw)
        uids[key] = raw["metadata"]["uid"]
        if controller_of(raw).get("uid") != jobs.get(key):
            remains[key] = f"Job {key.name} is being deleted"
    for pod in pods:
        metadata, labels = pod["metadata"], pod["metadata"].get("labels") or {}
        if ENSEMBLE_LABEL not in labels:
            continue
        key = ObjectKey(metadata["namespace"], labels.get(JOB_LABEL, ""))
        owners = {owner["uid"] for owner in metadata.get("ownerReferences") or ()}
        if key not in jobs or uids.get(key) not in owners:
            node = pod["spec"].get("nodeName") or "no node"
            remains[key] = f"pod {metadata['name']} on {node} is ending"
    return remains


def parse_scaling(raw: Document) -> tuple[ScalingFact, ...]:
    """Return the rates by number of GPUs in a GPUProfile; empty if it is of another version."""
    try:
        facts = GPUProfile.model_validate({"status": raw.get("status") or {}}).status.facts
    except ValidationError:
        return ()
    return tuple(facts.scaling) if facts else ()
