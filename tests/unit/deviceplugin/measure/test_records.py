from dataclasses import replace
from typing import Any

import pytest

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.profile import MAX_SAMPLES, Measurement, NodeSample
from gputopo.throughput.meter import CurrentRate, RateState
from gputopo.throughput.phases import SteadyRate
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.measure.container_meter import FoundSample
from gputopo_deviceplugin.measure.containers import MeasuredContainer
from gputopo_deviceplugin.measure.environment import Environment, LinkBandwidth, Neighbour
from gputopo_deviceplugin.measure.records import (
    merge_samples,
    next_measurements,
    to_measurement,
    to_sample,
)
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import GpuContainer
from gputopo_kube.podruntime import ContainerRuntime, PodRuntime
from gputopo_kube.pods import PodView

RUNTIME = ContainerRuntime(2500, 2**30, "sha256:1a2b")
POD = PodView(
    "uid-a",
    ObjectKey("team", "a"),
    containers=(GpuContainer("main", 2),),
    runtime=PodRuntime("10.0.0.7", {"main": RUNTIME}),
)
GPUS = frozenset((GpuUuid("GPU-0"), GpuUuid("GPU-1")))
ENVIRONMENT = Environment(
    profile="bert",
    source="SDK",
    gpus=GPUS,
    gpu_model="H100",
    bandwidth=LinkBandwidth("Ring", 40, worst=10, best=50),
    runtime=RUNTIME,
    on_socket=(Neighbour("team/x", "uid-b"),),
    on_node=(Neighbour("team/x", "uid-b"), Neighbour("team/x", "uid-c")),
)


def container(**request: Any) -> MeasuredContainer:
    return MeasuredContainer(POD, "main", GPUS, MeasuringRequest(**request))


def sample(time: str = "2026-01-01T00:00:00Z", **changes: Any) -> NodeSample | None:
    rate = SteadyRate(changes.pop("rate", 12.5), ci_permille=20, seconds=60.4)
    environment = replace(ENVIRONMENT, **changes)
    return to_sample(container(profile="other"), FoundSample(environment, rate), time)


def present(time: str) -> NodeSample:
    found = sample(time)
    assert found is not None
    return found


def test_a_sample_has_the_environment_of_its_phase() -> None:
    found = sample()
    assert found is not None
    assert found.to_json() == {
        "namespace": "team",
        "profile": "bert",
        "podUID": "uid-a",
        "container": "main",
        "time": "2026-01-01T00:00:00Z",
        "seconds": 60,
        "source": "SDK",
        "microStepsPerSecond": 12_500_000,
        "ciPermille": 20,
        "gpuModel": "H100",
        "gpus": 2,
        "imageDigest": "sha256:1a2b",
        "model": "physical",
        "pattern": "Ring",
        "effectiveMBps": 40,
        "bestMBps": 50,
        "worstMBps": 10,
        "milliCPU": 2500,
        "memoryBytes": 2**30,
        "socketNeighbours": ["team/x"],
        "nodeNeighbours": ["team/x", "team/x"],
    }


def test_a_sample_without_bandwidths_names_no_model() -> None:
    found = sample(bandwidth=None)
    assert found is not None
    assert (found.model, found.effective_mb_per_s, found.best_mb_per_s) == (None, None, None)


def test_long_values_are_cut_to_the_limits_of_the_api() -> None:
    neighbours = tuple(Neighbour("team/x", f"uid-{number:02}") for number in range(70))
    runtime = replace(RUNTIME, image_digest="d" * 300)
    found = sample(gpu_model="m" * 200, runtime=runtime, on_socket=neighbours, on_node=neighbours)
    assert found is not None
    assert (len(found.gpu_model), len(found.image_digest)) == (128, 256)
    assert (len(found.socket_neighbours), len(found.node_neighbours)) == (64, 64)


