"""A signal that wakes the loops of the agent when its state has changed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Loop = Callable[[], Coroutine[Any, Any, None]]
"""Runs until it is cancelled."""


class ChangeSignal:
    """Counts changes, and wakes the tasks that wait for a change. It is not thread-safe.

    Attributes:
        count: number of changes so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Count a change, and wake all waiting tasks."""
        self.count += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_after(self, count: int) -> None:
        """Wait until ``self.count`` is greater than ``count``."""
        while self.count <= count:
            await self._changed.wait()
