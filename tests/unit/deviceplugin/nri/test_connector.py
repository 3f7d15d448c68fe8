"""When the plugin is connected to the runtime, and what the condition shows."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gputopo.catalogue import named
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.nri import connector as module
from gputopo_deviceplugin.nri.calls import PluginCalls
from gputopo_deviceplugin.nri.connector import NriConnector
from gputopo_deviceplugin.nri.frames import NriError
from gputopo_deviceplugin.nri.manager import cpu_manager_reader
from gputopo_deviceplugin.nri.v1alpha1 import api_pb2 as api
from gputopo_kube.changes import ChangeSignal
from support.agent.nri import in_runtime, sandbox
from support.virtual_time import runner

TOPOLOGY = named("dgx1-v100")
HARDWARE = NodeHardware(TOPOLOGY, dict.fromkeys(gpu.uuid for gpu in TOPOLOGY.gpus), None)


class Node:
    """A node with a connector; its runtime does what ``session`` does.

    Attributes:
        policy: of kubelet's CPU manager.
        connected: times of the connections.
        open: number of open connections.
    """

    def __init__(self, folder: Path) -> None:
        for number in range(2):
            one = folder / f"devices/system/node/node{number}"
            one.mkdir(parents=True)
            (one / "cpulist").write_text(f"{4 * number}-{4 * number + 3}\n")
        (folder / "devices/system/cpu").mkdir(parents=True)
        (folder / "devices/system/cpu/online").write_text("0-7\n")
        self.policy = "none"
        self.connected: list[float] = []
        self.open = 0
        self.session: Callable[[PluginCalls], Any] = self.synchronize
        changes = ChangeSignal()
        self.kubelet = KubeletState(changes)
        self.state = GpuState()
        self.state.set_hardware(HARDWARE)
        self.metrics = AgentMetrics()
        self.connector = NriConnector(
            self.state,
            cpu_manager_reader(self.kubelet, self.read, retry_seconds=30),
            changes,
            self.metrics,
            socket=Path("/nri.sock"),
            system_dir=folder,
            allowed=lambda: range(8),
        )

    async def read(self) -> dict[str, str]:
        return {"cpuManagerPolicy": self.policy}

    async def run_session(self, socket: Path, plugin: PluginCalls) -> None:
        assert socket == Path("/nri.sock")
        self.connected.append(asyncio.get_running_loop().time())
        self.open += 1
        try:
            await self.session(plugin)
        finally:
            self.open -= 1

    async def synchronize(self, plugin: PluginCalls) -> None:
        """Send a container that another program has limited, then wait."""
        pod = sandbox("a", {"main": [TOPOLOGY.gpus[0].uuid]})
        request = api.SynchronizeRequest(pods=[pod], containers=[in_runtime(pod, cpus="7")])
        plugin.respond("Synchronize", request.SerializeToString())
        await asyncio.sleep(10_000)

    @property
    def failures(self) -> float | None:
        return self.metrics.registry.get_sample_value("gputopo_agent_failures_total", {"of": "nri"})

    def run(self, check: Callable[[], Any]) -> None:
        """Run the connector while ``check`` runs."""

        async def both() -> None:
            task = asyncio.create_task(self.connector.run())
            try:
                await check()
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert self.open == 0

        with runner() as loop:
            loop.run(both())


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path)
    monkeypatch.setattr(module, "run_session", node.run_session)
    return node


def test_the_plugin_stays_connected(node: Node) -> None:
    assert node.connector.condition.reason == "NRIUnavailable"

    async def check() -> None:
        await asyncio.sleep(600)
        assert node.connected == [0]
        assert node.connector.condition.holds
        assert "default/a/main: another program" in node.connector.condition.message
        assert (node.connector.unbound, node.failures) == (1, 0)

    node.run(check)


def test_a_kubelet_with_another_policy_ends_the_connection(node: Node) -> None:
    async def check() -> None:
        await asyncio.sleep(5)
        node.policy = "static"
        node.kubelet.add_registration()
        await asyncio.sleep(5)
        assert node.open == 0
        assert node.connector.condition.reason == "CPUManagerNotNone"
        assert (node.connector.unbound, node.failures) == (0, 0)
        node.policy = "none"
        node.kubelet.add_registration()
        await asyncio.sleep(5)
        assert node.connector.condition.holds

    node.run(check)


def test_with_other_gpus_the_plugin_connects_again(node: Node) -> None:
    async def check() -> None:
        await asyncio.sleep(5)
        node.state.set_hardware(replace(HARDWARE, fault="x"))
        await asyncio.sleep(5)
        assert len(node.connected) == 1
        other = replace(TOPOLOGY, numa_nodes=())
        node.state.set_hardware(replace(HARDWARE, topology=other))
        await asyncio.sleep(5)
        assert len(node.connected) == 2

    node.run(check)


def test_before_the_gpus_are_known_there_is_no_connection(node: Node) -> None:
    node.state.hardware = None

    async def check() -> None:
        await asyncio.sleep(5)
        assert node.connected == []
        assert node.connector.condition.reason == "CPUsUnknown"
        node.state.set_hardware(HARDWARE)
        await asyncio.sleep(2)
        assert node.open == 1
        node.state.hardware = None
        await asyncio.sleep(2)
        assert node.open == 0

    node.run(check)


def test_attempts_become_rarer_until_the_runtime_is_there(node: Node) -> None:
    async def missing(_plugin: PluginCalls) -> None:
        raise NriError("no such file")

    node.session = missing

    async def check() -> None:
        await asyncio.sleep(200)
        pauses = [b - a for a, b in zip(node.connected, node.connected[1:], strict=False)]
        assert pauses == [1, 2, 4, 8, 16, 30, 30, 30, 30, 30]
        assert node.connector.condition.message.endswith("no such file")
        assert node.failures == len(node.connected)
        node.session = node.synchronize
        await asyncio.sleep(30)
        assert node.connector.condition.holds

    node.run(check)


def test_a_runtime_that_does_not_respond_is_connected_again(node: Node) -> None:
    async def hang(_plugin: PluginCalls) -> None:
        await asyncio.sleep(10_000)

    node.session = hang

    async def check() -> None:
        await asyncio.sleep(13)
        assert len(node.connected) == 2
        assert "no list of containers in 10 s" in node.connector.condition.message

    node.run(check)


def test_a_fault_does_not_end_the_agent(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_plugin: PluginCalls) -> None:
        raise ZeroDivisionError("fault")

    node.session = fail

    async def check() -> None:
        await asyncio.sleep(0.5)
        assert node.connector.condition.message.endswith("fault")
        assert "NRI failed" in caplog.text
        node.session = node.synchronize
        await asyncio.sleep(2)
        assert node.connector.condition.holds

    node.run(check)


def test_the_cpus_of_the_node_are_those_of_sysfs_that_the_agent_may_use(node: Node) -> None:
    machine = node.connector._read_machine()
    assert machine.cpus_of == {0: frozenset(range(4)), 1: frozenset(range(4, 8))}
    assert machine.manager is None, "it was not read yet"
    node.connector._allowed = lambda: {0, 1}
    assert node.connector._read_machine().cpus_of == {0: frozenset({0, 1})}
