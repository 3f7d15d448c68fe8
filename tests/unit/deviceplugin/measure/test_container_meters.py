"""The current rate of a container belongs to its current CPU and memory limits."""

from dataclasses import replace

import pytest

from gputopo.throughput.message import StepMessage
from gputopo.throughput.meter import RateState
from gputopo.throughput.phases import DEFAULT_RULES
from gputopo_deviceplugin.measure.container_meter import ContainerMeter
from gputopo_deviceplugin.measure.environment import Environment
from gputopo_kube.podruntime import ContainerRuntime

SLOW = Environment(
    profile="bert",
    source="SDK",
    gpus=frozenset(),
    gpu_model="Tesla V100",
    bandwidth=None,
    runtime=ContainerRuntime(milli_cpu=25, memory_bytes=2**30),
    on_socket=(),
    on_node=(),
)


def steady(environment: Environment) -> ContainerMeter:
    """Return the meter of a container that made 10 steps per second for a minute."""
    meter = ContainerMeter(DEFAULT_RULES)
    meter.enter(None, 0)
    meter.enter(environment, 0)
    for at in range(61):
        meter.add(StepMessage("run", 10 * at, float(at)), at)
    assert meter.current(60).state is RateState.STEADY
    return meter


@pytest.mark.parametrize(
    "limits",
    [ContainerRuntime(milli_cpu=100, memory_bytes=2**30), ContainerRuntime(25, 2**31)],
    ids=["CPU", "memory"],
)
def test_rate_with_the_former_limits_is_not_the_current_one(limits: ContainerRuntime) -> None:
    meter = steady(SLOW)
    meter.enter(replace(SLOW, runtime=limits), 61)
    assert meter.current(61).state is RateState.WARM_UP


def test_rate_continues_while_the_environment_is_unknown_or_only_neighbours_change() -> None:
    meter = steady(SLOW)
    meter.enter(None, 61)
    meter.enter(SLOW, 62)
    meter.enter(replace(SLOW, profile="gpt"), 63)
    assert meter.current(63).state is RateState.STEADY
