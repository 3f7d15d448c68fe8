"""Parses the objects for gputopo's queue: GPUJobs with their Jobs, pods and nodes."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from gputopo_cluster.known_pods import KnownPods
from gputopo_cluster.picture import ClusterPicture
from gputopo_cluster.topologies import GpuNode, UnreadableTopology
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.node_match import pod_rules
from gputopo_kube.podmodel import PodError, parse_pod_object
from gputopo_kube.pods import view_of
from gputopo_kube.podstatus import PodStatus
from gputopo_kube.priorities import priorities_of
from gputopo_operator.model.queued import GpuPod, QueuedJob
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
                    view,
                    owner_uid=pod.metadata.controller_uid,
                    created=pod.metadata.creation_timestamp or "",
                    started=pod.status.start_time,
                    rejected=_is_rejected(pod.status),
                )


def _is_rejected(status: PodStatus) -> bool | None:
    """Return whether the scheduler has found no node; not if its extender had an error."""
    found = status.unschedulable
    return None if found is None else found.reason in {"Unschedulable", "SchedulingGated"}


def cluster_of(
    nodes: Mapping[str, GpuNode | UnreadableTopology], pods: Iterable[GpuPod]
) -> ClusterPicture:
    """Return the picture of these nodes and pods."""
    return ClusterPicture(nodes, KnownPods(pod.view for pod in pods))
