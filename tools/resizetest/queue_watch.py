"""Records when the child Jobs of an experiment are started, and the GPUs of its node."""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from gputopo.api.names import JOB_LABEL, RESOURCE
from resizetest import amounts
from soaktest.client import Client, Object
from soaktest.list_watch import ListWatch


@dataclass(slots=True)
class PodRun:
    """A pod of a GPUJob; times in seconds since 1970.

    Attributes:
        job: name of the GPUJob.
        accepted: when kubelet accepted it, from its status; None before.
        running: when it was first seen running; None before.
        ended: when it was first seen ended, being deleted or gone; None before.
    """

    job: str
    accepted: float | None = None
    running: float | None = None
    ended: float | None = None


class QueueWatch:
    """Watches the Jobs of one namespace and the pods of one node, each in a thread.

    Attributes:
        starts: time and GPUJob of each start of a child Job, in the order of the starts.
        runs: pods of the namespace by UID.
        most_gpus: most GPUs that pods of the node, of all namespaces, held at one time.
    """

    def __init__(self, client: Client, namespace: str, node: str) -> None:
        self.starts: list[tuple[float, str]] = []
        self.runs: dict[str, PodRun] = {}
        self.most_gpus = 0
        self._namespace = namespace
        self._suspended: dict[str, bool] = {}
        self._held: dict[str, int] = {}
        self._pods: dict[str, Object] = {}
        jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._parts = (
            ListWatch(client, jobs, replace=self._replace_jobs, fold=self._fold_job),
            ListWatch(
                client,
                "/api/v1/pods",
                replace=self._replace_pods,
                fold=self._fold_pod,
                fields=f"spec.nodeName={node}",
            ),
        )
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for each in self._parts:
            self._stack.enter_context(each)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def started(self) -> list[str]:
        """Return the GPUJobs in the order in which they started."""
        return [job for _, job in self.starts]

    def forget(self) -> None:
        """Forget all former starts and pods."""
        self.starts.clear()
        self.runs.clear()

    def _replace_jobs(self, listed: list[Object]) -> None:
        for job in listed:
            self._fold_job(job, gone=False)

    def _replace_pods(self, listed: list[Object]) -> None:
        for uid in self._pods.keys() - {pod["metadata"]["uid"] for pod in listed}:
            self._fold_pod(self._pods[uid], gone=True)
        for pod in listed:
            self._fold_pod(pod, gone=False)

    def _fold_job(self, found: Object, *, gone: bool) -> None:
        name, uid = found["metadata"]["name"], found["metadata"]["uid"]
        suspended = bool(found["spec"].get("suspend"))
        if not gone and not suspended and self._suspended.get(uid, True):
            self.starts.append((time.time(), name))
        self._suspended[uid] = suspended

    def _fold_pod(self, found: Object, *, gone: bool) -> None:
        uid, now = found["metadata"]["uid"], time.time()
        self._pods[uid] = found
        if gone:
            del self._pods[uid]
        self._held[uid] = _gpus(found) if amounts.holds(found) and not gone else 0
        self.most_gpus = max(self.most_gpus, sum(self._held.values()))
        if found["metadata"]["namespace"] != self._namespace:
            return
        run = self.runs.setdefault(uid, PodRun(found["metadata"].get("labels", {}).get(JOB_LABEL)))
        if "startTime" in found["status"]:
            run.accepted = datetime.fromisoformat(found["status"]["startTime"]).timestamp()
        if found["status"].get("phase") == "Running" and run.running is None:
            run.running = now
        if run.ended is None and (gone or not amounts.holds(found)):
            run.ended = now


def _gpus(pod: Object) -> int:
    return sum(
        int(each.get("resources", {}).get("limits", {}).get(RESOURCE, 0))
        for each in pod["spec"]["containers"]
    )
