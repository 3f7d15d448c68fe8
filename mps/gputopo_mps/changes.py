"""A signal that wakes one waiting task."""

import asyncio
from contextlib import suppress


class PodChanges:
    """Remembers that something has changed, until the waiting task has seen it."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Wake the waiting task."""
        self._changed.set()

    async def wait(self, timeout_seconds: float) -> None:
        """Wait for a change, at most ``timeout_seconds``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._changed.wait()
        self._changed.clear()
