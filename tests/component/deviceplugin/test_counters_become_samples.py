"""Counters of a container become the traffic and the load of its samples."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.profile import NodeSample, SampleLoad
from gputopo.throughput.message import StepMessage
from gputopo.throughput.phases import DEFAULT_RULES
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.measure.container_meter import ContainerMeter, FoundSample
from gputopo_deviceplugin.measure.containers import MeasuredContainer
from gputopo_deviceplugin.measure.environment import Environment
from gputopo_deviceplugin.measure.records import to_sample
from gputopo_kube.document import ObjectKey
from gputopo_kube.podruntime import ContainerRuntime
from gputopo_kube.pods import PodView
from support.agent.counters import CounterNode

GB = 10**9
STEPS_PER_SECOND = 4
ENVIRONMENT = Environment(
    profile="bert",
    source="SDK",
    gpus=frozenset(),
    gpu_model="Tesla V100",
    bandwidth=None,
    runtime=ContainerRuntime(),
    on_socket=(),
    on_node=(),
)


class Job:
    """A container that trains on GPUs of a simulated node; its measurement."""

    def __init__(self, node: CounterNode, gpus: list[int]) -> None:
        self.node = node
        self.gpus = frozenset(GpuUuid(node.uuids[each]) for each in gpus)
        self.environment: Environment | None = replace(ENVIRONMENT, gpus=self.gpus)
        self.meter = ContainerMeter(DEFAULT_RULES)
        self.seconds = 0
        self.steps = 0
        self.samples: list[NodeSample] = []
        self._container = MeasuredContainer(
            PodView("uid-a", ObjectKey("team", "a")), "main", self.gpus, MeasuringRequest()
        )

    def train(self, seconds: int) -> None:
        """Train, and read the counters once a second, as the agent does."""
        for _ in range(seconds):
            self.node.counters.wait(1)
            self.seconds += 1
            self.steps += STEPS_PER_SECOND
            self._store(self.meter.enter(self.environment, self.seconds))
            message = StepMessage("run", self.steps, float(self.seconds))
            self._store(self.meter.add(message, self.seconds))
            self.meter.current(self.seconds)
            self.meter.add_counters(self.node.read_now(), self.gpus, self.node.hardware)

    def end(self) -> None:
        self._store(self.meter.finish(self.seconds))

    def _store(self, found: FoundSample | None) -> None:
        if found is not None:
            sample = to_sample(self._container, found, "2026-01-01T00:00:00Z")
            assert sample is not None
            self.samples.append(sample)


@pytest.fixture
def run(
    tmp_path: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Job]]:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    nodes: list[CounterNode] = []

    def run(server: str, gpus: list[int]) -> Job:
        nodes.append(CounterNode(tmp_path, library_dir, server))
        return Job(nodes[-1], gpus)

    yield run
    for node in nodes:
        node.close()


def ring(node: CounterNode, gpus: list[int], bytes_per_second: float) -> list[str]:
    """Return the rates of a ring in one direction, over all links of each pair."""
    following = dict(zip(gpus, [*gpus[1:], gpus[0]], strict=True))
    lines = []
    for a, b in permutations(gpus, 2):
        links = node.hardware.peers.between(node.hardware.gpus[node.uuids[a]].index, b)  # type: ignore[arg-type]
        sent = bytes_per_second * (following[a] == b) / len(links)
        received = bytes_per_second * (following[b] == a) / len(links)
        lines += [f"nvlink {a} {link} {sent:.0f} {received:.0f}" for link in links]
    return lines


def test_a_ring_on_nvlinks_is_found_with_its_bytes_per_step(run: Callable[..., Job]) -> None:
    job = run("dgx1-v100", [0, 1, 2, 3])
    job.node.counters.set_rates(*ring(job.node, [0, 1, 2, 3], 10 * GB))
    job.train(180)
    assert job.samples
    for sample in job.samples:
        assert sample.traffic is not None
        assert (sample.traffic.source, sample.traffic.pattern) == ("NVLinkPairs", "Ring")
        assert sample.traffic.bytes_per_step == pytest.approx(10 * GB / STEPS_PER_SECOND, rel=0.05)
        assert sample.traffic.confidence_permille > 900
        assert sample.traffic.windows >= 5


def test_behind_a_switch_the_pattern_is_unknown_and_the_load_is_measured(
    run: Callable[..., Job],
) -> None:
    job = run("dgx-h100", [0, 1])
    load = [
        f"{what} {gpu} {share}"
        for gpu in (0, 1)
        for what, share in (("occupancy", 300), ("dram", 600))
    ]
    links = [f"nvlink {gpu} {link} {GB / 18} {GB / 18}" for gpu in (0, 1) for link in range(18)]
    job.node.counters.set_rates(*load, *links)
    job.train(180)
    [sample, *_] = job.samples
    assert sample.traffic is not None
    assert (sample.traffic.source, sample.traffic.pattern) == ("NVLinkTotals", "Unknown")
    assert (sample.traffic.confidence_permille, sample.traffic.windows) == (0, 0)
    assert sample.traffic.bytes_per_step == pytest.approx(GB / STEPS_PER_SECOND, rel=0.05)
    assert sample.load is not None
    step_us = 1e6 / STEPS_PER_SECOND
    assert sample.load.source == "GPM"
    assert sample.load.occupancy_us == pytest.approx(0.3 * step_us, rel=0.05)
    assert sample.load.dram_us == pytest.approx(0.6 * step_us, rel=0.05)


def test_the_load_of_the_warm_up_does_not_count(run: Callable[..., Job]) -> None:
    job = run("dgx-h100", [0])
    job.train(35)  # with another load, for example while the program starts
    job.node.counters.set_rates("occupancy 0 400")
    job.train(100)
    [sample, *_] = job.samples
    assert sample.traffic is None
    assert sample.load is not None
    assert sample.load.occupancy_us == pytest.approx(0.4 * 1e6 / STEPS_PER_SECOND, rel=0.05)


def test_another_environment_begins_again(run: Callable[..., Job]) -> None:
    job = run("dgx1-v100", [0, 1, 2, 3])
    job.node.counters.set_rates(*ring(job.node, [0, 1, 2, 3], 10 * GB))
    job.train(180)
    assert job.environment is not None
    job.environment = replace(job.environment, runtime=ContainerRuntime(milli_cpu=500))
    job.node.counters.set_rates(*ring(job.node, [0, 1, 2, 3], 2 * GB))
    job.train(180)
    *_, sample = job.samples
    assert sample.traffic is not None
    assert sample.traffic.bytes_per_step == pytest.approx(2 * GB / STEPS_PER_SECOND, rel=0.05)


def test_without_an_environment_nothing_is_measured(run: Callable[..., Job]) -> None:
    job = run("dgx1-v100", [0, 1])
    job.environment = None
    job.train(10)
    assert job.meter._counters.take() == (None, None)


def test_a_sample_without_counters_has_only_the_rate(run: Callable[..., Job]) -> None:
    job = run("dgx1-p100", [0, 1])
    job.node.counters.write_conf(*(f"counter-fault {gpu} all 4" for gpu in range(8)))
    job.train(120)
    job.end()
    assert job.samples
    assert {(each.traffic, each.load) for each in job.samples} == {(None, None)}


def test_gpus_that_were_not_read_give_nothing(run: Callable[..., Job]) -> None:
    job = run("dgx1-v100", [0, 1])
    job.train(40)
    readings = dict(job.node.read_now())
    del readings[job.node.uuids[1]]
    job.meter.add_counters(readings, job.gpus, job.node.hardware)
    job.train(80)
    assert job.samples[0].traffic is not None


def test_another_source_or_another_link_begins_again(run: Callable[..., Job]) -> None:
    job = run("dgx-h100", [0, 1])
    job.train(60)
    job.node.counters.write_conf("counter-fault 0 nvlink 3")
    job.train(60)
    lines = (job.node.counters.folder / "topology.conf").read_text().splitlines()
    kept = [line for line in lines if not line.startswith("nvlink 0 17 ")]
    (job.node.counters.folder / "topology.conf").write_text("\n".join(kept) + "\n")
    job.node.discover()
    job.train(120)
    assert all(each.traffic is None or each.traffic.bytes_per_step == 0 for each in job.samples)


def test_the_counts_of_several_senders_are_no_steps(run: Callable[..., Job]) -> None:
    job = run("dgx-h100", [0, 1])
    job.train(40)
    for second in range(120):
        job.train(1)
        other = StepMessage("other", 7, float(job.seconds))
        job.meter.add(other, job.seconds)
        if second == 60:
            assert job.meter.current(job.seconds).state.value == "SeveralSenders"
            job.meter._counters.reset()
    traffic, load = job.meter._counters.take()
    assert load is None
    assert traffic is None or traffic.bytes_per_step is None


def test_a_fault_of_one_gpu_leaves_no_figure(run: Callable[..., Job]) -> None:
    job = run("dgx1-v100", [0, 1])
    job.node.counters.write_conf(f"counter-fault 1 nvlink {pynvml.NVML_ERROR_GPU_IS_LOST}")
    job.train(120)
    assert job.samples
    assert {each.traffic for each in job.samples} == {None}


def test_the_api_has_the_values_of_the_sample() -> None:
    values: dict[str, Any] = SampleLoad(source="GPM", occupancy_us=5, dram_us=None).to_json()
    assert values == {"source": "GPM", "occupancyMicroseconds": 5}
