"""How long the operator waits after the newest resize of a pod."""

from datetime import datetime
from math import inf
from typing import Final

from gputopo.api.tuning import TunedRecord
from gputopo.runtime.times import seconds_since

RESIZE_INTERVAL_SECONDS: Final = 60
"""For this time after a resize, the amounts of a pod change only if its node needs it."""

DEFERRED_SECONDS: Final = 60
"""Longest time for which kubelet may defer a raise, and the wait after the first such raise."""

MAX_WAIT_SECONDS: Final = 3600
"""Longest wait after a raise that was deferred."""

_CLOCK_SECONDS: Final = 60
"""By how much the clocks of two operators may differ."""


def seconds_since_resize(record: TunedRecord, now: datetime) -> float:
    """Return the age of the newest resize; infinity if the clock was set back since then.

    Otherwise a wait would last until the clock reaches the time of the resize again.
    """
    seconds = seconds_since(record.since, now)
    return inf if seconds < -_CLOCK_SECONDS else max(0, seconds)


def wait_left(record: TunedRecord, now: datetime) -> float:
    """Return the seconds until the pod may be raised again after deferred raises.

    Example: 60 s after the first raise that was deferred, 120 s after the second, 240 s after the
    third, and at most 1 h.
    """
    if not record.deferrals:
        return 0
    wait = min(MAX_WAIT_SECONDS, DEFERRED_SECONDS << (record.deferrals - 1))
    return max(0, wait - seconds_since_resize(record, now))
