"""Simulated workloads have the slowdown that was drawn, and samples have the stated noise."""

import random
from dataclasses import replace
from itertools import pairwise
from statistics import mean, stdev

import pytest

from benchmarks.workloads.attainable import attainable
from benchmarks.workloads.draw import KINDS, SimulatedWorkload, fleet
from benchmarks.workloads.law import RunConditions, WorkloadLaw
from benchmarks.workloads.learn import Scenario, Sets, learn
from benchmarks.workloads.samples import RunHistory, SampleNoise, SimulatedSample
from benchmarks.workloads.server import NEIGHBOURS, Load, SimulatedServer
from gputopo.placement.model import PolicyName
from gputopo.topology.model import indices_of

LAW = WorkloadLaw(
    compute_seconds=0.2,
    megabytes=2000,
    overlap=0.4,
    cpus_per_gpu=2,
    fixed_batch=True,
    serial=0,
    on_socket={"team/bert": 0.2},
    on_node={"team/bert": 0.05},
)


def draw(seed: object = 1) -> random.Random:
    return random.Random(str(seed))  # noqa: S311 - a simulation


@pytest.mark.parametrize(("mb_per_s", "seconds"), [(50_000, 0.1), (10_000, 0.16)])
def test_communication_is_hidden_behind_a_part_of_the_computation(
    mb_per_s: float, seconds: float
) -> None:
    assert LAW.seconds(RunConditions(2, mb_per_s, cpus=1000)) == pytest.approx(seconds)


def test_neighbours_multiply_the_seconds() -> None:
    alone = RunConditions(2, 50_000, cpus=1000)
    beside = replace(alone, socket_neighbours=("team/bert",) * 2, node_neighbours=("team/bert",))
    assert LAW.seconds(beside) == pytest.approx(1.2 * 1.2 * 1.05 * LAW.seconds(alone))


def test_a_batch_for_each_gpu_makes_steps_no_shorter() -> None:
    law = replace(LAW, fixed_batch=False, megabytes=0)
    assert law.seconds(RunConditions(4, 1, cpus=1000)) == pytest.approx(0.2)


def test_more_cpus_than_the_demand_raise_throughput_by_less_than_a_tenth() -> None:
    demand = LAW.demand_cpus(2, 50_000)
    slow = LAW.seconds(RunConditions(2, 50_000, demand))
    assert slow / LAW.seconds(RunConditions(2, 50_000, 1e6)) == pytest.approx(1.1)


def test_a_fleet_has_the_slowdowns_that_were_drawn() -> None:
    for (low, high), workload in zip(KINDS, fleet(draw()), strict=True):
        assert low - 1e-6 <= workload.slowdown <= high + 1e-6
        assert set(workload.other_counts) <= {1, 2, 4, 8} - {workload.gpus}


def test_runs_get_good_middling_and_bad_sets_beside_other_jobs() -> None:
    server, chance = SimulatedServer("dgx1-v100"), draw()
    worst, best = server.extremes_mb_per_s(2)
    weakest = server.place(chance, 2, sensitive=False, policy=PolicyName.WEAKEST, load=Load.IDLE)
    assert (weakest.mb_per_s, weakest.socket_jobs, weakest.node_jobs) == (worst, (), ())
    places = [server.place(chance, 2, sensitive=False) for _ in range(200)]
    assert {worst, best} < {place.mb_per_s for place in places}  # and others between
    for place in places:
        used = [place.gpus, *(job.gpus for job in (*place.socket_jobs, *place.node_jobs))]
        assert sum(map(int.bit_count, used)) == sum(each.bit_count() for each in used) <= 8
        assert not place.node_jobs or {index // 4 for index in indices_of(place.gpus)} != {0, 1}


def samples_of(
    workload: SimulatedWorkload, noise: SampleNoise, runs: int, seed: object = 1
) -> list[SimulatedSample]:
    history, chance = RunHistory(workload, noise, draw(seed)), draw(seed)
    return [
        sample
        for number in range(runs)
        for sample in history.run(
            number, workload.gpus, workload.server.place(chance, workload.gpus, sensitive=False)
        )
    ]


def test_samples_have_the_stated_noise() -> None:
    workload = fleet(draw())[0]
    samples = samples_of(workload, SampleNoise(0.15), runs=400)
    errors = [each.log_error for each in samples]
    assert stdev(errors) == pytest.approx((0.15**2 + 0.05**2) ** 0.5, rel=0.05)
    inside = [a - b for (run, a), (same, b) in pairwise(map(error_of, samples)) if run == same]
    assert stdev(inside) == pytest.approx(2**0.5 * 0.15, rel=0.05)
    assert mean(each.outlier for each in samples) == pytest.approx(0.05, abs=0.02)
    assert mean(each.sample.ci_permille for each in samples) == pytest.approx(1.96 * 150, rel=0.1)
    assert {name for each in samples for name in each.sample.node_neighbours} == set(NEIGHBOURS)


def error_of(each: SimulatedSample) -> tuple[int, float]:
    return each.run, each.log_error


def test_samples_without_noise_follow_the_law() -> None:
    workload = fleet(draw())[-1]
    quiet = SampleNoise(0, outliers=0, drift=0)
    for each in samples_of(workload, quiet, runs=20):
        sample = each.sample
        others = list(sample.node_neighbours)
        for name in sample.socket_neighbours:
            others.remove(name)
        conditions = RunConditions(
            sample.gpus,
            sample.effective_mb_per_s or 0,
            (sample.milli_cpu or 0) / 1000,
            tuple(sample.socket_neighbours),
            tuple(others),
        )
        assert sample.steps_per_second == pytest.approx(1 / workload.law.seconds(conditions), 1e-3)


def test_the_bound_contains_the_truth_in_95_of_100_cases() -> None:
    inside = []
    for seed in range(10):
        for number, workload in enumerate(fleet(draw(seed))):
            noise = SampleNoise(0.15)
            samples = samples_of(workload, noise, runs=8, seed=(seed, number))
            fact = attainable(workload, noise, samples)
            if fact is not None:
                truth = 100 * workload.slowdown
                inside.append(fact.low_percent - 0.5 <= truth <= fact.high_percent + 0.5)
    assert 0.9 <= mean(inside) <= 0.99


def test_runs_on_purpose_come_first_and_have_the_best_and_the_worst_set() -> None:
    workload = fleet(draw())[-1]
    scenario = Scenario(SampleNoise(0.05), Sets.PROFILED, other_counts=False)
    (checkpoint,) = learn(workload, scenario, draw(), [2])
    worst, best = workload.server.extremes_mb_per_s(workload.gpus)
    found = [each.sample.effective_mb_per_s or 0 for each in checkpoint.samples]
    assert (found[-1], len(set(found))) == (worst, 2)
    assert found[0] >= 0.9 * best
