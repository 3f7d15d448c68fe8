"""Records the amounts of a node's pods over time, from a watch of the API server."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from resizetest import amounts
from resizetest.timeline import Timeline
from soaktest.client import Client, Object, RejectedError, UnavailableError
from soaktest.journal import Journal

_PATH = "/api/v1/pods"
_PAUSE_SECONDS = 0.3


class Recorder:
    """Watches the pods of one node in a thread, also across restarts of the API server.

    Attributes:
        node: its name.
        allocatable: what the node offered at the start.
        timeline: all amounts since the start.
        began: time of the start, by the monotonic clock.
    """

    def __init__(self, client: Client, journal: Journal, node: str) -> None:
        self.node, self.timeline, self.began = node, Timeline(), time.monotonic()
        self.allocatable = amounts.allocatable(client.get(f"/api/v1/nodes/{node}"))
        self._client, self._journal = client, journal
        self._selector = f"spec.nodeName={node}"
        self._pods: dict[str, amounts.PodAmounts] = {}
        self._version = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="record", daemon=True)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began

    def start(self) -> None:
        """Begin; the pods of now are recorded when this returns."""
        self._list()
        self._thread.start()

    def stop(self) -> None:
        """Stop; return when the last watch has ended."""
        self._ended.set()
        self._thread.join()
        self.timeline.end(self.seconds)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                if not self._version:
                    self._list()
                changes = self._client.watch(_PATH, self._version, fieldSelector=self._selector)
                for kind, pod in changes:
                    self._version = pod["metadata"]["resourceVersion"]
                    self._fold(pod, deleted=kind == "DELETED")
            except RejectedError:
                self._version = ""
                time.sleep(_PAUSE_SECONDS)
            except UnavailableError:
                time.sleep(_PAUSE_SECONDS)

    def _list(self) -> None:
        listed = self._client.get(_PATH, fieldSelector=self._selector)
        found = [pod for pod in listed["items"] if amounts.holds(pod)]
        self._pods = {pod["metadata"]["uid"]: amounts.read(pod) for pod in found}
        self._version = listed["metadata"]["resourceVersion"]
        self.timeline.add(self.seconds, self._pods)

    def _fold(self, pod: Object, *, deleted: bool) -> None:
        uid = pod["metadata"]["uid"]
        if deleted or not amounts.holds(pod):
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = amounts.read(pod)
        if self.timeline.add(self.seconds, self._pods):
            held = self._pods.get(uid)
            self._journal.note(f"amounts of {pod['metadata']['name']}: {held or 'none'}")


@contextmanager
def recording(client: Client, journal: Journal, node: str) -> Iterator[Recorder]:
    """Record the pods of a node inside the block, then report sums above allocatable, restarts."""
    recorder = Recorder(client, journal, node)
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.stop()
        for moment in recorder.timeline.above(recorder.allocatable):
            text = f"{moment.seconds:.1f} s: {moment.allocated} of {recorder.allocatable}"
            journal.finding("sums above allocatable", text)
