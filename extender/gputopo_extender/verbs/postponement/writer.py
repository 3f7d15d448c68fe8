"""Writes to postponed pods: their annotations and events.

All writes are in the background, so that filter does not wait for the API server. They are limited
in number, so that thousands of postponed pods do not load the API server.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import IntEnum
from functools import partial
from typing import Final, TypeAlias

from gputopo.api.names import POSTPONED_ANNOTATION, RETRY_ANNOTATION
from gputopo.api.waiting import PostponedAnnotation
from gputopo.runtime.log import fields
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.errors import ApiError, UnavailableError
from gputopo_kube.pods import PodView

WRITES_PER_SECOND: Final = 50.0

_PAUSE_SECONDS: Final = 0.5
"""Pause after a write without a response."""

_log = logging.getLogger(__name__)

_Write: TypeAlias = Callable[[PodView], Awaitable[None]]


class WriteKind(IntEnum):
    """The kinds of writes, the most urgent first."""

    RETRY = 0
    BEGIN = 1
    END = 2


class PostponementWriter:
    """Sends one request after another, the most urgent first."""

    def __init__(self, ledger: Ledger, api: PodApi) -> None:
        """Write only to pods that ``ledger`` knows."""
        self._ledger = ledger
        self._api = api
        self._waiting: dict[WriteKind, dict[str, _Write]] = {kind: {} for kind in WriteKind}
        self._wake = asyncio.Event()

    def retry(self, uid: str) -> None:
        """Let kube-scheduler try a pod again, if the pod is not bound."""
        self._add(WriteKind.RETRY, uid, self._retry)

    def begin(self, uid: str, record: PostponedAnnotation, reason: str) -> None:
        """Write the annotation and the event of a wait that begins."""
        self._add(WriteKind.BEGIN, uid, partial(self._begin, record, reason))

    def end(self, uid: str, text: str) -> None:
        """Write the event of a wait that ended with a placement."""
        self._add(WriteKind.END, uid, partial(self._end, text))

    def clear(self) -> None:
        """Drop the writes to waiting pods: the kube-scheduler of this extender does not lead."""
        self._waiting[WriteKind.RETRY].clear()
        self._waiting[WriteKind.BEGIN].clear()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while kinds := [kind for kind in WriteKind if self._waiting[kind]]:
                await self._write_next(kinds[0])

    def _add(self, kind: WriteKind, uid: str, write: _Write) -> None:
        self._waiting[kind][uid] = write
        self._wake.set()

    async def _write_next(self, kind: WriteKind) -> None:
        """Carry out the oldest write of a kind. If its result is unknown, keep it for later."""
        uid = next(iter(self._waiting[kind]))
        write = self._waiting[kind].pop(uid)
        pod = self._ledger.get_pod(uid)
        if pod is None:
            return
        try:
            await write(pod)
        except UnavailableError as error:
            _log.warning("not written, trying again %s", fields(pod=pod.key, reason=error))
            self._waiting[kind].setdefault(uid, write)
            await asyncio.sleep(_PAUSE_SECONDS)
        except ApiError as error:
            _log.warning("not written %s", fields(pod=pod.key, reason=error))
        await asyncio.sleep(1.0 / WRITES_PER_SECOND)

    async def _retry(self, pod: PodView) -> None:
        if pod.node is None:
            await self._api.annotate(pod, {RETRY_ANNOTATION: datetime.now(UTC).isoformat()})
            _log.info("asked kube-scheduler to try again %s", fields(pod=pod.key))

    async def _begin(self, record: PostponedAnnotation, reason: str, pod: PodView) -> None:
        if pod.node is None:
            await self._api.annotate(pod, {POSTPONED_ANNOTATION: record.dump()})
        await self._api.create_event(pod, "Postponed", reason)

    async def _end(self, text: str, pod: PodView) -> None:
        await self._api.create_event(pod, "PostponementEnded", text)
