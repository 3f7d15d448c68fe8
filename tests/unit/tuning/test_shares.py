"""The share of a GPU fits beside the floors of all pods."""

import pytest

from gputopo.tuning.shares import Bounds, share_per_gpu


@pytest.mark.parametrize(
    ("capacity", "gpus", "pods", "expected"),
    [
        pytest.param(8000, 4, [(1, 500, 9000)] * 4, 2000, id="equal pods"),
        pytest.param(8000, 4, [(1, 500, 9000)], 2000, id="idle GPUs count"),
        pytest.param(8000, 4, [(1, 5000, 9000)] + [(1, 0, 9000)] * 3, 1000, id="high floor"),
        pytest.param(8000, 4, [(1, 5000, 9000)] + [(1, 0, 600)] * 3, 2000, id="low maximum"),
        pytest.param(8000, 4, [(1, 9000, 9000)], 0, id="floor above the capacity"),
        pytest.param(-1, 4, [(1, 0, 9000)], 0, id="no capacity"),
        pytest.param(8000, 1, [(4, 0, 9000)], 2000, id="unhealthy GPUs in use"),
        pytest.param(8000, 0, [], 8000, id="no GPU"),
        pytest.param(1000, 3, [(1, 0, 9000)] * 3, 333, id="rounded down"),
    ],
)
def test_share_of_one_gpu(
    capacity: int, gpus: int, pods: list[tuple[int, int, int]], expected: int
) -> None:
    assert share_per_gpu(capacity, gpus, [Bounds(*pod) for pod in pods]) == expected


def test_share_is_a_multiple_of_the_unit() -> None:
    assert share_per_gpu(8000, 3, [Bounds(1, 0, 9000)], unit=1000) == 2000


def test_pod_is_guaranteed_its_share_within_its_bounds() -> None:
    assert Bounds(2, 500, 9000).guaranteed(1000) == 2000
    assert Bounds(2, 3000, 9000).guaranteed(1000) == 3000
    assert Bounds(2, 500, 1500).guaranteed(1000) == 1500
