"""The sensitivity matrix and the saturating demand of a job."""

import math
from typing import Any

import pytest

from gputopo.sensitivity.demand import Demand, saturating_demand
from gputopo.sensitivity.matrix import SensitivityMatrix

MATRIX = SensitivityMatrix(
    gpus=1,
    cpus=(1, 3, 12),
    memory_gb=(20, 62.5),
    throughput=((1, 3), (1, 10), (1, 29)),
    measured_gpus=1,
)


@pytest.mark.parametrize(
    ("cpus", "memory_gb", "throughput"),
    [
        (1, 20, 1),
        (3, 62.5, 10),
        (2.999, 62.5, 3),
        (11.9, 500, 10),
        (500, 62.4, 1),
        (500, 500, 29),
        (0.9, 500, 0),
        (12, 19, 0),
    ],
)
def test_throughput_is_that_of_the_largest_point_within_the_share(
    cpus: float, memory_gb: float, throughput: float
) -> None:
    assert MATRIX.at(cpus, memory_gb) == throughput


def test_a_share_slightly_below_a_point_reaches_it() -> None:
    thirds = MATRIX.scaled_to(3)
    assert thirds.at(math.nextafter(9, 0), math.nextafter(187.5, 0)) == 10


def test_the_best_throughput_is_that_of_the_largest_point() -> None:
    assert MATRIX.best == 29


def test_scaling_changes_the_axes_and_is_marked() -> None:
    scaled = MATRIX.scaled_to(4)
    assert (scaled.cpus, scaled.memory_gb) == ((4, 12, 48), (80, 250))
    assert scaled.throughput == MATRIX.throughput
    assert (scaled.gpus, scaled.measured_gpus) == (4, 1)
    assert [matrix.is_scaled for matrix in (MATRIX, scaled)] == [False, True]
    assert scaled.scaled_to(1) == MATRIX


def test_raw_measurements_become_non_decreasing() -> None:
    matrix = SensitivityMatrix.rising(2, (1, 2), (20, 40, 60), ((3, 2, 5), (4, 6, 1)))
    assert (matrix.gpus, matrix.measured_gpus) == (2, 2)
    assert matrix.throughput == ((3, 3, 5), (4, 6, 6))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"gpus": 0}, "gpus: 0 is not at least 1"),
        ({"measured_gpus": 0}, "measured_gpus: 0 is not at least 1"),
        ({"cpus": ()}, "cpus: the list is empty"),
        ({"cpus": (0, 3, 12)}, "cpus: 0 is not a positive number"),
        ({"memory_gb": (20, math.inf)}, "memory_gb: inf is not a positive number"),
        ({"memory_gb": (62.5, 62.5)}, "memory_gb: 62.5 follows 62.5; values must ascend"),
        (
            {"throughput": ((1, 3), (1, 10))},
            "throughput: row lengths are [2, 2]; expected 3 rows with 2",
        ),
        (
            {"throughput": ((1,), (1,), (1,))},
            "throughput: row lengths are [1, 1, 1]; expected 3 rows",
        ),
        ({"throughput": ((1, 3), (1, -1), (1, 29))}, "throughput: -1 is not a finite number"),
        ({"throughput": ((1, math.nan), (1, 1), (1, 1))}, "throughput: nan is not a finite"),
        (
            {"throughput": ((1, 3), (1, 2), (1, 29))},
            "throughput: 2 with more CPUs or memory is below 3",
        ),
        (
            {"throughput": ((4, 3), (4, 5), (4, 29))},
            "throughput: 3 with more CPUs or memory is below 4",
        ),
        ({"throughput": ((0, 0), (0, 0), (0, 0))}, "throughput: all values are 0"),
    ],
)
def test_an_invalid_matrix_is_rejected_with_field_and_value(
    changes: dict[str, Any], says: str
) -> None:
    fields: dict[str, Any] = {
        "gpus": 1,
        "cpus": (1, 3, 12),
        "memory_gb": (20, 62.5),
        "throughput": ((1, 3), (1, 10), (1, 29)),
        "measured_gpus": 1,
    }
    with pytest.raises(ValueError) as rejected:  # noqa: PT011 - the text is compared below
        SensitivityMatrix(**(fields | changes))
    assert str(rejected.value).startswith(says)


def test_raw_measurements_of_the_wrong_shape_are_rejected() -> None:
    with pytest.raises(ValueError, match="throughput: row lengths are"):
        SensitivityMatrix.rising(1, (1, 2), (20,), ((3,), (4, 6)))


def test_scaling_to_0_gpus_is_rejected() -> None:
    with pytest.raises(ValueError, match="gpus: 0 is not at least 1"):
        MATRIX.scaled_to(0)


def test_demand_is_the_least_cpus_then_the_least_memory_that_saturate() -> None:
    assert saturating_demand(MATRIX) == Demand(12, 62.5)
