"""Detects that several processes of one container send steps, for instance all ranks of a job."""

from collections import deque
from typing import Final

SENDERS_SECONDS: Final = 300.0
"""If former run IDs return twice within this time, there are several senders."""

_RETURNS: Final = 2
_REMEMBERED_RUNS: Final = 32


class SenderWatch:
    """Detects whether several processes send steps in turn. Its memory is bounded.

    A process that has restarted has a new run ID, and its former ID never returns. So if former IDs
    return twice within 300 s, there are several processes. Times are seconds of the agent's
    monotonic clock.
    """

    def __init__(self) -> None:
        self._former: deque[str] = deque(maxlen=_REMEMBERED_RUNS)
        self._returns: deque[float] = deque(maxlen=_RETURNS)

    def switch(self, left: str, entered: str, at: float) -> None:
        """Record that a message of the run ``entered`` followed a message of the run ``left``."""
        if entered == left:
            return
        if entered in self._former:
            self._returns.append(at)
        self._former.append(left)

    def several(self, now: float) -> bool:
        """Return whether several processes have sent within the last 300 s."""
        return len(self._returns) == _RETURNS and now - self._returns[0] <= SENDERS_SECONDS
