"""Explains why a GPUJob does not run: rejected, suspended, queued, or its pod is pending."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from gputopo.api.v1alpha1 import QueueStatus
from gputopo.runtime.times import unix_seconds
from gputopo_explain.objects import ClusterObjects, LiveKind
from gputopo_explain.pending.ends import gpu_job_of
from gputopo_explain.pending.model import (
    GpuJobExplanation,
    GpuJobStage,
    PodExplanation,
    QueuePosition,
)
from gputopo_explain.pending.pods import explain_pod
from gputopo_explain.templates import ManifestError, pod_of
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.podmodel import PodError
from gputopo_kube.podstatus import ENDED_PHASES
from gputopo_kube.priorities import priorities_of

_QUEUED = frozenset({"Queued", "PodNotCreated"})
_BY_USER = "SuspendedByUser"


def explain_gpu_job(job: Document, objects: ClusterObjects) -> GpuJobExplanation:
    """Explain why a GPUJob does not run. If it runs or has ended, the state shows this."""
    key, conditions = ObjectKey.of(job), _conditions(job)
    for type_, status, state in (
        ("Complete", "True", GpuJobStage.ENDED),
        ("Failed", "True", GpuJobStage.ENDED),
        ("Accepted", "False", GpuJobStage.REJECTED),
    ):
        found = conditions.get(type_, {})
        if found.get("status") == status:
            remedy = None if state is GpuJobStage.ENDED else "correct the field; create it again"
            text = f"{type_} is {status}: {found.get('reason')}: {found.get('message')}"
            return GpuJobExplanation(key, state, text, remedy)
    suspended = conditions.get("Suspended", {})
    if suspended.get("status") == "True":
        return _suspended(job, suspended, objects)
    return _by_pod(key, objects)


def _conditions(job: Document) -> Mapping[str, Mapping[str, Any]]:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return {str(each.get("type")): each for each in conditions}


def _by_pod(key: ObjectKey, objects: ClusterObjects) -> GpuJobExplanation:
    pod = next(
        (
            each
            for each in objects[LiveKind.PODS]
            if gpu_job_of(each) == key
            and (each.get("status") or {}).get("phase") not in ENDED_PHASES
        ),
        None,
    )
    if pod is None:
        summary = "no pod exists yet: the operator creates a Job, and the Job a pod"
        remedy = f"`kubectl -n {key.namespace} describe gpujob,job {key.name}` shows errors"
        return GpuJobExplanation(key, GpuJobStage.NO_POD, summary, remedy)
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
    if node:
        summary = f"its pod {name} is bound to {node}: `gputopo explain` of the pod shows why there"
        return GpuJobExplanation(key, GpuJobStage.STARTED, summary)
    explained = explain_pod(pod, objects)
    summary = f"its pod {name} is pending: {explained.summary}"
    return GpuJobExplanation(key, GpuJobStage.POD_PENDING, summary, explained.remedy, pod=explained)


def _suspended(
    job: Document, condition: Mapping[str, Any], objects: ClusterObjects
) -> GpuJobExplanation:
    key, reason = ObjectKey.of(job), condition.get("reason")
    pod = _template_pod(job, objects)
    if reason in _QUEUED:
        queue = _position(job, objects)
        summary = f"waits in gputopo's queue at position {queue.position}: {queue.reason}"
        return GpuJobExplanation(
            key, GpuJobStage.QUEUED, summary, queue=queue, pod=pod, is_template=True
        )
    if reason == _BY_USER:
        summary = "spec.suspend: true: the user has suspended it"
        patch = '--type=merge -p \'{"spec":{"suspend":false}}\''
        remedy = f"`kubectl -n {key.namespace} patch gpujob {key.name} {patch}` starts it"
    else:
        summary = f"suspended: {reason}: {condition.get('message')}"
        remedy = "another queue, such as Kueue, starts it: `kubectl get workloads` shows its state"
    return GpuJobExplanation(
        key, GpuJobStage.SUSPENDED, summary, remedy, pod=pod, is_template=pod is not None
    )


def _template_pod(job: Document, objects: ClusterObjects) -> PodExplanation | None:
    """Explain the pod that the GPUJob would have if it started now; None if it is not valid.

    The pod is that of its suspended Job. If the Jobs are not readable, it is made from the GPUJob.
    """
    key = ObjectKey.of(job)
    children = (each for each in objects[LiveKind.JOBS] if ObjectKey.of(each) == key)
    workload = {**next(children, {**job, "kind": "GPUJob"})}
    workload.setdefault("kind", "Job")
    settings = objects.installation
    try:
        pod = pod_of(
            workload,
            resource=settings.resource,
            scheduler=settings.scheduler_name,
            priorities=priorities_of(objects[LiveKind.PRIORITY_CLASSES]),
        )
        return explain_pod(pod, objects)
    except (ManifestError, PodError):
        return None


def _position(job: Document, objects: ClusterObjects) -> QueuePosition:
    status = _queue_status(job) or QueueStatus(reason="status.queue cannot be parsed")
    waiting = [
        each
        for each in map(_queue_status, objects[LiveKind.GPU_JOBS])
        if each is not None and each.position is not None
    ]
    settings = objects.installation
    since = unix_seconds(status.waiting_since)
    waited = None if since is None else objects.now.timestamp() - since
    overdue_in = None if waited is None else max(0, int(settings.max_skip_seconds - waited))
    return QueuePosition(
        status.position,
        len(waiting),
        settings.queue_order,
        status.reason or "",
        status.reserved_node,
        overdue_in if settings.queue_order else None,
    )


def _queue_status(job: Document) -> QueueStatus | None:
    try:
        return QueueStatus.model_validate((job.get("status") or {}).get("queue") or {})
    except ValidationError:
        return None
