"""Watches the ledger for what can end the wait of a postponed pod, and lets it be tried again.

kube-scheduler tries a pending pod again after most changes of pods and nodes, but not when the GPUs
of a pod that ended long ago become free, when a GPU is healthy again, or when the longest wait is
over. It always tries a pod again whose annotations have changed.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from gputopo.api.names import MIN_UTILITY_ANNOTATION, POSTPONED_ANNOTATION
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.postponement.metrics import PostponementMetrics
from gputopo_extender.verbs.postponement.postponer import Postponer

_LOOK_SECONDS: Final = 0.1

_LOOK_FOR_UNKNOWN_SECONDS: Final = 1.0
"""A look at all pods of a large cluster takes a millisecond."""

UNKNOWN_SECONDS: Final = 3.0
"""After this time, a pod that an earlier process may have postponed is tried again.

kube-scheduler tries all pods after its own start. It does not do so if only the extender restarts.
"""


class PostponementWatch:
    """Lets postponed pods be tried again while the kube-scheduler of this extender leads."""

    def __init__(
        self,
        ledger: Ledger,
        postponer: Postponer,
        metrics: PostponementMetrics,
        leads: Callable[[], bool | None],
        clock: Callable[[], float],
    ) -> None:
        """Look while ``leads()`` is True, and forget all pods if it is False.

        None means that no leader is known, for example just after the start. Only the leader calls
        filter, so pods that filter has postponed meanwhile are kept. ``clock`` returns Unix time.
        """
        self._ledger = ledger
        self._pods = postponer.pods
        self._rounds = postponer.rounds
        self._writer = postponer.writer
        self._metrics = metrics
        self._leads = leads
        self._clock = clock
        self._unknown: dict[str, float] = {}
        self._at_start: frozenset[str] | None = None
        self._looked_at = 0.0

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            leads = self._leads()
            if leads:
                await self.look()
            elif leads is False:
                self._pods.clear()
                self._writer.clear()
                self._unknown.clear()

    async def look(self) -> None:
        """Ask kube-scheduler once to try the pods again that may be placed now."""
        pods, writer = self._pods, self._writer
        for gone in pods.prune():
            if gone.waits and self._ledger.pods.get(gone.uid) is None:
                self._metrics.deleted()
        for pod in (*await self._rounds.run_once(), *pods.due(self._clock())):
            writer.retry(pod.uid)
        for uid in self._unknown_pods():
            writer.retry(uid)

    def _unknown_pods(self) -> list[str]:
        """Return the pods that an earlier process may have postponed, each only once.

        These are the pods with the annotation of a wait. A process that ended before it wrote the
        annotation may have postponed any pod with a least utility that was there at the start.
        """
        now = self._clock()
        if abs(now - self._looked_at) < _LOOK_FOR_UNKNOWN_SECONDS:
            return []
        self._looked_at = now
        with_least = {pod.uid for pod in self._ledger.pods.pending_with(MIN_UTILITY_ANNOTATION)}
        if self._at_start is None and self._ledger.pods_version:
            self._at_start = frozenset(with_least)
        marked = {pod.uid for pod in self._ledger.pods.pending_with(POSTPONED_ANNOTATION)}
        marked |= with_least & (self._at_start or set())
        marked = {uid for uid in marked if self._pods.get(uid) is None}
        self._unknown = {uid: self._unknown.get(uid, now) for uid in marked}
        found = [uid for uid, since in self._unknown.items() if now >= since + UNKNOWN_SECONDS]
        self._unknown.update(dict.fromkeys(found, float("inf")))
        return found
