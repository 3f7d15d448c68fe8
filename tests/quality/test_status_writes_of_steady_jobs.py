"""How often the rates of steady jobs change the status of a node (decision 10), in virtual time."""

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from gputopo.api.measuring import MeasuringRequest
from gputopo.throughput.message import StepMessage
from gputopo.throughput.phases import DEFAULT_RULES
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.measure.container_meter import ContainerMeter
from gputopo_deviceplugin.measure.containers import MeasuredContainer
from gputopo_deviceplugin.measure.records import next_measurements, to_measurement
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import GpuContainer
from gputopo_kube.podruntime import PodRuntime
from gputopo_kube.pods import PodView

if TYPE_CHECKING:
    from gputopo.api.profile import Measurement

_JOBS = 8
_MINUTES = 60
_PUBLISH_SECONDS = 30
_STEPS = 10  # in about a second


@pytest.mark.parametrize(("noise", "most_per_minute"), [(0.01, 0.1), (0.05, 0.1), (0.15, 0.5)])
def test_rates_of_steady_jobs_rarely_change_the_status_of_their_node(
    noise: float, most_per_minute: float
) -> None:
    rng = random.Random(1)  # noqa: S311 - repeatable on purpose
    jobs = [_messages(rng, noise) for _ in range(_JOBS)]
    meters = [ContainerMeter(DEFAULT_RULES) for _ in range(_JOBS)]
    containers = [_container(number) for number in range(_JOBS)]
    published: tuple[Measurement, ...] = ()
    changes = []
    for second in range(_MINUTES * 60):
        for job, meter in zip(jobs, meters, strict=True):
            meter.add(next(job), second)
        if second % _PUBLISH_SECONDS == 0:
            current = [
                to_measurement(container, meter.current(second))
                for container, meter in zip(containers, meters, strict=True)
            ]
            before, published = published, next_measurements(published, current)
            changes.append(published != before)
    started = 5 * 60 // _PUBLISH_SECONDS
    assert len(published) == _JOBS
    assert all(each.micro_steps_per_second for each in published)
    assert sum(changes[started:]) / (_MINUTES - 5) <= most_per_minute


def _container(number: int) -> MeasuredContainer:
    pod = PodView(
        f"uid-{number}",
        ObjectKey("team", f"job-{number}"),
        containers=(GpuContainer("main", 1),),
        runtime=PodRuntime("10.0.0.7", {}),
    )
    return MeasuredContainer(pod, "main", frozenset({GpuUuid(f"GPU-{number}")}), MeasuringRequest())


def _messages(rng: random.Random, noise: float) -> Iterator[StepMessage]:
    """Yield the counts of a program that makes a step in 0.1 s, with noise in each step."""
    at, steps = rng.random(), 0
    while True:
        yield StepMessage("run", steps, at)
        at += sum((1 + rng.gauss(0, noise)) / _STEPS for _ in range(_STEPS))
        steps += _STEPS
