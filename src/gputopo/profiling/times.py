"""Formats times for the annotation ``gputopo.io/profiling-state``: UTC, whole seconds."""

from datetime import datetime
from math import floor


def timestamp(time: datetime) -> str:
    """Return a time in UTC in RFC 3339.

    >>> from datetime import UTC
    >>> timestamp(datetime(2026, 1, 1, 12, 30, tzinfo=UTC))
    '2026-01-01T12:30:00Z'
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_since(text: str, now: datetime) -> int:
    """Return the seconds between a time stamp and ``now``; negative if the clock was set back.

    >>> from datetime import UTC
    >>> seconds_since("2026-01-01T12:30:00Z", datetime(2026, 1, 1, 12, 31, tzinfo=UTC))
    60
    """
    return floor((now - datetime.fromisoformat(text)).total_seconds())
