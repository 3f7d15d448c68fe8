"""The CPU limits at which a pod may be measured, in units for the planner."""

import pytest

from gputopo.api.profiling import CpuAmounts
from gputopo.profiling.grid import CpuGrid, most_milli_cpu


def grid(limit: int, *, most: int = 0, request: int = 0, gpus: int = 1) -> CpuGrid:
    original = CpuAmounts(request=request or limit, limit=limit)
    return CpuGrid(original, most or 2 * limit, gpus)


@pytest.mark.parametrize(
    ("limit", "unit"),
    [(96_000, 8000), (24_000, 2000), (8000, 1000), (4000, 500), (500, 50), (7777, 972), (5, 1)],
)
def test_unit_divides_the_own_limit_into_at_least_eight(limit: int, unit: int) -> None:
    assert grid(limit).unit_milli_cpu == unit


@pytest.mark.parametrize("limit", [5, 100, 500, 1500, 4000, 7777, 24_000, 64_000])
def test_own_limit_is_a_point_of_every_grid(limit: int) -> None:
    points = grid(limit)
    share = points.plan.share_cpus
    assert points.units(limit) == share
    assert points.amounts(share) == points.original
    counts = range(points.plan.least_cpus, points.plan.most_cpus + 1)
    limits = [points.amounts(count).limit for count in counts]
    assert limits == sorted(set(limits))
    assert [points.units(each) for each in limits] == list(counts)


def test_limits_beside_the_grid_are_no_points() -> None:
    assert grid(7777).units(7776) is None
    assert grid(4000).units(1234) is None


def test_least_is_a_cpu_for_each_gpu_or_an_eighth_of_the_limit() -> None:
    assert grid(24_000, gpus=1).plan.least_cpus == 1
    assert grid(64_000, gpus=8).plan.least_cpus == 1
    assert grid(8000, gpus=8).plan.least_cpus == 1
    assert grid(1500, most=1500).plan.least_cpus == 2


def test_container_with_a_lower_request_is_measured_above_it() -> None:
    points = grid(8000, request=3500)
    assert points.plan.least_cpus == 4
    assert points.amounts(4) == CpuAmounts(request=3500, limit=4000)
    close = grid(8000, request=7999)
    assert close.plan.least_cpus == close.plan.share_cpus


def test_limit_of_a_sized_pod_is_its_floor() -> None:
    points = CpuGrid(CpuAmounts(request=4000, limit=4000), 8000, 1, never_lowered=True)
    assert points.plan.least_cpus == points.plan.share_cpus == 8


@pytest.mark.parametrize(
    ("limit", "most", "unit"),
    [(500, 24_000, 500), (250, 64_000, 2000), (1000, 4000, 100), (2100, 64_000, 2000), (5, 300, 1)],
)
def test_unit_of_a_wide_grid_is_a_part_of_the_highest_limit(
    limit: int, most: int, unit: int
) -> None:
    points = grid(limit, most=most)
    assert points.unit_milli_cpu == unit
    share, high = points.plan.share_cpus, points.plan.most_cpus
    assert points.amounts(share).limit == limit
    limits = [points.amounts(count).limit for count in range(points.plan.least_cpus, high + 1)]
    assert limits == sorted(set(limits))
    assert most - unit < limits[-1] <= most


@pytest.mark.parametrize(
    ("available", "share", "bound", "most"),
    [
        (64_000, 12_000, None, 24_000),
        (64_000, 500, None, 8000),
        (20_000, 12_000, None, 20_000),
        (64_000, 12_000, 30_000, 30_000),
        (20_000, 12_000, 30_000, 20_000),
        (64_000, 12_000, 6000, 6000),
        (64_000, 12_000, 3000, 4000),
    ],
)
def test_most_is_the_bound_of_the_user_or_twice_the_share(
    available: int, share: int, bound: int | None, most: int
) -> None:
    original = CpuAmounts(request=4000, limit=4000)
    assert most_milli_cpu(original, available, share=share, bound=bound) == most


@pytest.mark.parametrize(
    ("available", "most"), [(0, 4000), (5500, 5500), (8000, 8000), (64_000, 8000)]
)
def test_most_is_what_the_node_has_up_to_twice_the_own_limit(available: int, most: int) -> None:
    assert most_milli_cpu(CpuAmounts(request=4000, limit=4000), available) == most
