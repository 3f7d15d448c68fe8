"""Orders of the job queue."""

import pytest

from gputopo.sizing.orders import ORDERS, JobProgress, sort_jobs

EARLY_LONG = JobProgress("early-long", 0, 500, 900, 1000)
LATE_SHORT = JobProgress("late-short", 50, 400, 10, 40)
STARVED = JobProgress("starved", 10, 0, 100, 100)
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
def test_orders_sort_jobs(order: str, expected: list[str]) -> None:
    assert [each.job for each in sort_jobs(ORDERS[order], ALL, 100)] == expected


@pytest.mark.parametrize("order", ORDERS)
def test_equal_jobs_are_sorted_by_arrival_and_then_by_id(order: str) -> None:
    twins = [JobProgress(job, 0, 0, 10, 10) for job in ("b", "c", "a")]
    assert [each.job for each in sort_jobs(ORDERS[order], twins, 5)] == ["a", "b", "c"]


def test_arrival_decides_between_jobs_of_equal_service() -> None:
    late, early = JobProgress("a", 9, 0, 10, 10), JobProgress("b", 1, 0, 10, 10)
    assert sort_jobs(ORDERS["las"], [late, early], 20) == [early, late]


def test_finish_time_fairness_changes_over_time() -> None:
    long, short = JobProgress("long", 0, 0, 100, 100), JobProgress("short", 10, 0, 5, 5)
    assert sort_jobs(ORDERS["ftf"], [short, long], 10) == [long, short]
    assert sort_jobs(ORDERS["ftf"], [short, long], 30) == [short, long]
