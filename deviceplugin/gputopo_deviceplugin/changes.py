"""A signal of changes, which wakes the loops that react to them."""

import asyncio


class ChangeSignal:
    """Counts changes and wakes waiting loops. Use it in one event loop only.

    Attributes:
        count: number of changes so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Wake all loops that wait."""
        self.count += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_after(self, count: int) -> None:
        """Return when there were more than ``count`` changes. So the caller misses no change."""
        while self.count <= count:
            await self._changed.wait()
