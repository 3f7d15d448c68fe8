"""Keeps the open nominations, and decides how they end and which of them are withdrawn.

A nomination is open until its pod is bound, has ended, or cannot use the nomination any more. All
decisions follow from the pods that the watch shows, so a new leader continues with the nominations
of the former one: it adopts them, or withdraws them if they are not usable.
"""

import math
from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import Final

from gputopo_extender.state.cluster_queue import ClusterQueue
from gputopo_extender.state.queue_pod import QueuePod
from gputopo_kube.pods import PodView

UNUSED_SECONDS: Final = 60.0
"""After this time, a nomination that kube-scheduler has not used is withdrawn."""

MOST_FAILURES: Final = 3
"""After so many failures in a row, pods of the same kind get no nominations for a while."""

HELD_SECONDS: Final = 60.0

RETRY_SECONDS: Final = 10.0
"""Within this time kube-scheduler tries a pod again that may fit after a change."""

PREEMPT_SECONDS: Final = 300.0
"""Longest pause of the nominations for a pod that may preempt now.

kube-scheduler queues such a pod behind all pods that are waiting, so its next try may take a while.
"""

_MOST_KINDS: Final = 1_000


class NominationResult(StrEnum):
    """What became of a nomination; the values are labels of a metric."""

    MADE = "made"
    USED = "used"
    ELSEWHERE = "elsewhere"
    UNSCHEDULABLE = "unschedulable"
    REPLACED = "replaced"
    UNUSED = "unused"
    NODE_DELETED = "node_deleted"
    POD_DELETED = "pod_deleted"
    NOT_WRITTEN = "not_written"
    WITHDRAWN = "withdrawn"


_FAILURES: Final = frozenset({NominationResult.ELSEWHERE, NominationResult.UNSCHEDULABLE})


@dataclass(frozen=True, slots=True)
class Nomination:
    """An open nomination.

    Attributes:
        since: monotonic seconds.
        version: resource version of the pod with the nomination; None while it is unknown whether
            the nomination was written.
    """

    pod: QueuePod
    node: str
    since: float
    version: int | None = None


