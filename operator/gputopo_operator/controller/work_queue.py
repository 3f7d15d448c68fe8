"""A queue of keys for a fixed number of workers, with a growing delay after errors."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Executor
from typing import Final, Generic, TypeVar

from gputopo.runtime.log import fields
from gputopo_kube.errors import ApiError
from gputopo_operator.controller.fair_queue import FairQueue

KeyType = TypeVar("KeyType", bound=Hashable)

CONFLICT_DELAY_SECONDS: Final = 0.2
"""When to try again after another client has changed the object that a call writes."""

FIRST_DELAY_SECONDS: Final = 0.5
LONGEST_DELAY_SECONDS: Final = 120.0

_COUNTED_ERRORS: Final = 10
"""Errors in a row after which the delay no longer grows. A power of more than 1,024 overflows."""

_log = logging.getLogger(__name__)


class WorkQueue(Generic[KeyType]):
    """Calls ``work(key)`` for every key that is added.

    A waiting key is in the queue only once, and the namespaces of the keys take turns. Only one
    worker at a time handles a key. If a key is added again while a worker handles it, the worker
    handles the key once more. ``work`` returns the seconds until the next call for the key, or
    None. After an error the queue tries the key again; each error in a row doubles the delay. An
    ``ApiError`` is logged without a stack trace.
    """

    def __init__(
        self,
        work: Callable[[KeyType], Awaitable[float | None]],
        *,
        rest_seconds: float = 0.0,
        on_error: Callable[[], None] = lambda: None,
    ) -> None:
        """Let a key rest after each call without an error; then add it if it was added meanwhile.

        So one call handles all additions within ``rest_seconds``. ``on_error`` is called after each
        call with an error.
        """
        self._work = work
        self._on_error = on_error
        self._rest_seconds = rest_seconds
        self._ready = FairQueue[KeyType]()
        self._waiting: set[KeyType] = set()
        self._running: set[KeyType] = set()
        self._again: set[KeyType] = set()
        self._errors: dict[KeyType, int] = {}
        self._timers: dict[KeyType, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: KeyType) -> None:
        """Add a key. The next free worker calls ``work`` with the key."""
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_later(self, key: KeyType, seconds: float) -> None:
        """Add a key after this time. If it is already scheduled, only the earlier time counts.

        Do nothing if the key is in the queue, or waits for a retry after an error.
        """
        waits_after_error = key in self._errors and key in self._timers
        if key not in self._waiting and not waits_after_error:
            self._schedule(key, seconds)

    async def run(self, workers: int) -> None:
        """Run this number of workers until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._run_worker())

    async def _run_worker(self) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._running.add(key)
            timer = self._timers.pop(key, None)
            if timer is not None:
                timer.cancel()
            delay_seconds = await self._attempt(key)
            if self._rest_seconds and key not in self._errors:
                loop = asyncio.get_running_loop()
                loop.call_later(self._rest_seconds, self._end_work, key, delay_seconds)
            else:
                self._end_work(key, delay_seconds)

    def _end_work(self, key: KeyType, delay_seconds: float | None) -> None:
        self._running.discard(key)
        if key in self._again:
            self._again.discard(key)
            # After an error, a new event waits for the delay too. Otherwise many events would
            # cause many retries.
            delay_seconds = delay_seconds if key in self._errors else 0.0
        if delay_seconds is not None:
            self._schedule(key, delay_seconds)

    def _schedule(self, key: KeyType, seconds: float) -> None:
        """Add the key after this time. If the key is already scheduled earlier, do nothing."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._add_scheduled, key)

    def _add_scheduled(self, key: KeyType) -> None:
        del self._timers[key]
        self.add(key)

    async def _attempt(self, key: KeyType) -> float | None:
        try:
            delay_seconds = await self._work(key)
        except Exception as error:  # noqa: BLE001 - every error delays the key
            errors = self._errors[key] = min(self._errors.get(key, 0) + 1, _COUNTED_ERRORS)
            backoff_seconds = min(FIRST_DELAY_SECONDS * 2.0 ** (errors - 1), LONGEST_DELAY_SECONDS)
            _log.warning(
                "failed, trying again %s",
                fields(key=key, after_seconds=backoff_seconds, reason=error),
                exc_info=not isinstance(error, ApiError),
            )
            self._on_error()
            return backoff_seconds
        self._errors.pop(key, None)
        return delay_seconds


def queue_in_threads(
    work: Callable[[KeyType], float | None],
    threads: Executor,
    *,
    rest_seconds: float = 0.0,
    on_error: Callable[[], None],
) -> WorkQueue[KeyType]:
    """Return a queue that calls ``work`` in a thread, because it blocks."""

    async def run(key: KeyType) -> float | None:
        return await asyncio.get_running_loop().run_in_executor(threads, work, key)

    return WorkQueue(run, rest_seconds=rest_seconds, on_error=on_error)
