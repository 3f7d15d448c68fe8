"""Facts become a matrix that rises, has the measured points, and includes the data set."""

import math
from dataclasses import replace
from typing import Any

import pytest

from gputopo.api.profile import CpuFact, CpuPoint, Sample, WorkloadFacts
from gputopo.api.quantity import parse_bytes
from gputopo.api.tuning import Amounts, ResourcesMode
from gputopo.profiles.cpus import cpu_facts
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.tuning.matrix import matrix_of_fact, sensitivity_of
from gputopo.tuning.model import ContainerAmounts, Dataset, TunedPod
from gputopo.tuning.storage import storage_part
from support.tuning.nodes import GIB, facts, tuned


def matrix_of(pod: TunedPod, *also: Amounts) -> SensitivityMatrix:
    matrix = sensitivity_of(pod, also)
    assert matrix is not None
    return matrix


def rates(pod: TunedPod, *cpus: float) -> list[float]:
    matrix = matrix_of(pod, *(Amounts(round(count * 1000), GIB) for count in cpus))
    return [round(matrix.at(count, 1), 6) for count in cpus]


def test_throughput_between_two_points_is_interpolated() -> None:
    pod = tuned("a", facts=facts({1000: 10, 3000: 30, 4000: 35}))
    assert rates(pod, 1, 2, 2.5, 3, 3.5, 4) == [10, 20, 25, 30, 32.5, 35]


def test_throughput_falls_to_0_below_the_points_and_is_constant_above_them() -> None:
    pod = tuned("a", facts=facts({1000: 10, 2000: 15}))
    assert rates(pod, 0.5, 1, 2, 9) == [5, 10, 15, 15]
    assert matrix_of(pod).at(0.5, 1) == 0


def test_throughput_that_falls_with_more_cpus_is_raised() -> None:
    pod = tuned("a", facts=facts({1000: 10, 2000: 8, 3000: 12}))
    assert rates(pod, 1, 2, 3) == [10, 10, 12]


def test_rises_below_2_percent_are_ignored_until_their_sum_reaches_2_percent() -> None:
    pod = tuned("a", facts=facts({1000: 10, 2000: 10.15, 3000: 10.3, 4000: 10.4}))
    assert rates(pod, 1, 2, 3, 4) == [10, 10, 10.3, 10.3]


def test_order_of_the_points_does_not_matter() -> None:
    points = {1000: 10.0, 2000: 20.0, 4000: 30.0}
    ascending = facts(points)
    descending = facts(dict(reversed(points.items())))
    assert sensitivity_of(tuned("a", facts=ascending)) == sensitivity_of(
        tuned("a", facts=descending)
    )


def test_matrix_has_few_cells_on_round_amounts_and_all_measured_points() -> None:
    matrix = matrix_of(tuned("a", facts=facts({1010: 1, 5000: 5, 97130: 90})))
    limits = [round(cpus * 1000) for cpus in matrix.cpus]
    assert limits[:3] == [1010, 2000, 3000]
    assert limits[-2:] == [97000, 97130]
    assert len(limits) <= 103


def test_interval_of_1000_cpus_has_steps_of_20_cpus() -> None:
    matrix = matrix_of(tuned("a", facts=facts({1000: 1, 1_000_000: 5})))
    assert matrix.cpus[:3] == (1, 20, 40)


@pytest.mark.parametrize("limit", [10**8, 10**9, 10**10, 2**53 - 1, 2**63 - 1])
def test_matrix_of_a_very_high_limit_has_few_cells(limit: int) -> None:
    found = facts({1000: 1, limit: 2})
    for matrix in (matrix_of_fact(found.cpus[0]), sensitivity_of(tuned("a", facts=found))):
        assert matrix is not None
        assert len(matrix.cpus) <= 103
        assert matrix.cpus[-1] == 10_000


