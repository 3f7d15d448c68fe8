"""A queue of keys: each is worked on by one worker at a time, and again after a failure."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from gputopo.runtime.log import fields

KeyType = TypeVar("KeyType", bound=Hashable)

FIRST_DELAY_S: Final = 0.5
LONGEST_DELAY_S: Final = 120.0

logger = logging.getLogger(__name__)


class WorkQueue(Generic[KeyType]):
    """Calls ``work(key)`` for every key that is added.

    A key that waits already is not added twice; one that is being worked on is worked on
    once more afterwards. ``work`` returns after how many seconds it wants to see the key
    again, or None. After an error the key comes again later and later; errors of the type
    ``expected`` are told without a stack trace.
    """

    def __init__(
        self,
        work: Callable[[KeyType], Awaitable[float | None]],
        expected: type[Exception] = OSError,
    ) -> None:
        self._work = work
        self._expected = expected
        self._ready: asyncio.Queue[KeyType] = asyncio.Queue()
        self._waiting: set[KeyType] = set()
        self._running: set[KeyType] = set()
        self._again: set[KeyType] = set()
        self._errors: dict[KeyType, int] = {}
        self._timers: dict[KeyType, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: KeyType) -> None:
        """Have this key worked on as soon as a worker is free."""
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    async def run(self, workers: int) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._running.add(key)
            timer = self._timers.pop(key, None)
            if timer is not None:
                timer.cancel()
            delay_s = await self._attempt(key)
            self._running.discard(key)
            if key in self._again:
                self._again.discard(key)
                # After an error even a new event waits: else a storm of them defeats the delay.
                delay_s = delay_s if key in self._errors else 0.0
            if delay_s is not None:
                loop = asyncio.get_running_loop()
                self._timers[key] = loop.call_later(delay_s, self.add, key)

    async def _attempt(self, key: KeyType) -> float | None:
        try:
            delay_s = await self._work(key)
        except Exception as error:
            errors = self._errors[key] = self._errors.get(key, 0) + 1
            backoff_s = min(FIRST_DELAY_S * 2.0 ** (errors - 1), LONGEST_DELAY_S)
            logger.warning(
                "failed, trying again %s",
                fields(key=key, after_seconds=backoff_s, reason=error),
                exc_info=not isinstance(error, self._expected),
            )
            return backoff_s
        self._errors.pop(key, None)
        return delay_s
