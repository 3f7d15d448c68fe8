"""Speeds from the loads of the jobs alone."""

import pytest

from gputopo.sharing.loadlaw import (
    LoadCapacity,
    LoadShare,
    load_share,
)
from support.sharing import workload


def test_share_is_the_load_of_a_step_by_its_time() -> None:
    found = load_share(workload("a", rate=4.0, occupancy=0.4, dram=0.25))
    assert found == pytest.approx((0.4, 0.25))
    assert load_share(workload("a", occupancy=0.4)) == pytest.approx((0.4, 0))


def test_share_is_at_most_the_whole_gpu() -> None:
    assert load_share(workload("a", occupancy=1.3, dram=1.1)) == (1, 1)


def test_share_is_unknown_without_load_or_rate() -> None:
    assert load_share(workload("a")) is None
    assert load_share(workload("a", rate=None, occupancy=0.1)) is None


def test_jobs_within_the_capacity_are_not_slower() -> None:
    shares = [LoadShare(0.2, 0.5), LoadShare(0.3, 0.5)]
    assert LoadCapacity(0.5).speed(shares) == 1


def test_scarcest_resource_decides() -> None:
    shares = [LoadShare(0.3, 0.1), LoadShare(0.3, 0.1), LoadShare(0.4, 0.1)]
    assert LoadCapacity(0.5).speed(shares) == pytest.approx(0.5)
    assert LoadCapacity(0.5, 0.1).speed(shares) == pytest.approx(1 / 3)


def test_job_that_exceeds_the_capacity_alone_is_not_slower_alone() -> None:
    assert LoadCapacity(0.5).speed([LoadShare(0.9, 0)]) == 1
    assert LoadCapacity(0.5).speed([LoadShare(0.9, 0), LoadShare(0.9, 0)]) == 0.5
