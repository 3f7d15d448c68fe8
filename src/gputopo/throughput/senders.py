"""Detects that several processes of one container send steps, for instance all ranks of a job."""

from collections import deque
from typing import Final

from gputopo.throughput.message import StepMessage

SENDERS_SECONDS: Final = 300.0
"""If former run IDs return twice within this time, there are several senders."""

_RETURNS: Final = 2
_LEAPS: Final = 3
_REMEMBERED_RUNS: Final = 32


class SenderWatch:
    """Detects whether several processes send steps in turn. Its memory is bounded.

    A process that has restarted has a new run ID, and its former ID never returns. So if former IDs
    return twice within 300 s, there are several processes. Times are seconds of the agent's
    monotonic clock.

    All processes that write into one log have the same run ID. If their counts differ, the count
    falls, and the next new count is at the former level again, for instance 8, 7, 9. If this
    happens three times within 300 s, there are several processes. After a restart, the count needs
    more messages to reach the former level.
    """

    def __init__(self) -> None:
        self._former: deque[str] = deque(maxlen=_REMEMBERED_RUNS)
        self._returns: deque[float] = deque(maxlen=_RETURNS)
        self._leaps: deque[float] = deque(maxlen=_LEAPS)
        self._fell_from: int | None = None  # None if the newest change was no fall

    def switch(self, left: StepMessage, entered: StepMessage, at: float) -> None:
        """Record that ``entered`` came after ``left``, and does not continue its count."""
        if entered.run == left.run:
            fell = entered.steps < left.steps  # else a clock has changed, or a message was late
            self._fell_from = max(self._fell_from or 0, left.steps) if fell else None
            return
        if entered.run in self._former:
            self._returns.append(at)
        self._former.append(left.run)
        self._fell_from = None

    def rise(self, steps: int, at: float) -> None:
        """Record a message that continues the count with new steps."""
        if self._fell_from is not None and steps >= self._fell_from:
            self._leaps.append(at)
        self._fell_from = None

    def several(self, now: float) -> bool:
        """Return whether several processes have sent within the last 300 s."""
        return any(
            len(times) == times.maxlen and now - times[0] <= SENDERS_SECONDS
            for times in (self._returns, self._leaps)
        )
