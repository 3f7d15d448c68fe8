"""Parses the objects for gputopo's queue: GPUJobs with their Jobs, pods and nodes."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from gputopo.api.annotations import AnnotationError
from gputopo.api.names import READY_CONDITION
from gputopo.api.shares import gpu_of
from gputopo.api.v1alpha1 import GPUTopologyStatus
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.node_match import pod_rules
from gputopo_kube.own_gpus import own_gpus
from gputopo_kube.podmodel import PodError, parse_pod_object
from gputopo_kube.pods import PodView, view_of
from gputopo_kube.priorities import priorities_of
from gputopo_operator.model.queued import GpuPod, NodeGpus, QueuedJob
from gputopo_operator.parse.jobs import end_of, has_ended, parse_child_job, parse_gpu_job
from gputopo_operator.parse.readable import each_readable

_OPEN_FIELDS: Final = {
    *("position", "reason", "reservedNode", "waitingSince", "runningSince"),
    *("podError", "failedStarts", "notBefore"),
}
"""Fields of ``status.queue`` that the queue removes when the job ends."""


def parse_queued_jobs(
    jobs: Iterable[Document], children: Iterable[Document], classes: Iterable[Document]
) -> tuple[QueuedJob, ...]:
    """Return the GPUJobs that concern the queue, with their child Jobs that have not ended.

    A cluster keeps the jobs of weeks, and most of them have ended. These are left out before
    parsing, which takes most of the time: parsed, a thousand jobs have 60 MB.

    Args:
        jobs: the GPUJobs.
        children: batch/v1 Jobs; a child Job has the name of its GPUJob.
        classes: the PriorityClasses; without them, the priority of every job is 0.
    """
    by_key = dict(each_readable(_with_key, children))
    values = priorities_of(classes)

    def parse(raw: Document) -> QueuedJob | None:
        if has_ended(raw) and _has_left(raw):
            return None
        return _queued_job(raw, by_key.get(ObjectKey.of(raw)), values)

    return tuple(job for job in each_readable(parse, jobs) if job is not None)


def parse_gpu_pods(pods: Iterable[Document], resource: str) -> tuple[GpuPod, ...]:
    """Return the pods that have not ended and request GPUs; skip objects that are not valid."""
    return tuple(_gpu_pods(pods, resource))


def parse_node_gpus(topology: Document) -> NodeGpus:
    """Return what a GPUTopology reports of the GPUs of its node."""
    status = topology.get("status") or {}
    parts = {name: status.get(name) or [] for name in ("conditions", "gpus")}
    found = GPUTopologyStatus.model_validate(parts)
    not_ready = any(
        each.type == READY_CONDITION and each.status == "False" for each in found.conditions
    )
    healthy = [gpu for gpu in found.gpus if gpu.healthy]
    used: dict[str, int] = {}
    shared: dict[str, frozenset[str]] = {}
    for gpu in healthy:
        users = frozenset(share.pod_uid for share in gpu.shares or () if share.pod_uid)
        if users:
            shared[gpu.uuid] = users
        if gpu.pod_uid is not None and gpu.pod_uid not in users:
            used[gpu.pod_uid] = used.get(gpu.pod_uid, 0) + 1
    return NodeGpus(0 if not_ready else len(healthy), used, shared)


def _with_key(child: Document) -> tuple[ObjectKey, Document | str | None]:
    return ObjectKey.of(child), end_of(child) if has_ended(child) else child


def _has_left(raw: Document) -> bool:
    """Return whether ``status.queue`` has no field of a job that waits or runs."""
    return not _OPEN_FIELDS & ((raw.get("status") or {}).get("queue") or {}).keys()


def _queued_job(
    raw: Document, child: Document | str | None, values: Mapping[str, int]
) -> QueuedJob:
    """Return a GPUJob with its Job; of a Job that has ended, ``child`` is the time of its end."""
    job, created = parse_gpu_job(raw), raw["metadata"]["creationTimestamp"]
    if child is None or isinstance(child, str):
        return QueuedJob(job, raw, created, ended=child)
    template = child["spec"]["template"]
    pod, status = template["spec"], child.get("status") or {}
    return QueuedJob(
        job,
        raw,
        created,
        priority=values.get(pod.get("priorityClassName") or "", 0),
        child=parse_child_job(child),
        started=status.get("startTime"),
        ended=end_of(child),
        pod_rules=pod_rules(pod),
        pod_template=template,
    )


def _gpu_pods(pods: Iterable[Document], resource: str) -> Iterator[GpuPod]:
    for raw in pods:
        with suppress(PodError):
            pod = parse_pod_object(raw)
            view = view_of(pod, resource)
            if view.live and view.most_gpus:
                yield GpuPod(
                    uid=view.uid,
                    owner_uid=pod.metadata.controller_uid,
                    node=view.node,
                    gpus=view.most_gpus,
                    created=pod.metadata.creation_timestamp or "",
                    started=pod.status.start_time,
                    shared=_shared_gpu(view) if view.shares and view.node else None,
                    unschedulable=view.node is None and pod.status.unschedulable is not None,
                )


def _shared_gpu(pod: PodView) -> str:
    """Return the GPU of which a pod has a share; a name of its own if its annotation is wrong."""
    devices: list[str] = []
    with suppress(AnnotationError):
        chosen = own_gpus(pod)
        devices = [
            each for found in (chosen.containers if chosen else {}).values() for each in found
        ]
    return gpu_of(devices[0]) if devices else f"of pod {pod.uid}"
