"""An event loop whose clock jumps to the next timer: programs that wait run at once.

For programs without I/O: the loop never sleeps, and one that waits for nothing fails.
"""

import asyncio
import selectors
from typing import Any


class _Selector(selectors.SelectSelector):
    """Never waits; the time that it was to wait passes at once."""

    passed_seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            if timeout is None:
                raise RuntimeError("the program waits for something that never comes")
            self.passed_seconds += timeout
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop that runs as fast as its programs compute."""

    def __init__(self) -> None:
        self._ticks = _Selector()
        super().__init__(self._ticks)

    def time(self) -> float:
        """Return the seconds that passed for the programs."""
        return self._ticks.passed_seconds


def runner() -> asyncio.Runner:
    """Return a runner of such a loop."""
    factory: Any = VirtualTimeLoop
    return asyncio.Runner(loop_factory=factory)
