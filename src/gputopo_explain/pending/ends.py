"""Finds out when a pod ends: by deadlines, or by the duration that a user has stated."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from gputopo.api.names import JOB_LABEL
from gputopo_explain.objects import ClusterObjects, LiveKind
from gputopo_explain.pending.model import EndKind, PodEnd
from gputopo_kube.document import Document, ObjectKey, controller_of


class PodEnds:
    """Knows the Jobs and GPUJobs of a cluster, and so the ends of their pods."""

    def __init__(self, objects: ClusterObjects) -> None:
        """Index the Jobs and GPUJobs."""
        self._now = objects.now
        self._gpu_jobs = {ObjectKey.of(each): each for each in objects[LiveKind.GPU_JOBS]}
        self._jobs = {each["metadata"].get("uid"): each for each in objects[LiveKind.JOBS]}

    def of_pod(self, pod: Document) -> list[PodEnd]:
        """Return the known ends of a pod, the earliest first."""
        return sorted(self._ends(pod), key=lambda end: end.at)

    def _ends(self, pod: Document) -> Iterator[PodEnd]:
        metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
        started = status.get("startTime")
        yield from self._end(EndKind.DELETION, metadata.get("deletionTimestamp"), 0, "deletion")
        seconds = spec.get("activeDeadlineSeconds")
        yield from self._end(EndKind.DEADLINE, started, seconds, "spec.activeDeadlineSeconds")
        job = self._jobs.get(controller_of(pod).get("uid")) or {}
        of_job = (job.get("spec") or {}).get("activeDeadlineSeconds")
        begun = (job.get("status") or {}).get("startTime") or started
        yield from self._end(EndKind.DEADLINE, begun, of_job, "activeDeadlineSeconds of the Job")
        gpu_job = self._gpu_jobs.get(gpu_job_of(pod)) or {}
        yield from self._ends_of_gpu_job(gpu_job, started)

    def _ends_of_gpu_job(self, job: Document, started: str | None) -> Iterator[PodEnd]:
        spec, status = job.get("spec") or {}, job.get("status") or {}
        limit = (spec.get("limits") or {}).get("activeDeadlineSeconds")
        # The deadline counts from the start of the Job, which is not after the start of its pod.
        yield from self._end(EndKind.DEADLINE, started, limit, "spec.limits of the GPUJob")
        duration = (spec.get("expected") or {}).get("durationSeconds")
        ran = (status.get("queue") or {}).get("ranSeconds") or 0
        remaining = max(0, duration - ran) if isinstance(duration, int) else None
        yield from self._end(EndKind.EXPECTED, started, remaining, "spec.expected of the GPUJob")

    def _end(self, kind: EndKind, start: str | None, seconds: Any, source: str) -> Iterator[PodEnd]:  # noqa: ANN401 - any JSON
        if not isinstance(seconds, int):
            return
        try:
            at = datetime.fromisoformat(start or "") + timedelta(seconds=seconds)
            yield PodEnd(kind, at, int((at - self._now).total_seconds()), source)
        except (ValueError, OverflowError, TypeError):
            return


def gpu_job_of(pod: Document) -> ObjectKey:
    """Return the key of the pod's GPUJob; its name is empty for other pods."""
    metadata = pod["metadata"]
    name = (metadata.get("labels") or {}).get(JOB_LABEL) or ""
    owner = controller_of(pod)
    # Any user can set the label on a pod, so the owner must be the Job of this name too.
    if (owner.get("kind"), owner.get("name")) != ("Job", name):
        name = ""
    return ObjectKey(metadata.get("namespace") or "", name)


def owner_text(pod: Document) -> str | None:
    """Return kind and name of the pod's GPUJob or controller; None without one."""
    if name := gpu_job_of(pod).name:
        return f"GPUJob {name}"
    owner = controller_of(pod)
    return f"{owner.get('kind')} {owner.get('name')}" if owner else None
