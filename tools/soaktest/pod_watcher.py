"""Watch the pods of the cluster in a thread, also across restarts of the API server."""

import threading
import time
from collections.abc import Iterable

from soaktest.client import Client, Object, RejectedError, UnavailableError
from soaktest.journal import Journal
from soaktest.world import PodView, World, view

_PATH = "/api/v1/pods"


class PodWatcher:
    """The current pods, and findings about them.

    Attributes:
        seen: the last state of every pod with GPUs of the run.
        bound_since: when each was first seen on a node, by the monotonic clock. All pods of one
            list have the same time, because a list does not show their order.
        running_since: when each was first seen running.
        ended_since: when each was first seen Succeeded or Failed.
        gone_since: when each was seen to be deleted from the API server.
        reasons: all different texts about why it waits or failed, in order.
    """

    def __init__(self, client: Client, journal: Journal) -> None:
        self._client, self._journal = client, journal
        self._world = World()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._version = ""
        self.seen: dict[str, PodView] = {}
        self.bound_since: dict[str, float] = {}
        self.running_since: dict[str, float] = {}
        self.ended_since: dict[str, float] = {}
        self.gone_since: dict[str, float] = {}
        self.reasons: dict[str, list[str]] = {}
        self._thread = threading.Thread(target=self._run, name="follow", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; return when the last watch has ended."""
        self._ended.set()
        self._thread.join()

    def pods(self) -> list[PodView]:
        """Return all pods with GPUs of the API server, as of the last event."""
        with self._lock:
            return list(self._world.pods.values())

    def pod(self, uid: str) -> PodView | None:
        """Return one of them."""
        with self._lock:
            return self._world.pods.get(uid)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                if not self._version or self._went_back():
                    self._list()
                for kind, found in self._client.watch(_PATH, self._version):
                    self._fold(kind, found)
            except RejectedError:
                self._version = ""
                time.sleep(0.3)
            except UnavailableError:
                self._journal.count("watches broken")
                time.sleep(0.3)

    def _went_back(self) -> bool:
        """Whether etcd was restored from a backup; a watch does not report that."""
        listed = self._client.get(_PATH, limit="1")
        return int(listed["metadata"]["resourceVersion"]) < int(self._version)

    def _list(self) -> None:
        listed = self._client.get(_PATH)
        views = [found for pod in listed["items"] if (found := view(pod)) is not None]
        with self._lock:
            for uid in set(self._world.pods) - {pod.uid for pod in views}:
                self._gone(uid)
            twice = self._world.replace(views)
            now = time.monotonic()
            for pod in views:
                self._remember(pod, now)
        self._report(twice)
        self._version = listed["metadata"]["resourceVersion"]

    def _fold(self, kind: str, found: Object) -> None:
        self._version = found["metadata"]["resourceVersion"]
        pod = view(found)
        if pod is None:
            return
        self._journal.count("watch events")
        with self._lock:
            twice = self._world.apply(pod, deleted=kind == "DELETED")
            self._remember(pod, time.monotonic())
            if kind == "DELETED":
                self._gone(pod.uid)
        self._report(twice)

    def _gone(self, uid: str) -> None:
        self.gone_since[uid] = time.monotonic()
        self._journal.note(f"pod {self.seen[uid].name} deleted")

    def _remember(self, pod: PodView, now: float) -> None:
        before = self.seen.get(pod.uid)
        self.seen[pod.uid] = pod
        if before is None or (before.phase, before.node) != (pod.phase, pod.node):
            self._journal.note(f"pod {pod.name} {pod.phase} {pod.node} {pod.why}".rstrip())
        nominated = before.nominated if before else ""
        if pod.nominated and not nominated:
            self._journal.count("pods nominated")
        if nominated and nominated == pod.node:  # the API server clears it with the Binding
            self._journal.count("nominations used")
        if pod.node:
            self.bound_since.setdefault(pod.uid, now)
        if pod.phase == "Running":
            self.running_since.setdefault(pod.uid, now)
        if not pod.live:
            self.ended_since.setdefault(pod.uid, now)
        reasons = self.reasons.setdefault(pod.uid, [])
        if pod.why and pod.why not in reasons:
            reasons.append(pod.why)

    def _report(self, twice: Iterable[str]) -> None:
        for text in twice:
            self._journal.finding("double allocations", text)
