"""Sample the containers of all nodes many times a second: no GPU may be in two of them."""

import threading
import time
from dataclasses import dataclass

from soaktest import truth
from soaktest.follow import Follower
from soaktest.journal import Journal
from soaktest.truth import Running

SHARED = "GPUs shared by containers"


@dataclass(slots=True)
class Life:
    """One container from the first sample that had a process of it to the last.

    Attributes:
        first: by the monotonic clock, as is ``last``.
    """

    pod_uid: str
    node: str
    gpus: tuple[str, ...]
    first: float
    last: float


class Sampler:
    """Samples in a thread of its own.

    Attributes:
        lives: by container ID.
        shared_seconds: how long each pair of pods had a GPU in common, by both UIDs.
    """

    def __init__(self, follower: Follower, journal: Journal, every_seconds: float) -> None:
        self._follower, self._journal, self._every_seconds = follower, journal, every_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sample", daemon=True)
        self.lives: dict[str, Life] = {}
        self.shared_seconds: dict[tuple[str, str], float] = {}

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the current sample."""
        self._ended.set()
        self._thread.join()

    def of_pod(self, pod_uid: str) -> list[Life]:
        """Return the containers that a pod has had, the oldest first."""
        found = [life for life in list(self.lives.values()) if life.pod_uid == pod_uid]
        return sorted(found, key=lambda life: life.first)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            due = max(due + self._every_seconds, time.monotonic())
            found = truth.running()
            self._remember(found)
            self._overlaps(found)
            self._journal.count("samples of all containers")

    def _remember(self, found: list[Running]) -> None:
        now = time.monotonic()
        for one in found:
            life = self.lives.get(one.container_id)
            if life is None:
                self.lives[one.container_id] = Life(
                    one.pod_uid, one.node, one.visible, first=now, last=now
                )
            else:
                life.last = now

    def _overlaps(self, found: list[Running]) -> None:
        now = time.monotonic()
        for uuid, one, other in truth.shared(found):
            # A sample takes some milliseconds, in which one may end and the other begin.
            if truth.is_alive(one) and truth.is_alive(other):
                self._journal.finding(SHARED, f"{uuid}: {self._name(one)} and {self._name(other)}")
                both = self.lives[one.container_id], self.lives[other.container_id]
                pair = (one.pod_uid, other.pod_uid)
                self.shared_seconds[pair] = now - max(life.first for life in both)

    def _name(self, one: Running) -> str:
        pod = self._follower.seen.get(one.pod_uid)
        return pod.name if pod else one.pod_uid