class Nominations:
    """The nominations of this extender. No method awaits."""

    def __init__(self, queue: ClusterQueue, count: Callable[[NominationResult], None]) -> None:
        """Nominate nodes for pods in ``queue``; call ``count`` with each result."""
        self._queue = queue
        self._count = count
        self._open: dict[str, Nomination] = {}
        self._done: set[str] = set()
        self._withdrawn: dict[str, int] = {}
        self._failures: dict[bytes, tuple[int, float]] = {}
        self._blocked: dict[str, int] = {}
        self._retried: dict[str, float] = {}

    def open(self) -> Mapping[str, Nomination]:
        """Return the open nominations by UID of the pod."""
        return self._open

    def gpus_beside(self, pod: PodView, is_placed: Callable[[str], bool]) -> Counter[str]:
        """Return the number of GPUs by node of the nominated pods that count against a pod.

        As in kube-scheduler, these are the other pods of at least its priority. Do not count pods
        whose GPUs count already, by UID, because they ``is_placed``.
        """
        gpus = Counter[str]()
        for uid, nomination in self._open.items():
            view = nomination.pod.view
            if view is None or uid == pod.uid or view.priority < pod.priority or is_placed(uid):
                continue
            gpus[nomination.node] += view.most_gpus
        return gpus

    def clear(self) -> None:
        """Forget everything: another extender leads."""
        self._open.clear()
        self._done.clear()
        self._withdrawn.clear()
        self._failures.clear()
        self._blocked.clear()
        self._retried.clear()

    def begin(self, pod: QueuePod, node: str, now: float) -> None:
        """Add a nomination that will be written."""
        self._open[pod.uid] = Nomination(pod, node, now)

    def written(self, uid: str, version: int) -> None:
        """Record that a nomination was written."""
        self._count(NominationResult.MADE)
        if uid in self._open:
            self._open[uid] = replace(self._open[uid], version=version)

    def not_written(self, uid: str) -> None:
        """Drop a nomination that the API server has rejected."""
        self._count(NominationResult.NOT_WRITTEN)
        self._open.pop(uid, None)

    def withdrawn(self, uid: str, version: int) -> None:
        """Record that a nomination was withdrawn; ``version`` is the pod's version without it."""
        self._count(NominationResult.WITHDRAWN)
        self._withdrawn[uid] = version

    def may_begin(self, pod: QueuePod, now: float) -> bool:
        """Return whether the pod may get a nomination: not twice, and not after failures."""
        failures, until = self._failures.get(pod.kind, (0, 0.0))
        held = failures >= MOST_FAILURES and now < until
        taken = pod.nominated is not None or pod.uid in self._open or pod.uid in self._done
        return not (held or taken)

    def end_by(self, now: float) -> list[QueuePod]:
        """End nominations by what the watch has shown; return the pods to withdraw from.

        Nominations of a former leader become open if they are usable.
        """
        for nomination in list(self._open.values()):
            result = _result(nomination, self._queue, now)
            if result is not None:
                self._end(nomination, result, now)
        unbound = self._queue.unbound()
        waiting = {pod.uid for pod in unbound}
        self._done &= waiting
        self._withdrawn = {uid: it for uid, it in self._withdrawn.items() if uid in waiting}
        own = [pod for pod in unbound if pod.ours and self._is_unknown(pod)]
        for pod in own:
            if pod.nominated is not None and self._is_usable(pod):
                self._open[pod.uid] = Nomination(pod, pod.nominated, now, pod.version)
        return [pod for pod in own if pod.uid not in self._open]

    def blocks_preemption(self, pod: PodView) -> bool:
        """Return whether a pod must not preempt, because pods have nominations.

        kube-scheduler counts pods of equal or higher priority on their nominated nodes. So the pod
        may fit as soon as these pods are bound elsewhere or their nominations are withdrawn.
        """
        self._retried.pop(pod.uid, None)
        blocks = self._highest_priority() >= pod.priority
        if blocks:
            self._blocked[pod.uid] = pod.priority
        return blocks

    def are_paused(self) -> bool:
        """Return whether no nominations may begin, because a pod waits to preempt."""
        return bool(self._blocked or self._retried)

    def unblock(self, waiting: Container[str], now: float) -> list[str]:
        """Return the pods that may preempt now and must be tried again; each is returned once.

        Nominations stay paused until one of them asks to preempt or is bound, for at most
        ``PREEMPT_SECONDS``.
        Pods that are not ``waiting`` any more are dropped.
        """
        known = {uid: until for uid, until in self._retried.items() if now < until}
        self._retried = {uid: until for uid, until in known.items() if uid in waiting}
        self._blocked = {uid: it for uid, it in self._blocked.items() if uid in waiting}
        highest = self._highest_priority() if self._blocked else math.inf
        free = [uid for uid, priority in self._blocked.items() if priority > highest]
        for uid in free:
            del self._blocked[uid]
            self._retried[uid] = now + PREEMPT_SECONDS
        return free

    def _highest_priority(self) -> float:
        """Return the highest priority of a pod with a nomination of any leader; -inf without any.

        Nominations that are to be withdrawn count until the watch shows the pod without them.
        """
        nominated = (each.pod.priority for each in self._open.values())
        shown = (pod.priority for pod in self._queue.unbound() if pod.ours)
        return max(chain(nominated, shown), default=-math.inf)

    def _end(self, nomination: Nomination, result: NominationResult, now: float) -> None:
        self._count(result)
        pod = nomination.pod
        del self._open[pod.uid]
        self._done.add(pod.uid)
        if result in _FAILURES:
            failures = self._failures.pop(pod.kind, (0, 0.0))[0] + 1
            if len(self._failures) >= _MOST_KINDS:
                del self._failures[next(iter(self._failures))]
            self._failures[pod.kind] = (failures, now + HELD_SECONDS)
        elif result is NominationResult.USED:
            self._failures.pop(pod.kind, None)

    def _is_unknown(self, pod: QueuePod) -> bool:
        """Whether the nomination of a pod is not open, and was not withdrawn after this version."""
        return pod.uid not in self._open and pod.version >= self._withdrawn.get(pod.uid, 0)

    def _is_usable(self, pod: QueuePod) -> bool:
        is_new = pod.queued and not pod.tried and pod.uid not in self._done
        return is_new and pod.nominated in self._queue.nodes


def _result(nomination: Nomination, queue: ClusterQueue, now: float) -> NominationResult | None:
    """Return how a nomination has ended; None if it is open."""
    pod = queue.pods.get(nomination.pod.uid)
    if pod is None or not (pod.node or pod.queued):
        return NominationResult.POD_DELETED
    if pod.node is not None:
        used = pod.node == nomination.node
        return NominationResult.USED if used else NominationResult.ELSEWHERE
    if pod.tried:
        return NominationResult.UNSCHEDULABLE
    is_shown = nomination.version is not None and pod.version >= nomination.version
    if is_shown and pod.nominated != nomination.node:
        return NominationResult.REPLACED
    if nomination.node not in queue.nodes:
        return NominationResult.NODE_DELETED
    return NominationResult.UNUSED if now - nomination.since > UNUSED_SECONDS else None
