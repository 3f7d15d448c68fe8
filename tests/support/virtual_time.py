"""An event loop whose clock jumps to the next timer, so that no test sleeps.

For programs without I/O: a program that waits without a timer fails instead of hanging.
"""

import asyncio
import selectors
from typing import Any


class _Selector(selectors.SelectSelector):
    """A selector that never waits: it adds the timeout to its clock."""

    passed_seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            if timeout is None:
                raise RuntimeError("the program waits, but no timer is set")
            self.passed_seconds += timeout
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with the selector's virtual clock."""

    def __init__(self) -> None:
        self._ticks = _Selector()
        super().__init__(self._ticks)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._ticks.passed_seconds


def runner() -> asyncio.Runner:
    """Return a runner with a virtual-time loop."""
    factory: Any = VirtualTimeLoop
    return asyncio.Runner(loop_factory=factory)
