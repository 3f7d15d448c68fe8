"""Which job runs first."""

import pytest

from gputopo.sizing.orders import ORDERS, Standing, in_order

EARLY_LONG = Standing("early-long", 0, 500, 900, 1000)
LATE_SHORT = Standing("late-short", 50, 400, 10, 40)
STARVED = Standing("starved", 10, 0, 100, 100)
ALL = [STARVED, LATE_SHORT, EARLY_LONG]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fifo", ["early-long", "starved", "late-short"]),
        ("srtf", ["late-short", "starved", "early-long"]),
        ("las", ["starved", "late-short", "early-long"]),
        # (100 - 50 + 10) / 40 = 1.5; (100 - 10 + 100) / 100 = 1.9; (100 + 900) / 1000 = 1
        ("ftf", ["starved", "late-short", "early-long"]),
    ],
)
def test_orders_put_first_whom_they_say(order: str, expected: list[str]) -> None:
    assert [each.job for each in in_order(ORDERS[order], ALL, 100)] == expected


@pytest.mark.parametrize("order", ORDERS)
def test_equals_go_by_arrival_and_then_by_id(order: str) -> None:
    twins = [Standing(job, 0, 0, 10, 10) for job in ("b", "c", "a")]
    assert [each.job for each in in_order(ORDERS[order], twins, 5)] == ["a", "b", "c"]


def test_arrival_decides_between_equals_by_service() -> None:
    late, early = Standing("a", 9, 0, 10, 10), Standing("b", 1, 0, 10, 10)
    assert in_order(ORDERS["las"], [late, early], 20) == [early, late]


def test_fairness_turns_as_time_goes_by() -> None:
    long, short = Standing("long", 0, 0, 100, 100), Standing("short", 10, 0, 5, 5)
    assert in_order(ORDERS["ftf"], [short, long], 10) == [long, short]
    assert in_order(ORDERS["ftf"], [short, long], 30) == [short, long]
