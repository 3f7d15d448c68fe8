"""The steps that containers report become rates and samples. Minutes pass in virtual time."""

import array
import asyncio
import itertools
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputopo.api.names import STEPS_SOCKET, STEPS_SOCKET_VARIABLE, STEPS_SOURCE_ANNOTATION
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_steps.reporter import Reporter
from support.agent.measured import TOPOLOGY, MeasuredNode, in_virtual_time
from support.kubelet.device_manager import AdmissionRejectedError


@pytest.fixture
def node(short_directory: Path) -> Iterator[MeasuredNode]:
    node = MeasuredNode(short_directory)
    yield node
    node.close()


def dropped(node: MeasuredNode, reason: str) -> float:
    return node.metric("gputopo_agent_dropped_steps_total", reason=reason) or 0.0


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def folders(node: MeasuredNode) -> set[str]:
    return {folder.name for folder in (node.settings.state_dir / "steps").iterdir()}


@in_virtual_time
async def test_an_honest_sender_gives_a_rate_and_samples(node: MeasuredNode) -> None:
    sender = await node.sender("a", [0, 3])
    await sender.train(12.5, seconds=200)
    [measured] = node.measurements.values()
    assert (measured.state, measured.source, measured.profile) == ("Steady", "SDK", "resnet50")
    assert measured.micro_steps_per_second == pytest.approx(12.5e6, rel=0.02)
    sample, _ = node.samples
    assert sample.steps_per_second == pytest.approx(12.5, rel=0.02)
    assert (sample.namespace, sample.profile, sample.pod_uid) == ("default", "resnet50", "uid-a")
    assert (sample.gpus, sample.gpu_model) == (2, TOPOLOGY.gpus[0].model)
    bandwidths = sample.worst_mb_per_s, sample.effective_mb_per_s, sample.best_mb_per_s
    assert (sample.model, bandwidths) == ("physical", (8_000, 40_000, 48_000))
    labels = {"namespace": "default", "pod": "a", "container": "main"}
    assert node.metric("gputopo_steps_per_second", **labels) == pytest.approx(12.5, rel=0.02)
    assert node.metric("gputopo_agent_samples_total") == 2
    assert sender.lost == 0


@in_virtual_time
async def test_the_agent_reads_what_the_package_for_programs_sends(node: MeasuredNode) -> None:
    folder = (await node.run_pod("a", {"main": [0]}))["main"]
    assert folder is not None
    environ = {STEPS_SOCKET_VARIABLE: str(folder / STEPS_SOCKET)}
    reporter = Reporter(environ, {}, asyncio.get_running_loop().time)
    for _ in range(750):
        reporter.step()
        await asyncio.sleep(0.2)
    assert [sample.steps_per_second for sample in node.samples] == [pytest.approx(5, rel=0.01)]


@in_virtual_time
async def test_without_a_profile_there_is_a_rate_and_no_sample(node: MeasuredNode) -> None:
    sender = await node.sender("a", [0], profile=None)
    await sender.train(12.5, seconds=200)
    assert node.measurements["a"].state == "Steady"
    assert node.samples == []


@in_virtual_time
async def test_a_flood_harms_only_the_figure_of_its_sender(node: MeasuredNode) -> None:
    honest, flooding = await node.sender("a", [0]), await node.sender("b", [1])

    async def flood() -> None:
        for _ in range(200):
            for _ in range(2_000):
                flooding.send(b"x" * 400)
            await asyncio.sleep(1)

    await asyncio.gather(flood(), honest.train(12.5, seconds=200))
    assert flooding.lost > 300_000
    assert dropped(node, "Malformed") <= 16 * 201
    assert {pod: each.state for pod, each in node.measurements.items()} == {
        "a": "Steady",
        "b": "NoData",
    }
    assert {sample.pod_uid for sample in node.samples} == {"uid-a"}
    assert honest.lost == 0


GARBAGE = (
    b"",
    b"\xff\xfe",
    b"[" * 512,
    b'{"v":1}',
    b'{"v":2,"run":"run","steps":1,"seconds":1}',
    b'{"v":1,"run":"run","steps":-5,"seconds":1}',
    b'{"v":1,"run":"run","steps":1e400,"seconds":1}',
    b'{"v":1,"run":"run","steps":5,"seconds":NaN}',
)


@in_virtual_time
async def test_garbage_between_honest_messages_changes_no_rate(node: MeasuredNode) -> None:
    sender = await node.sender("a", [0])

    async def disturb() -> None:
        for number in range(200):
            sender.send(GARBAGE[number % len(GARBAGE)])
            sender.send(b"y" * 513)
            await asyncio.sleep(1)

    await asyncio.gather(disturb(), sender.train(12.5, seconds=200))
    assert node.samples[0].steps_per_second == pytest.approx(12.5, rel=0.02)
    assert (dropped(node, "Malformed"), dropped(node, "TooLarge")) == (200, 200)


