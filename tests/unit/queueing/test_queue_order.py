"""The order in which waiting jobs are tried."""

from typing import Any

import pytest

from gputopo.queueing.model import QueueOrder, QueueRules, WaitingJob
from gputopo.queueing.order import is_overdue, sort_waiting

NOW = 1000.0


def waiting(job: str, **fields: Any) -> WaitingJob:
    return WaitingJob(**{"job": job, "gpus": 1, "created": 900, "waiting_since": 900, **fields})


def order(jobs: list[WaitingJob], order: QueueOrder, max_skip_seconds: float = 500) -> list[str]:
    return [each.job for each in sort_waiting(jobs, QueueRules(order, max_skip_seconds), NOW)]


def test_fifo_is_the_order_of_creation_and_then_of_names() -> None:
    jobs = [waiting("c", created=902), waiting("b", created=901), waiting("a", created=902)]
    assert order(jobs, QueueOrder.FIFO) == ["b", "a", "c"]


def test_srtf_is_the_order_of_the_expected_remaining_time() -> None:
    jobs = [
        waiting("unknown", created=1),
        waiting("long", expected_seconds=300),
        waiting("short", expected_seconds=200),
        waiting("nearly-done", expected_seconds=1000, ran_seconds=900),
        waiting("longer-than-expected", expected_seconds=50, ran_seconds=100),
    ]
    expected = ["longer-than-expected", "nearly-done", "short", "long", "unknown"]
    assert order(jobs, QueueOrder.SRTF) == expected


def test_las_is_the_order_of_received_gpu_seconds() -> None:
    jobs = [
        waiting("wide", gpus=4, ran_seconds=50),
        waiting("narrow", ran_seconds=100),
        waiting("new", created=999),
    ]
    assert order(jobs, QueueOrder.LAS) == ["new", "narrow", "wide"]


def test_ftf_is_the_order_of_finish_time_fairness() -> None:
    # (waited + remaining) / alone is (100 + 50) / 50 = 3, (100 + 400) / 400 = 1.25 and
    # (600 + 400) / 400 = 2.5.
    jobs = [
        waiting("unknown", created=1),
        waiting("long", expected_seconds=400),
        waiting("long-and-old", expected_seconds=400, created=400),
        waiting("short", expected_seconds=50),
    ]
    assert order(jobs, QueueOrder.FTF) == ["short", "long-and-old", "long", "unknown"]


@pytest.mark.parametrize("by", QueueOrder)
def test_higher_priority_comes_before_any_order(by: QueueOrder) -> None:
    jobs = [waiting("low", expected_seconds=1), waiting("high", created=950, priority=10)]
    assert order(jobs, by) == ["high", "low"]


@pytest.mark.parametrize("by", QueueOrder)
def test_overdue_jobs_come_first_and_the_longest_wait_before_other_waits(by: QueueOrder) -> None:
    jobs = [
        waiting("new", priority=10, expected_seconds=1),
        waiting("overdue", waiting_since=500, created=1),
        waiting("first", waiting_since=499, created=2),
    ]
    assert order(jobs, by) == ["first", "overdue", "new"]


def test_job_is_overdue_when_it_has_waited_for_the_limit() -> None:
    rules = QueueRules(QueueOrder.FIFO, 100)
    assert is_overdue(waiting("a"), rules, NOW)
    assert not is_overdue(waiting("a"), rules, NOW - 1)