def test_very_high_limits_in_samples_make_a_matrix_with_few_cells() -> None:
    samples = [
        Sample(
            pod_uid=f"{limit}-{pod}",
            container="main",
            time=f"2026-01-01T00:0{pod}:{second:02d}Z",
            seconds=60,
            source="SDK",
            micro_steps_per_second=limit * 1000,
            ci_permille=3,
            gpu_model="H200",
            gpus=1,
            milli_cpu=limit,
        )
        for limit in (1000, 10**8)
        for pod in range(3)
        for second in range(3)
    ]
    [fact] = cpu_facts(samples)
    matrix = matrix_of_fact(fact)
    assert matrix is not None
    assert len(matrix.cpus) <= 103


def test_matrix_ends_at_the_cpus_of_the_node_on_the_measured_curve() -> None:
    pod = tuned("a", facts=facts({1000: 10, 2000: 20, 2**53: 30}))
    matrix = sensitivity_of(pod, most=Amounts(3000, GIB))
    assert matrix is not None
    assert matrix.cpus[-1] == 3
    assert len(matrix.cpus) <= 103
    assert [matrix.at(cpus, 1) for cpus in (1, 1.5, 2, 3)] == [10, 15, 20, pytest.approx(20)]


def test_limits_above_the_cpus_of_the_node_give_the_line_to_0() -> None:
    pod = tuned("a", facts=facts({4000: 40, 8000: 50}))
    matrix = sensitivity_of(pod, [Amounts(1000, GIB)], most=Amounts(2000, GIB))
    assert matrix is not None
    assert [matrix.at(cpus, 1) for cpus in (1, 2, 9)] == [10, 20, 20]


def test_facts_without_steps_within_the_cpus_of_the_node_are_not_used() -> None:
    pod = tuned("a", facts=facts({1000: 0, 2000: 0, 8000: 50}))
    assert sensitivity_of(pod, most=Amounts(2000, GIB)) is None


@pytest.mark.parametrize(
    "points",
    [{}, {1000: 10}, {1000: 0, 2000: 0}],
    ids=["none", "one limit", "no steps"],
)
def test_facts_without_two_limits_or_without_steps_are_not_used(points: dict[int, float]) -> None:
    assert sensitivity_of(tuned("a", facts=facts(points))) is None


def test_rates_that_are_not_numbers_are_ignored() -> None:
    rates_by_limit: dict[int, Any] = {1000: 10e6, 2000: math.nan, 3000: 30e6, 4000: math.inf}
    points = [
        CpuPoint.model_construct(milli_cpu=limit, micro_steps_per_second=rate, ci_permille=0)
        for limit, rate in rates_by_limit.items()
    ]
    fact = CpuFact.model_construct(gpus=1, points=points)
    pod = tuned("a", facts=WorkloadFacts.model_construct(gpu_model="H200", cpus=[fact]))
    assert rates(pod, 1, 2, 3, 4) == [10, 20, 30, 30]


def test_facts_of_another_number_of_gpus_are_not_used() -> None:
    two = facts({1000: 10, 2000: 20}, gpus=2)
    assert sensitivity_of(tuned("a", facts=two)) is None
    assert matrix_of(tuned("a", facts=two, gpus=2)).gpus == 2


def test_proportional_pods_and_pods_without_facts_have_no_matrix() -> None:
    known = facts({1000: 10, 2000: 20})
    assert sensitivity_of(tuned("a", mode=ResourcesMode.PROPORTIONAL, facts=known)) is None
    assert sensitivity_of(tuned("a")) is None


def test_amount_of_0_cpus_has_no_cell() -> None:
    pod = tuned("a", facts=facts({1000: 10, 2000: 20}))
    assert matrix_of(pod, Amounts(0, 0)).cpus[0] == 1


DATA = Dataset(
    size=100 * 10**9, storage_mb_per_s=500, memory_floor=10 * 10**9, bytes_per_step=50 * 10**6
)
WITH_DATA = tuned("a", memory=20 * 10**9, facts=facts({1000: 10, 4000: 40}), dataset=DATA)


def test_storage_limits_the_throughput_with_little_memory() -> None:
    # 60 GB cache half of the data set, so a step reads 25 MB from storage: 20 steps per second.
    matrix = matrix_of(WITH_DATA, Amounts(4000, 60 * 10**9))
    assert matrix.at(4, 60) == pytest.approx(20)
    assert matrix.at(1, 60) == pytest.approx(10)
    assert matrix.at(4, 9) == 0
    assert matrix.at(4, 120) == pytest.approx(40)


