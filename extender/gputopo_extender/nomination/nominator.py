"""Nominates nodes ahead of kube-scheduler, and withdraws nominations, while its scheduler leads."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

from gputopo.runtime.log import fields
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.nomination.nominations import Nominations
from gputopo_extender.nomination.planner import Planner
from gputopo_extender.state.cluster_queue import ClusterQueue
from gputopo_extender.state.queue_pod import QueuePod
from gputopo_extender.verbs.evaluation_cache import TablesNotReadyError
from gputopo_kube.errors import ApiError, ConflictError, NotFoundError, RejectedError
from gputopo_kube.reflector import Reflector

MOST_OPEN: Final = 300
"""Open nominations at one time: some seconds of kube-scheduler's work, and few to withdraw."""

_ROUND_SECONDS: Final = 0.1
_AT_ONCE: Final = 16
"""Writes at one time. A slow API server then delays few of them until their time limit."""

_PAUSE_SECONDS: Final = 10.0
"""Pause after a write that the API server forbids or does not confirm."""

_EMPTY_PAUSE_SECONDS: Final = 1.0
"""Time from a plan without a nomination to the next plan."""

_Item = TypeVar("_Item")

_log = logging.getLogger(__name__)


class Nominator:
    """Carries out the plans of :class:`Planner`."""

    def __init__(
        self,
        queue: ClusterQueue,
        nominations: Nominations,
        planner: Planner,
        api: PodApi,
        retry: Callable[[str], None],
        *,
        above: int,
        leads: Callable[[], bool | None],
        reflectors: Sequence[Reflector[Any]],
    ) -> None:
        """Write the plans of ``planner`` with ``api``.

        Args:
            queue: the pods that wait.
            nominations: the open nominations.
            planner: chooses pods and nodes.
            api: writes to pods.
            retry: lets kube-scheduler try a pod again.
            above: of the pods that wait for their first try, so many first ones get no nominations.
            leads: whether the kube-scheduler of this extender leads; None if no leader is known.
            reflectors: nothing is nominated before all of them have listed their objects.
        """
        self._queue = queue
        self._nominations = nominations
        self._planner = planner
        self._api = api
        self._retry = retry
        self._above = above
        self._leads = leads
        self._reflectors = reflectors
        self._paused_until = 0.0
        self._next_plan = 0.0

    async def run(self) -> None:
        """Nominate until cancelled."""
        while True:
            await asyncio.sleep(_ROUND_SECONDS)
            leads = self._leads()
            if leads and all(each.lists for each in self._reflectors):
                await self.run_once(time.monotonic())
            elif leads is False:
                self._nominations.clear()

    async def run_once(self, now: float) -> None:
        """Withdraw and make nominations once; ``now`` is in monotonic seconds."""
        withdrawn = self._nominations.end_by(now)
        waiting = {pod.uid for pod in self._queue.unbound()}
        for uid in self._nominations.unblock(waiting, now):
            self._retry(uid)
        for some in _parts(withdrawn):
            if self._may_write():
                await asyncio.gather(*map(self._withdraw, some))
        for begun in _parts(await self._planned(now)):
            first_ones = {*self._untried()[: self._above]}
            await asyncio.gather(*(self._nominate(pod, node, first_ones) for pod, node in begun))

    def _may_write(self) -> bool:
        return time.monotonic() >= self._paused_until and self._leads() is not False

    async def _planned(self, now: float) -> list[tuple[QueuePod, str]]:
        """Begin new nominations; return their pods and nodes."""
        begun: list[tuple[QueuePod, str]] = []
        most = MOST_OPEN - len(self._nominations.open())
        # A plan counts all open nominations again, so it must add many.
        if most < MOST_OPEN // 2 or now < self._next_plan:
            return begun
        if self._nominations.are_paused() or not self._may_write():
            return begun
        untried, above = self._untried(), self._above
        if len(untried) <= above:
            return begun

        def begin(pod: QueuePod, node: str) -> None:
            self._nominations.begin(pod, node, now)
            begun.append((pod, node))

        try:
            await self._planner.plan(most, now, begin, {*untried[:above]})
        except TablesNotReadyError as error:
            _log.debug("not nominated %s", fields(reason=error))
        if not begun:
            self._next_plan = now + _EMPTY_PAUSE_SECONDS
        return begun

    def _untried(self) -> list[str]:
        """Return the UIDs of the pods that wait for their first try, in the order of the queue.

        kube-scheduler may try the first ones of them before it reads a nomination.
        """
        return [pod.uid for pod in self._queue.waiting() if not pod.tried]

    async def _nominate(self, pod: QueuePod, node: str, first_ones: AbstractSet[str]) -> None:
        is_late = pod.uid in first_ones or self._planner.is_being_tried(pod)
        if is_late or not self._may_write():
            self._nominations.not_written(pod.uid)
            return
        try:
            version = await self._api.nominate(pod, node)
        except RejectedError as error:
            self._nominations.not_written(pod.uid)
            self._note(pod, error)
        except ApiError as error:
            self._note(pod, error)
        else:
            self._nominations.written(pod.uid, version)

    async def _withdraw(self, pod: QueuePod) -> None:
        """Remove a nomination. After a failure the next round tries again."""
        try:
            version = await self._api.nominate(pod, None)
        except ApiError as error:
            self._note(pod, error)
        else:
            self._nominations.withdrawn(pod.uid, version)

    def _note(self, pod: QueuePod, error: ApiError) -> None:
        """Pause after an error that further writes would get too."""
        if isinstance(error, ConflictError | NotFoundError):
            _log.debug("the pod has changed %s", fields(pod=pod.key, reason=error))
            return
        self._paused_until = time.monotonic() + _PAUSE_SECONDS
        _log.warning("nomination not written %s", fields(pod=pod.key, reason=error))


def _parts(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Yield the items in parts whose writes are sent at one time."""
    for first in range(0, len(items), _AT_ONCE):
        yield items[first : first + _AT_ONCE]
