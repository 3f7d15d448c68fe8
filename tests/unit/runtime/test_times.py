"""The current time of all programs."""

from datetime import timedelta

from gputopo.runtime.times import utc


def test_current_time_is_in_utc() -> None:
    assert utc().utcoffset() == timedelta(0)