def test_a_status_full_of_samples_fits_into_etcd() -> None:
    def beside(count: int) -> NodeSample | None:
        longest = tuple(Neighbour(f"{'n' * 63}/{'p' * 253}", f"{each}") for each in range(count))
        return sample(on_socket=longest, on_node=longest)

    largest = [found for count in range(64) if (found := beside(count)) is not None][-1]
    assert len(largest.node_neighbours) >= 16
    assert len(largest.model_dump_json()) * MAX_SAMPLES < 1.2e6
    assert beside(len(largest.node_neighbours) + 1) is None


def test_without_a_profile_an_environment_or_a_rate_there_is_no_sample() -> None:
    assert sample(profile=None) is None
    assert sample(rate=1e-7) is None
    environment: Environment | None = None
    unknown = FoundSample(environment, SteadyRate(12.5, 20, 60.0))
    assert to_sample(container(profile="bert"), unknown, "2026-01-01T00:00:00Z") is None


def test_a_measurement_shows_a_rate_only_while_it_is_steady() -> None:
    steady = to_measurement(container(profile="bert"), CurrentRate(RateState.STEADY, 12.5, 20))
    assert steady.to_json() == {
        "namespace": "team",
        "pod": "a",
        "podUID": "uid-a",
        "container": "main",
        "gpus": 2,
        "source": "SDK",
        "state": "Steady",
        "profile": "bert",
        "microStepsPerSecond": 12_500_000,
        "ciPermille": 20,
        "milliCPU": 2500,
        "profiling": [],
    }
    early = to_measurement(container(), CurrentRate(RateState.WARM_UP, 12.5))
    assert (early.state, early.micro_steps_per_second, early.ci_permille) == ("WarmUp", None, None)


@pytest.mark.parametrize("state", RateState)
def test_every_state_of_the_meter_is_a_state_of_the_api(state: RateState) -> None:
    assert to_measurement(container(), CurrentRate(state)).state == state.value


def test_a_measurement_shows_what_to_measure_on_purpose() -> None:
    rate = CurrentRate(RateState.NO_DATA)
    found = to_measurement(container(targets=("CPUs",), profiling_seconds=300), rate)
    assert (found.profiling, found.profiling_seconds) == (["CPUs"], 300)
    unknown = replace(container(), pod=replace(POD, runtime=PodRuntime()))
    assert to_measurement(unknown, rate).milli_cpu is None


def test_samples_stay_in_the_order_of_their_arrival() -> None:
    first, second, third = (present(f"2026-01-01T00:00:0{second}Z") for second in (5, 9, 1))
    assert merge_samples([first, second], [second, third]) == [first, second, third]


def test_the_newest_samples_stay() -> None:
    samples = [present(f"2026-01-01T00:00:{second:02}Z") for second in range(40)]
    assert merge_samples(samples[:30], samples[20:]) == samples[8:]


def steady(rate: float, ci_permille: int = 20, **request: Any) -> Measurement:
    current = CurrentRate(RateState.STEADY, rate, ci_permille)
    return to_measurement(container(**request), current)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (steady(12.5), steady(12.7, 18)),
        (steady(12.5), steady(12.9)),
        (steady(12.5, 20), steady(12.5, 30)),
    ],
)
def test_a_rate_that_differs_only_by_noise_is_not_published_again(
    before: Measurement, now: Measurement
) -> None:
    assert next_measurements([before], [now]) == (before,)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (steady(12.5), steady(13.1)),
        (steady(12.5, 20), steady(12.5, 9)),
        (steady(12.5), steady(12.5, profile="bert")),
        (steady(12.5), to_measurement(container(), CurrentRate(RateState.STALLED))),
        (to_measurement(container(), CurrentRate(RateState.NO_DATA)), steady(12.5)),
    ],
)
def test_any_other_change_is_published(before: Measurement, now: Measurement) -> None:
    assert next_measurements([before], [now]) == (now,)


def test_measurements_come_and_go() -> None:
    assert next_measurements([], [steady(12.5)]) == (steady(12.5),)
    assert next_measurements([steady(12.5)], []) == ()
