"""Detect several processes that count steps for one container, for instance all ranks of a job."""

from collections import deque
from typing import Final

SENDERS_SECONDS: Final = 300.0
"""Several senders are reported until no former run has returned for this time."""

_RETURNS: Final = 2
_REMEMBERED_RUNS: Final = 32


class SenderWatch:
    """Watches which runs take turns. Its memory is bounded.

    A process that has restarted has a new run ID, and the former ID never returns. So two returns
    of former runs within 300 s prove that there are several processes. Times are seconds of the
    agent's monotonic clock.
    """

    def __init__(self) -> None:
        self._former: deque[str] = deque(maxlen=_REMEMBERED_RUNS)
        self._returns: deque[float] = deque(maxlen=_RETURNS)

    def switch(self, left: str, entered: str, at: float) -> None:
        """Note that a message of run ``entered`` follows one of run ``left``; they may be equal."""
        if entered == left:
            return
        if entered in self._former:
            self._returns.append(at)
        self._former.append(left)

    def several(self, now: float) -> bool:
        """Return whether several processes have sent within the last 300 s."""
        return len(self._returns) == _RETURNS and now - self._returns[0] <= SENDERS_SECONDS
