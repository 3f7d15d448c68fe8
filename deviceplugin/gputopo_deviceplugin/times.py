"""The time as the API writes it."""

from datetime import UTC, datetime


def now() -> str:
    """Return the current time in RFC 3339."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
