"""Records when the child Jobs of an experiment are started, and the GPUs of its node."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from gputopo.api.names import JOB_LABEL, RESOURCE
from resizetest import amounts
from soaktest.client import Client, Object, RejectedError, UnavailableError

_PAUSE_SECONDS = 0.3


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
        jobs = _ListAndWatch(
            client, f"/apis/batch/v1/namespaces/{namespace}/jobs", "", self._fold_job
        )
        pods = _ListAndWatch(client, "/api/v1/pods", f"spec.nodeName={node}", self._fold_pod)
        self._parts = (jobs, pods)

    def __enter__(self) -> Self:
        for each in self._parts:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._parts:
            each.stop()

    def started(self) -> list[str]:
        """Return the GPUJobs in the order in which they started."""
        return [job for _, job in self.starts]

    def forget(self) -> None:
        """Forget all former starts and pods."""
        self.starts.clear()
        self.runs.clear()

    def last_run(self, job: str) -> PodRun | None:
        """Return the newest pod of a GPUJob."""
        return next((run for run in reversed([*self.runs.values()]) if run.job == job), None)

    def _fold_job(self, job: Object, *, gone: bool) -> None:
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        suspended = bool(job["spec"].get("suspend"))
        if not gone and not suspended and self._suspended.get(uid, True):
            self.starts.append((time.time(), name))
        self._suspended[uid] = suspended

    def _fold_pod(self, pod: Object, *, gone: bool) -> None:
        uid, now = pod["metadata"]["uid"], time.time()
        self._held[uid] = _gpus(pod) if amounts.holds(pod) and not gone else 0
        self.most_gpus = max(self.most_gpus, sum(self._held.values()))
        if pod["metadata"]["namespace"] != self._namespace:
            return
        run = self.runs.setdefault(uid, PodRun(pod["metadata"].get("labels", {}).get(JOB_LABEL)))
        if "startTime" in pod["status"]:
            run.accepted = datetime.fromisoformat(pod["status"]["startTime"]).timestamp()
        if pod["status"].get("phase") == "Running" and run.running is None:
            run.running = now
        if run.ended is None and (gone or not amounts.holds(pod)):
            run.ended = now


class _ListAndWatch:
    """Calls a function with each object of a list and each change, also after lost watches."""

    def __init__(self, client: Client, path: str, fields: str, fold: Callable[..., None]) -> None:
        self._client, self._path, self._fold = client, path, fold
        self._query = {"fieldSelector": fields} if fields else {}
        self._known: dict[str, Object] = {}
        self._version = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follow", daemon=True)

    def start(self) -> None:
        """Begin; the objects of now were folded when this returns."""
        self._list()
        self._thread.start()

    def stop(self) -> None:
        """Stop; return when the last watch has ended."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                if not self._version:
                    self._list()
                for kind, found in self._client.watch(self._path, self._version, **self._query):
                    self._version = found["metadata"]["resourceVersion"]
                    self._apply(found, gone=kind == "DELETED")
            except RejectedError:
                self._version = ""
                time.sleep(_PAUSE_SECONDS)
            except UnavailableError:
                time.sleep(_PAUSE_SECONDS)

    def _list(self) -> None:
        listed = self._client.get(self._path, **self._query)
        found = {each["metadata"]["uid"]: each for each in listed["items"]}
        for uid in self._known.keys() - found.keys():
            self._apply(self._known[uid], gone=True)
        for each in found.values():
            self._apply(each, gone=False)
        self._version = listed["metadata"]["resourceVersion"]

    def _apply(self, found: Object, *, gone: bool) -> None:
        self._known[found["metadata"]["uid"]] = found
        if gone:
            del self._known[found["metadata"]["uid"]]
        self._fold(found, gone=gone)


def _gpus(pod: Object) -> int:
    return sum(
        int(each.get("resources", {}).get("limits", {}).get(RESOURCE, 0))
        for each in pod["spec"]["containers"]
    )
