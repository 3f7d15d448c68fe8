"""Algorithm 2 of the thesis, as published."""

import pytest

from gputopo.sharing.model import StepLoad
from gputopo.sharing.thesis import (
    ColocationGpu,
    ColocationJob,
    LoadObservation,
    calibrate_limit,
    colocate,
)

LIMIT = 4e7
"""The thesis' limit on a V100, in its unit."""


def jobs(*occupancies: float) -> list[ColocationJob]:
    return [ColocationJob(f"{value:g}", StepLoad(value)) for value in occupancies]


def gpu(name: str, *occupancies: float) -> ColocationGpu:
    return ColocationGpu(name, tuple(map(StepLoad, occupancies)))


def test_jobs_start_by_ascending_c_on_the_least_loaded_gpu() -> None:
    found = colocate([gpu("a"), gpu("b")], jobs(2e7, 1e7, 1.5e7), LIMIT)
    assert found == (("1e+07", "a"), ("1.5e+07", "b"), ("2e+07", "a"))


def test_first_rejection_ends_the_loop() -> None:
    """The GPU with the least C rejects the job of 3.5e7; no later job is tried."""
    found = colocate([gpu("a", 1e7), gpu("b", 3.9e7)], jobs(3.5e7, 3.6e7, 2e7), LIMIT)
    assert found == (("2e+07", "a"),)


def test_sum_of_exactly_the_limit_is_accepted() -> None:
    assert colocate([gpu("a", 1e7)], jobs(3e7), LIMIT) == (("3e+07", "a"),)
    assert colocate([gpu("a", 1e7)], jobs(3e7 + 1), LIMIT) == ()


def test_empty_gpu_always_accepts() -> None:
    assert colocate([gpu("a")], jobs(9e7, 8e7), LIMIT) == (("8e+07", "a"),)


def test_without_a_limit_only_empty_gpus_accept() -> None:
    found = colocate([gpu("a"), gpu("b"), gpu("c", 1.0)], jobs(1, 1, 1), None)
    assert found == (("1", "a"), ("1", "b"))


def test_m_decides_between_equal_c() -> None:
    heavy, light = (ColocationJob(name, StepLoad(1e7, m)) for name, m in (("h", 5.0), ("l", 2.0)))
    assert colocate([gpu("a")], [heavy, light], LIMIT) == (("l", "a"), ("h", "a"))


def test_nothing_starts_without_gpus_or_jobs() -> None:
    assert colocate([], jobs(1.0), LIMIT) == ()
    assert colocate([gpu("a")], [], LIMIT) == ()


def test_limit_is_calibrated_by_the_fewest_wrong_decisions() -> None:
    gains = [LoadObservation(1e7 * step, 1.4) for step in range(1, 5)]
    losses = [LoadObservation(1e7 * step, 0.8) for step in range(5, 12)]
    assert calibrate_limit([*gains, *losses]) == 4e7
    assert calibrate_limit([LoadObservation(5e6, 0.9), *gains, *losses]) == 4e7
    assert calibrate_limit([seen._replace(delta=0.9) for seen in [*gains, *losses]]) == 0


def test_limit_is_unknown_with_few_observations() -> None:
    assert calibrate_limit([LoadObservation(1e7, 1.4)] * 9) is None
    assert calibrate_limit([LoadObservation(1e7, 1.4)] * 10) == pytest.approx(1e7)