@in_virtual_time
async def test_file_descriptors_in_a_message_are_not_kept_open(node: MeasuredNode) -> None:
    folder = (await node.run_pod("a", {"main": [0]}))["main"]
    assert folder is not None
    await asyncio.sleep(1)
    opened = open_files()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(str(folder / "socket"))
        rights = array.array("i", [0, 1, 2])
        sender.sendmsg([b"{}"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        await asyncio.sleep(2)
        for thread in threading.enumerate():
            if thread.name == "steps-socket":
                thread.join()
        with pytest.raises(ConnectionRefusedError):
            sender.send(b"{}")
    assert open_files() == opened - 1


@in_virtual_time
async def test_two_senders_in_one_container_give_no_rate(node: MeasuredNode) -> None:
    folder = (await node.run_pod("a", {"main": [0, 1]}))["main"]
    assert folder is not None
    first, second = node.new_sender(folder, "rank-0"), node.new_sender(folder, "rank-1")
    await asyncio.gather(first.train(10, seconds=200), second.train(9, seconds=200))
    assert node.measurements["a"].state == "SeveralSenders"
    assert node.measurements["a"].micro_steps_per_second is None
    assert node.samples == []


@in_virtual_time
async def test_a_restarted_process_is_measured_from_its_start(node: MeasuredNode) -> None:
    sender = await node.sender("a", [0])
    await sender.train(12.5, seconds=50)
    sender.run, sender.steps = "second", 0
    await sender.train(8, seconds=150)
    assert dropped(node, "Restart") == 1
    assert [sample.steps_per_second for sample in node.samples] == [pytest.approx(8, rel=0.02)]


@in_virtual_time
async def test_a_restarted_agent_listens_on_the_same_socket(node: MeasuredNode) -> None:
    sender = await node.sender("a", [0])
    await sender.train(12.5, seconds=50)
    await node.restart()
    assert node.measurements == {}  # until it knows more, the status keeps the former ones
    await sender.train(8, seconds=150)
    assert sender.lost == 0
    assert [sample.steps_per_second for sample in node.samples] == [pytest.approx(8, rel=0.02)]


@in_virtual_time
async def test_steps_while_no_agent_runs_are_lost_and_harm_nothing(node: MeasuredNode) -> None:
    sender = await node.sender("a", [0])
    await node.stop()
    await sender.train(12.5, seconds=20)
    assert sender.lost > 0
    node.build_agent()
    await node.start()
    await sender.train(12.5, seconds=150)
    assert node.samples[0].steps_per_second == pytest.approx(12.5, rel=0.02)


@in_virtual_time
async def test_a_container_without_a_socket_has_no_data(node: MeasuredNode) -> None:
    folder = (await node.run_pod("a", {"main": [0]}))["main"]
    assert folder is not None
    await node.stop()
    (folder / "socket").unlink()
    folder.rmdir()  # as if an agent without this feature had admitted it
    node.build_agent()
    await node.start()
    await asyncio.sleep(60)
    assert node.measurements["a"].state == "NoData"


@in_virtual_time
async def test_the_end_of_a_pod_completes_its_sample_and_removes_its_socket(
    node: MeasuredNode,
) -> None:
    sender = await node.sender("a", [0])
    await sender.train(12.5, seconds=600)
    assert len(node.samples) == 3
    await node.end_pod("a", processes_end=False)
    await asyncio.sleep(60)
    assert len(node.samples) == 4
    assert node.measurements == {}
    labels = {"namespace": "default", "pod": "a", "container": "main"}
    assert node.metric("gputopo_steps_per_second", **labels) is None
    assert folders(node) == {"uid-a_main"}  # a process may still send
    node.processes.pods.clear()
    await node.agent.observer.observe()
    await asyncio.sleep(2)
    assert folders(node) == set()
    await sender.train(12.5, seconds=2)
    assert len(node.samples) == 4


@in_virtual_time
async def test_a_neighbour_that_arrives_begins_a_new_sample(node: MeasuredNode) -> None:
    sender = await node.sender("a", [0])
    await sender.train(12.5, seconds=400)
    await node.run_pod("b", {"main": [1, 7]}, profile="bert")
    await sender.train(10, seconds=150)
    alone, _, _, at_arrival, beside = node.samples
    assert (alone.socket_neighbours, alone.node_neighbours) == ([], [])
    assert at_arrival.node_neighbours == []
    assert at_arrival.steps_per_second == pytest.approx(12.5, rel=0.02)
    assert beside.socket_neighbours == beside.node_neighbours == ["default/bert"]
    assert beside.steps_per_second == pytest.approx(10, rel=0.02)


@in_virtual_time
async def test_a_resize_begins_a_new_sample_with_the_limits_in_force(node: MeasuredNode) -> None:
    def limit(cpu: str) -> dict[str, Any]:
        resources = {"limits": {"cpu": cpu}}
        return {"containerStatuses": [{"name": "main", "resources": resources}]}

    sender = await node.sender("a", [0])
    node.change("a", status=limit("4"))
    await sender.train(12.5, seconds=150)
    node.change("a", status=limit("2500m"))
    await sender.train(9, seconds=150)
    before, after = node.samples
    assert (before.milli_cpu, after.milli_cpu) == (4000, 2500)
    assert before.steps_per_second == pytest.approx(12.5, rel=0.02)
    assert after.steps_per_second == pytest.approx(9, rel=0.02)
    assert node.measurements["a"].milli_cpu == 2500


@in_virtual_time
async def test_an_unhealthy_gpu_gives_no_samples(node: MeasuredNode) -> None:
    sender = await node.sender("a", [0])
    await sender.train(12.5, seconds=75)
    healthy = node.agent.current.hardware
    assert healthy is not None
    health = {**healthy.health, TOPOLOGY.gpus[0].uuid: "XID 48"}
    node.agent.current.set_hardware(NodeHardware(TOPOLOGY, health, None))
    await sender.train(3, seconds=200)
    assert node.samples == []
    node.agent.current.set_hardware(healthy)
    await sender.train(12.5, seconds=150)
    assert [sample.steps_per_second for sample in node.samples] == [pytest.approx(12.5, rel=0.02)]


@in_virtual_time
async def test_without_the_api_server_there_are_no_samples(node: MeasuredNode) -> None:
    sender = await node.sender("a", [0])
    node.agent.connection.record_loss()
    await sender.train(12.5, seconds=200)
    assert node.samples == []
    assert node.measurements["a"].state == "Steady"


@in_virtual_time
async def test_a_rejected_pod_gets_no_socket(node: MeasuredNode) -> None:
    with pytest.raises(AdmissionRejectedError):
        await node.run_pod("a", {"main": [0]}, annotations={"gputopo.io/gpus": "{}"})
    assert not (node.settings.state_dir / "steps").exists()


@in_virtual_time
async def test_only_containers_that_keep_their_gpus_get_a_socket(node: MeasuredNode) -> None:
    found = await node.run_pod(
        "a", {"main": [0, 1], "proxy": [2]}, init={"warm": 1, "proxy": 1}, sidecars=["proxy"]
    )
    assert {container for container, folder in found.items() if folder} == {"main", "proxy"}


@in_virtual_time
async def test_another_source_gets_no_socket(node: MeasuredNode) -> None:
    source = {STEPS_SOURCE_ANNOTATION: "Log"}
    assert await node.run_pod("a", {"main": [0]}, annotations=source) == {"main": None}


@in_virtual_time
async def test_messages_to_the_socket_of_another_source_are_ignored(node: MeasuredNode) -> None:
    sender = await node.sender("a", [0])
    node.change("a", metadata=_annotated(node, {STEPS_SOURCE_ANNOTATION: "Log"}))
    await sender.train(12.5, seconds=60)
    assert node.measurements["a"].state == "NoData"
    assert dropped(node, "NotMeasured") > 0


def _annotated(node: MeasuredNode, annotations: dict[str, str]) -> dict[str, Any]:
    [document] = node.server.pods.values()
    metadata = document["metadata"]
    return {**metadata, "annotations": {**metadata["annotations"], **annotations}}


@in_virtual_time
async def test_an_invalid_annotation_is_reported_once_and_gives_no_samples(
    node: MeasuredNode,
) -> None:
    sender = await node.sender("a", [0], annotations={"gputopo.io/profiling": "Memory"})
    await sender.train(12.5, seconds=200)
    assert node.samples == []
    assert node.measurements["a"].state == "Steady"
    [reason] = node.agent.recorder.invalid
    assert "'Memory' is not one of CPUs, Links" in reason


@in_virtual_time
async def test_a_pod_gets_its_gpus_even_if_its_socket_cannot_be_created(
    node: MeasuredNode,
) -> None:
    (node.settings.state_dir / "steps").write_text("not a folder")
    assert await node.run_pod("a", {"main": [0]}) == {"main": None}
    assert node.metric("gputopo_agent_failures_total", of="socket") == 1
    await node.restart()
    await asyncio.sleep(60)
    assert node.measurements["a"].state == "NoData"


@in_virtual_time
async def test_what_is_published_changes_at_most_once_in_thirty_seconds(
    node: MeasuredNode,
) -> None:
    sender, clock = await node.sender("a", [0]), asyncio.get_running_loop().time
    changes = []

    async def watch() -> None:
        before = node.measurer.published
        for _ in range(600):
            if node.measurer.published is not before:
                before = node.measurer.published
                changes.append(clock())
            await asyncio.sleep(1)

    async def train() -> None:
        for rate in (5, 20, 5, 20, 5, 20):
            await sender.train(rate, seconds=50)
        await sender.train(20, seconds=300)

    await asyncio.gather(watch(), train())
    pauses = [later - earlier for earlier, later in itertools.pairwise(changes)]
    assert min(pauses) >= node.settings.measure_publish_seconds
    assert len([at for at in changes if at > 400]) <= 2, "a steady rate is published again"
