"""How long the operator waits after the newest resize of a pod."""

from datetime import datetime
from math import inf
from typing import Final

from gputopo.api.tuning import TunedRecord
from gputopo.runtime.times import seconds_since

RESIZE_INTERVAL_SECONDS: Final = 60
"""For this time after a resize, the amounts of a pod change only if its node needs it."""

DEFERRED_SECONDS: Final = 60
"""Longest time for which kubelet may defer a raise."""

ERROR_SECONDS: Final = 60
"""Longest time for which kubelet may fail to cut memory for another reason than its use."""

DEFERRAL_WAITS: Final = (300, 3600)
"""Seconds until a raise is tried again after kubelet has deferred it too long. Each try also cuts
other pods for the raise. So there are few tries."""

_CLOCK_SECONDS: Final = 60
"""By how much the clocks of two operators may differ."""


def seconds_since_resize(record: TunedRecord, now: datetime) -> float:
    """Return the age of the newest resize; infinity if the clock was set back since then.

    Otherwise a wait would last until the clock reaches the time of the resize again.
    """
    seconds = seconds_since(record.since, now)
    return inf if seconds < -_CLOCK_SECONDS else max(0, seconds)


def wait_left(record: TunedRecord, now: datetime) -> float:
    """Return the seconds until the pod may be raised again after deferred raises."""
    if not record.deferrals:
        return 0
    wait = DEFERRAL_WAITS[min(record.deferrals, len(DEFERRAL_WAITS)) - 1]
    return max(0, wait - seconds_since_resize(record, now))