def test_part_of_the_storage_limits_the_throughput_further() -> None:
    matrix = sensitivity_of(WITH_DATA, [Amounts(4000, 60 * 10**9)], storage=0.25)
    assert matrix is not None
    assert matrix.at(4, 60) == pytest.approx(5)
    assert matrix.at(4, 120) == pytest.approx(40)


def test_storage_is_divided_by_the_gpus_of_the_pods_with_data() -> None:
    large = replace(WITH_DATA, uid="b", gpus=3)
    pods = [WITH_DATA, large, tuned("c", gpus=4)]
    assert [storage_part(pod, pods) for pod in (WITH_DATA, large)] == [0.25, 0.75]
    assert storage_part(WITH_DATA, [WITH_DATA]) == 1
    assert storage_part(pods[2], pods) == 1
    assert storage_part(pods[2], [pods[2]]) == 1


def test_each_gpu_reads_its_own_part_of_a_step() -> None:
    pod = replace(WITH_DATA, gpus=2, facts=facts({1000: 10, 4000: 40}, gpus=2))
    assert matrix_of(pod, Amounts(4000, 60 * 10**9)).at(4, 60) == pytest.approx(10)


def test_amounts_of_memory_are_whole_mebibytes_from_no_cache_to_all_data() -> None:
    levels = [round(size * 1e9) for size in matrix_of(WITH_DATA).memory_gb]
    assert all(level % 2**20 == 0 for level in levels)
    assert 0 <= levels[0] - 10 * 10**9 < 2**20
    assert 0 <= levels[-1] - 110 * 10**9 < 2**20
    assert len(levels) == 17


def test_amounts_of_memory_end_at_the_memory_of_the_node() -> None:
    matrix = sensitivity_of(WITH_DATA, most=Amounts(4000, 60 * 10**9))
    assert matrix is not None
    assert matrix.memory_gb[-1] == 60
    assert matrix.best == pytest.approx(20)


@pytest.mark.parametrize(
    ("floor", "size"),
    [
        ("99999999999999999999999Gi", "1Gi"),
        ("1Gi", "99999999999999999999999999999Ti"),
        ("9999999Ti", "1"),
        ("1", "1"),
        ("0", "1Gi"),
    ],
)
def test_very_large_or_small_data_sets_make_a_matrix(floor: str, size: str) -> None:
    dataset = replace(
        DATA, memory_floor=parse_bytes(floor, "floor"), size=parse_bytes(size, "size")
    )
    pod = replace(WITH_DATA, dataset=dataset)
    for most in (Amounts(16000, 64 * GIB), Amounts(2**63, 2**63)):
        matrix = sensitivity_of(pod, [Amounts(2000, 2 * GIB)], most=most)
        assert matrix is not None
        assert len(matrix.memory_gb) <= 19


def test_data_set_is_not_used_if_the_processes_need_more_than_the_node_has() -> None:
    pod = replace(WITH_DATA, dataset=replace(DATA, memory_floor=65 * GIB))
    assert len(matrix_of(pod).memory_gb) == 17
    matrix = sensitivity_of(pod, most=Amounts(8000, 64 * GIB))
    assert matrix == sensitivity_of(replace(pod, dataset=None), most=Amounts(8000, 64 * GIB))


@pytest.mark.parametrize(
    "pod",
    [
        replace(WITH_DATA, spec=ContainerAmounts(Amounts(1000, 20 * GIB), 1000, None)),
        replace(WITH_DATA, spec=ContainerAmounts(Amounts(1000, 0), 1000, 20 * GIB)),
        replace(WITH_DATA, dataset=replace(DATA, bytes_per_step=0)),
    ],
    ids=["no memory limit", "no memory request", "no reads"],
)
def test_matrix_has_one_column_if_the_memory_is_not_tuned(pod: TunedPod) -> None:
    assert len(matrix_of(pod).memory_gb) == 1
