"""A signal that wakes waiting tasks when the state of a component has changed."""

import asyncio
from contextlib import suppress


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

    async def wait_after(self, count: int, timeout_seconds: float | None = None) -> None:
        """Wait until ``self.count`` is greater than ``count``, at most ``timeout_seconds``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while self.count <= count:
                    await self._changed.wait()
