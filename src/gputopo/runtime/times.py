"""Times as the Kubernetes API writes them: RFC 3339, UTC, whole seconds."""

from datetime import UTC, datetime
from math import floor
from typing import Final

TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
_LAST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def timestamp(time: datetime) -> str:
    """Return a time in UTC in RFC 3339.

    >>> timestamp(datetime(2026, 1, 1, 12, 30, tzinfo=UTC))
    '2026-01-01T12:30:00Z'
    """
    return time.strftime(TIME_FORMAT)


def utc() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def utc_now() -> str:
    """Return the current time in UTC in RFC 3339."""
    return timestamp(utc())


def unix_seconds(text: str | None) -> float | None:
    """Return a time stamp in Unix time, or None if it is missing or not a time stamp.

    >>> unix_seconds("1970-01-02T00:00:00Z"), unix_seconds("yesterday"), unix_seconds(None)
    (86400.0, None, None)
    """
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


def timestamp_of(unix: float) -> str:
    """Return a Unix time in RFC 3339; a time that the format cannot express is limited.

    >>> timestamp_of(86_400.9), timestamp_of(1e18)
    ('1970-01-02T00:00:00Z', '9999-12-31T23:59:59Z')
    """
    return timestamp(datetime.fromtimestamp(min(max(unix, 0.0), _LAST), UTC))


def seconds_since(text: str, now: datetime) -> int:
    """Return the seconds between a time stamp and ``now``; negative if the clock was set back.

    >>> seconds_since("2026-01-01T12:30:00Z", datetime(2026, 1, 1, 12, 31, tzinfo=UTC))
    60
    """
    return floor((now - datetime.fromisoformat(text)).total_seconds())
