"""Differences of counters: wrap, reset, stopped counters, times that jump, absurd values."""

import pytest

from gputopo.counters.difference import CounterHistory, Flow, IntervalFault, difference
from gputopo.counters.model import ByteCount

MB_PER_S = 1000
GB = 10**9


def count(sent: int, received: int, second: float, wraps_at: int | None = None) -> ByteCount:
    return ByteCount(sent, received, int(second * 1e6), wraps_at)


def test_rate_is_by_the_time_of_the_driver() -> None:
    assert difference(count(5, 7, 1), count(105, 57, 3.5), MB_PER_S) == Flow(100, 50, 2.5)


def test_counter_without_traffic_has_a_flow_of_zero() -> None:
    assert difference(count(5, 7, 1), count(5, 7, 2), MB_PER_S) == Flow(0, 0, 1)


@pytest.mark.parametrize(
    ("second", "fault"),
    [(1.0, IntervalFault.STOPPED), (0.5, IntervalFault.TIME), (11.5, IntervalFault.TIME)],
)
def test_time_that_stops_or_jumps_has_no_flow(second: float, fault: IntervalFault) -> None:
    assert difference(count(0, 0, 1), count(10, 10, second), MB_PER_S) is fault


def test_plausible_wrap_is_counted() -> None:
    wraps = 100 * GB
    before, after = count(wraps - 100, 50, 1, wraps), count(200, 60, 2, wraps)
    assert difference(before, after, MB_PER_S) == Flow(300, 10, 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (count(500, 500, 1), count(100, 600, 2)),
        (count(500, 500, 1), count(600, 100, 2)),
        (count(50 * GB, 0, 1, 100 * GB), count(100, 0, 2, 100 * GB)),
        (count(500 * GB, 0, 1), count(100, 0, 2, 100 * GB)),
    ],
    ids=["sent", "received", "wrap of more than the link carries", "before above the limit"],
)
def test_decrease_that_is_no_wrap_is_a_reset(before: ByteCount, after: ByteCount) -> None:
    assert difference(before, after, MB_PER_S) is IntervalFault.RESET


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (count(0, 0, 1), count(2 * GB, 0, 2)),
        (count(0, 0, 1), count(0, 2 * GB, 2)),
        (count(-5, 0, 1), count(5, 0, 2)),
        (count(0, 0, 1), count(5, -1, 2)),
        (count(0, 0, 1, 1000), count(5, 0, 2, 1000)),
        (count(0, 0, 1, 100 * GB), count(5, 101 * GB, 2, 100 * GB)),
        (count(0, 0, 1, -1), count(5, 0, 2, -1)),
    ],
    ids=[
        "sent above the capacity",
        "received above the capacity",
        "negative before",
        "negative after",
        "may have wrapped twice",
        "above its own limit",
        "negative limit",
    ],
)
def test_implausible_values_have_no_flow(before: ByteCount, after: ByteCount) -> None:
    assert difference(before, after, MB_PER_S) is IntervalFault.IMPLAUSIBLE


def test_a_fifth_above_the_capacity_is_plausible() -> None:
    assert difference(count(0, 0, 1), count(GB + GB // 6, 0, 2), MB_PER_S) == Flow(
        GB + GB // 6, 0, 1
    )


def test_history_follows_only_counters_with_a_known_bandwidth() -> None:
    history = CounterHistory({"a": MB_PER_S})
    assert history.advance({"a": count(0, 0, 1), "new": count(0, 0, 1)}) == {}
    assert history.advance({"a": count(5, 0, 2), "new": count(5, 0, 2)}) == {"a": Flow(5, 0, 1)}


def test_history_drops_the_interval_of_a_reset_only() -> None:
    history = CounterHistory({"a": MB_PER_S})
    values = [count(500, 0, 1), count(10, 0, 2), count(30, 0, 3)]
    assert [history.advance({"a": each}) for each in values] == [{}, {}, {"a": Flow(20, 0, 1)}]


def test_bytes_of_a_stopped_counter_count_when_its_time_advances() -> None:
    history = CounterHistory({"a": MB_PER_S})
    values = [count(10, 0, 1), count(30, 0, 1), count(70, 0, 3)]
    assert [history.advance({"a": each}) for each in values] == [{}, {}, {"a": Flow(60, 0, 2)}]


def test_counter_that_was_missing_has_a_longer_interval() -> None:
    history = CounterHistory({"a": MB_PER_S})
    values = [{"a": count(10, 0, 1)}, {}, {"a": count(70, 0, 3)}]
    assert [history.advance(each) for each in values] == [{}, {}, {"a": Flow(60, 0, 2)}]


def test_flows_add_up() -> None:
    assert Flow(1, 2, 3).plus(Flow(10, 20, 30)) == Flow(11, 22, 33)
