"""Writes to postponed pods: their annotations and events.

All writes are in the background, so that filter does not wait for the API server. They are limited
in number, so that thousands of postponed pods do not load the API server.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum
from functools import partial
from typing import Final, TypeAlias

from gputopo.api.names import POSTPONED_ANNOTATION, RETRY_ANNOTATION
from gputopo.api.waiting import PostponedAnnotation
from gputopo.runtime.log import fields
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.errors import ApiError, ConflictError, DeniedError, NotFoundError
from gputopo_kube.pods import PodView

WRITES_PER_SECOND: Final = 50.0

_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 8.0
"""Pauses before a failed write is repeated; they double from the first to the longest."""

_FINAL: Final = (NotFoundError, ConflictError, DeniedError)
"""Errors after which a repetition would fail too: the pod is gone, or the write is forbidden."""

_log = logging.getLogger(__name__)

_Write: TypeAlias = Callable[[PodView], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A write that is not carried out yet, from ``not_before`` on, in seconds of the event loop."""

    write: _Write
    not_before: float = 0.0
    pause: float = _FIRST_PAUSE_SECONDS

    def after_failure(self, now: float) -> "_Waiting":
        """Return the same write with its next pause."""
        pause = min(2 * self.pause, _LONGEST_PAUSE_SECONDS)
        return _Waiting(self.write, now + self.pause, pause)


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
        self._waiting: dict[WriteKind, dict[str, _Waiting]] = {kind: {} for kind in WriteKind}
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
            self._wake.clear()
            now = asyncio.get_running_loop().time()
            if (found := self._next(now)) is not None:
                await self._carry_out(*found)
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._pause(now))

    def _add(self, kind: WriteKind, uid: str, write: _Write) -> None:
        known = self._waiting[kind].get(uid)
        self._waiting[kind][uid] = _Waiting(write) if known is None else replace(known, write=write)
        self._wake.set()

    def _next(self, now: float) -> tuple[WriteKind, str] | None:
        """Return the oldest write of the most urgent kind that need not pause."""
        for kind, waiting in self._waiting.items():
            for uid, each in waiting.items():
                if each.not_before <= now:
                    return kind, uid
        return None

    def _pause(self, now: float) -> float | None:
        """Return after how many seconds the next write may be carried out; None without writes."""
        times = [each.not_before for waiting in self._waiting.values() for each in waiting.values()]
        return min(times) - now if times else None

    async def _carry_out(self, kind: WriteKind, uid: str) -> None:
        """Carry out a write. If it may succeed later, keep it; other writes do not wait for it."""
        waiting = self._waiting[kind].pop(uid)
        pod = self._ledger.pods.get(uid)
        if pod is None:
            return
        try:
            await waiting.write(pod)
        except _FINAL as error:
            _log.warning("not written %s", fields(pod=pod.key, reason=error))
        except ApiError as error:
            _log.warning("not written, trying again %s", fields(pod=pod.key, reason=error))
            now = asyncio.get_running_loop().time()
            self._waiting[kind].setdefault(uid, waiting.after_failure(now))
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
