"""Records the amounts of a node's pods over time, from a watch of the API server."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from resizetest import amounts
from resizetest.timeline import Timeline
from soaktest.client import Client, Object
from soaktest.journal import Journal
from soaktest.list_watch import ListWatch

_PATH = "/api/v1/pods"


class Recorder:
    """Records the pods of one node.

    Attributes:
        node: its name.
        allocatable: what the node offered at the start.
        timeline: all amounts since the start.
        watch: a context manager; inside it the amounts are recorded.
        began: time of the start, by the monotonic clock.
    """

    def __init__(self, client: Client, journal: Journal, node: str) -> None:
        self.node, self.timeline, self.began = node, Timeline(), time.monotonic()
        self.allocatable = amounts.allocatable(client.get(f"/api/v1/nodes/{node}"))
        self._journal = journal
        self._pods: dict[str, amounts.PodAmounts] = {}
        self.watch = ListWatch(
            client,
            _PATH,
            replace=self._replace,
            fold=self._fold,
            fields=f"spec.nodeName={node}",
        )

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began

    def _replace(self, listed: list[Object]) -> None:
        found = [pod for pod in listed if amounts.is_accepted(pod)]
        self._pods = {pod["metadata"]["uid"]: amounts.read(pod) for pod in found}
        self.timeline.add(self.seconds, self._pods)

    def _fold(self, found: Object, *, gone: bool) -> None:
        uid = found["metadata"]["uid"]
        if gone or not amounts.is_accepted(found):
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = amounts.read(found)
        if self.timeline.add(self.seconds, self._pods):
            held = self._pods.get(uid)
            self._journal.note(f"amounts of {found['metadata']['name']}: {held or 'none'}")


@contextmanager
def recording(client: Client, journal: Journal, node: str) -> Iterator[Recorder]:
    """Record the pods of a node inside the block, then report sums above allocatable, restarts."""
    recorder = Recorder(client, journal, node)
    try:
        with recorder.watch:
            yield recorder
    finally:
        recorder.timeline.end(recorder.seconds)
        for moment in recorder.timeline.above(recorder.allocatable):
            text = f"{moment.seconds:.1f} s: {moment.allocated} of {recorder.allocatable}"
            journal.finding("sums above allocatable", text)
