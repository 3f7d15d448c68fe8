"""Running pods of one node reach what the mechanisms of the simulator promise for its jobs.

The jobs are the models of Synergy's authors: 8 jobs with one GPU each, on a node with 24 CPUs.
"""

from functools import cache
from random import Random
from statistics import mean

import pytest

from gputopo.api.tuning import Amounts
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sensitivity.planner import ProfilingPlan, interpolated, next_cpus
from gputopo.sizing.marginal import marginal
from gputopo.sizing.model import ServerCapacity, SizingMechanism, SizingRequest
from gputopo.sizing.tune import tune
from gputopo.tuning.allocate import allocate
from gputopo.tuning.model import TunedNode
from gputopo.tuning.sized import SizedPod, least_amounts, minus, total
from gputopo.tuning.targets import targets
from support.sizing import total_value
from support.synergy import matrices
from support.tuning.nodes import facts, tuned, tuned_node

GB = 10**9
NODE = Amounts(24_000, 500 * GB)
SERVER = ServerCapacity("node", 8, 24, 500)
SHARE = Amounts(3000, 62_500_000_000)
INSTANCES = 40


def mix(number: int) -> list[str]:
    """Return the models of 8 jobs."""
    return Random(number).choices(sorted(matrices()), k=8)  # noqa: S311 (a fixed sequence)


def sized(uid: str, matrix: SensitivityMatrix) -> SizedPod:
    floor = Amounts(1, 1)
    least = least_amounts(matrix, SHARE, floor)
    return SizedPod(uid, 1, SHARE, floor, SHARE, least, NODE, matrix)


@pytest.mark.parametrize("mechanism", [marginal, tune])
def test_pods_gain_as_much_as_the_jobs_of_the_simulator(mechanism: SizingMechanism) -> None:
    live, simulated = [], []
    for number in range(INSTANCES):
        pods = [sized(f"{each}", matrices()[name]) for each, name in enumerate(mix(number))]
        spare = minus(NODE, total(pod.least for pod in pods))
        chosen = allocate(spare, pods, mechanism)
        assert min(minus(NODE, total(chosen.values()))) >= 0
        live.append(sum(pod.value(chosen[pod.uid]) for pod in pods))
        requests = [
            SizingRequest(pod.uid, matrices()[name])
            for pod, name in zip(pods, mix(number), strict=True)
        ]
        simulated.append(total_value([SERVER], requests, mechanism([SERVER], requests)))
    assert mean(live) >= 0.995 * mean(simulated)


@cache
def curve(model: str) -> dict[int, float]:
    """Return the true steps per second of a model for 1 to 24 CPUs."""
    matrix = matrices()[model]
    return interpolated(
        {round(cpus): row[-1] for cpus, row in zip(matrix.cpus, matrix.throughput, strict=True)}
    )


def true_rate(model: str, milli_cpu: int) -> float:
    low, part = divmod(milli_cpu, 1000)
    rates = {0: 0.0, **curve(model)}
    return rates[low] + part / 1000 * (rates.get(low + 1, rates[low]) - rates[low])


@cache
def measured(model: str) -> dict[int, float]:
    """Return what the planner measures of a model, by CPU limit."""
    plan = ProfilingPlan(most_cpus=24, share_cpus=3)
    points: dict[int, float] = {}
    while (cpus := next_cpus(plan, points)) is not None:
        points[cpus] = curve(model)[cpus]
    return {cpus * 1000: rate for cpus, rate in points.items()}


def node(number: int) -> TunedNode:
    pods = [
        tuned(f"{each}", 500, GB, facts=facts(measured(model)))
        for each, model in enumerate(mix(number))
    ]
    return tuned_node(*pods, milli_cpu=24_000, gpus=8)


def test_measured_curves_give_the_predicted_gain_and_no_slower_job() -> None:
    predicted, true = [], []
    for number in range(INSTANCES):
        for uid, target in targets(node(number)).items():
            model = mix(number)[int(uid)]
            predicted.append(target.value)
            true.append(true_rate(model, target.amounts.milli_cpu) / true_rate(model, 3000))
    assert min(true) >= 0.98
    assert mean(true) >= 1.15
    assert mean(predicted) == pytest.approx(mean(true), rel=0.03)
