"""Sample the containers of all nodes many times a second: no GPU may be in two of them."""

import threading
import time
from collections import defaultdict
from dataclasses import dataclass

from localcluster.access import NodeAccess
from soaktest import truth
from soaktest.journal import Journal
from soaktest.pod_watcher import PodWatcher
from soaktest.truth import Running

SHARED = "GPUs shared by containers"


@dataclass(slots=True)
class Life:
    """One container: the first and the last sample with a process of it.

    Attributes:
        first: by the monotonic clock, as is ``last``.
    """

    pod_uid: str
    node: str
    gpus: tuple[str, ...]
    first: float
    last: float


class Sampler:
    """Samples in its own thread.

    Attributes:
        lives: by container ID.
        shared_seconds: how long each pair of pods shared a GPU, by both UIDs.
        longest_gap: seconds between two samples.
    """

    def __init__(
        self,
        machines: NodeAccess,
        pod_watcher: PodWatcher,
        journal: Journal,
        every_seconds: float,
    ) -> None:
        self._machines = machines
        self._pod_watcher, self._journal, self._every_seconds = pod_watcher, journal, every_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sample", daemon=True)
        self.lives: dict[str, Life] = {}
        self.shared_seconds: dict[tuple[str, str], float] = {}
        self.longest_gap = 0.0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the current sample."""
        self._ended.set()
        self._thread.join()

    def of_pod(self, pod_uid: str) -> list[Life]:
        """Return the containers of a pod, the oldest first."""
        found = [life for life in list(self.lives.values()) if life.pod_uid == pod_uid]
        return sorted(found, key=lambda life: life.first)

    def _run(self) -> None:
        due = sampled = time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            self.longest_gap = max(self.longest_gap, now - sampled)
            sampled, due = now, max(due + self._every_seconds, now)
            found = truth.running(self._machines)
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
        common: dict[tuple[str, str], list[str]] = defaultdict(list)
        by_uid: dict[str, Running] = {}
        for uuid, one, other in truth.shared(found):
            common[one.pod_uid, other.pod_uid].append(uuid)
            by_uid |= {one.pod_uid: one, other.pod_uid: other}
        for (first, second), uuids in common.items():
            # A sample takes some milliseconds, in which one may end and the other begin.
            one, other = by_uid[first], by_uid[second]
            if truth.is_alive(one) and truth.is_alive(other):
                self._report(one, other, uuids)

    def _report(self, one: Running, other: Running, uuids: list[str]) -> None:
        pair = (one.pod_uid, other.pod_uid)
        if pair not in self.shared_seconds:
            names = f"{self._name(one)} and {self._name(other)} on {one.node}"
            self._journal.finding(SHARED, f"{names}: {len(uuids)} GPUs, {uuids[0]} among them")
        lives = self.lives[one.container_id], self.lives[other.container_id]
        self.shared_seconds[pair] = time.monotonic() - max(life.first for life in lives)

    def _name(self, one: Running) -> str:
        pod = self._pod_watcher.seen.get(one.pod_uid)
        return pod.name if pod else one.pod_uid
