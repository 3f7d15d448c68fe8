"""Bytes between two values of a cumulative counter, or why they are unknown.

Example: a counter of 1,000 bytes that wraps shows 900 and then 100. The difference is 200 bytes if
the link can carry 200 bytes in this time. A counter that does not wrap was reset, for instance
because the driver was loaded again, and the interval is dropped.
"""

from collections.abc import Hashable, Mapping
from enum import StrEnum
from typing import Final, Generic, NamedTuple, TypeVar

from gputopo.counters.model import ByteCount

CAPACITY_MARGIN: Final = 1.2
"""A counter may show this many times the peak bandwidth: intervals are short, stamps inexact."""

MAX_INTERVAL_SECONDS: Final = 10.0
"""A longer interval is dropped: its mean rate says little about a window of the same length."""

_MICROSECONDS: Final = 1e6

CounterName = TypeVar("CounterName", bound=Hashable)


class Flow(NamedTuple):
    """Bytes in both directions, and the time in which they were counted."""

    sent: int
    received: int
    seconds: float

    def plus(self, other: "Flow") -> "Flow":
        """Return the flow of both times together."""
        return Flow(
            self.sent + other.sent, self.received + other.received, self.seconds + other.seconds
        )


class IntervalFault(StrEnum):
    """Why the bytes between two values of a counter are unknown.

    ``STOPPED``: the driver's time did not advance. ``TIME``: it went back or advanced too far.
    ``RESET``: the counter decreased and did not wrap. ``IMPLAUSIBLE``: more bytes than the link can
    carry, a negative value, or a counter that may have wrapped more than once.
    """

    STOPPED = "Stopped"
    TIME = "Time"
    RESET = "Reset"
    IMPLAUSIBLE = "Implausible"


def difference(before: ByteCount, after: ByteCount, mb_per_s: int) -> Flow | IntervalFault:
    """Return the bytes between two values of one counter.

    Args:
        before: the earlier value.
        after: the later value.
        mb_per_s: peak bandwidth of what is counted, in one direction.
    """
    seconds = (after.at_us - before.at_us) / _MICROSECONDS
    if seconds == 0:
        return IntervalFault.STOPPED
    if not 0 < seconds <= MAX_INTERVAL_SECONDS:
        return IntervalFault.TIME
    most = int(mb_per_s * _MICROSECONDS * seconds * CAPACITY_MARGIN)
    if min(before[:2]) < 0 or min(after[:2]) < 0 or _is_ambiguous(after, most):
        return IntervalFault.IMPLAUSIBLE
    sent = _increase(before.sent, after.sent, after.wraps_at, most)
    received = _increase(before.received, after.received, after.wraps_at, most)
    if sent is None or received is None:
        return IntervalFault.RESET
    if max(sent, received) > most:
        return IntervalFault.IMPLAUSIBLE
    return Flow(sent, received, seconds)


def _is_ambiguous(count: ByteCount, most: int) -> bool:
    """Return whether the counter may have wrapped twice, or exceeds its own limit."""
    return count.wraps_at is not None and max(most, *count[:2]) >= count.wraps_at


def _increase(before: int, after: int, wraps_at: int | None, most: int) -> int | None:
    if after >= before:
        return after - before
    if wraps_at is None or (wrapped := after + wraps_at - before) > most or wrapped < 0:
        return None
    return wrapped


class CounterHistory(Generic[CounterName]):
    """The newest value of each counter of a container, for the differences to the next values."""

    def __init__(self, mb_per_s: Mapping[CounterName, int]) -> None:
        """``mb_per_s``: the counters that are followed, with their peak bandwidths."""
        self._mb_per_s: Final = mb_per_s
        self._newest: Final[dict[CounterName, ByteCount]] = {}

    def advance(self, values: Mapping[CounterName, ByteCount]) -> dict[CounterName, Flow]:
        """Add values; return what has flowed since the previous ones, where it is known.

        A counter that is missing for a time keeps its value, so its next interval is longer.
        """
        flows = {}
        for name, value in values.items():
            if name not in self._mb_per_s:
                continue
            before = self._newest.get(name)
            if before is not None:
                found = difference(before, value, self._mb_per_s[name])
                if isinstance(found, Flow):
                    flows[name] = found
                elif found is IntervalFault.STOPPED:
                    continue  # bytes that arrive without a new time count with the next one
            self._newest[name] = value
        return flows
