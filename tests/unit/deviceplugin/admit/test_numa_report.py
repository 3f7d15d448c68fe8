"""When the agent reports NUMA nodes to kubelet, with a kubelet that registers again at any time."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gputopo.catalogue import named
from gputopo_deviceplugin.admit.numa_report import KubeletCpus, NumaReporter, config_reader
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.kubelet.pod_resources import PodResourcesError
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.kubelet_config import KubeletConfigError
from support.virtual_time import runner

TOPOLOGY = named("dgx1-v100")
NODES = {gpu.uuid: gpu.numa_node for gpu in TOPOLOGY.gpus}

CPUS = KubeletCpus(frozenset({1}), {0: frozenset({0, 1})})


class Kubelet:
    """A kubelet whose configuration the agent reads.

    Attributes:
        policy: its policy; None if it does not respond.
        cpu_manager: its ``cpuManagerPolicy``.
        reads: times of the reads.
        during_read: called while the agent waits for the response.
    """

    def __init__(self) -> None:
        self.policy: str | None = "none"
        self.cpu_manager = "none"
        self.reads: list[float] = []
        self.during_read: Callable[[], None] = lambda: None

    async def read(self) -> Mapping[str, Any]:
        """Return the configuration at the start of the read."""
        self.reads.append(asyncio.get_running_loop().time())
        policy = self.policy
        during, self.during_read = self.during_read, lambda: None
        during()
        if policy is None:
            raise KubeletConfigError("no response")
        return {"topologyManagerPolicy": policy, "cpuManagerPolicy": self.cpu_manager}

    async def read_cpus(self) -> KubeletCpus:
        """Return the CPUs of the node."""
        return CPUS


class Parts:
    """A reporter with its kubelet and the state that it changes."""

    def __init__(self, *, any_policy: bool = False) -> None:
        self.changes = ChangeSignal()
        self.state = GpuState()
        self.registered = KubeletState(self.changes)
        self.kubelet = Kubelet()
        self.reporter = NumaReporter(
            self.state,
            self.registered,
            self.changes,
            self.kubelet.read,
            self.kubelet.read_cpus,
            any_policy=any_policy,
            retry_seconds=30,
        )

    def find_gpus(self) -> None:
        """Read the GPUs."""
        health = dict.fromkeys(gpu.uuid for gpu in TOPOLOGY.gpus)
        self.state.set_hardware(NodeHardware(TOPOLOGY, health, None))

    def register(self, policy: str | None = "none") -> None:
        """Start a kubelet with this policy, as the registrar sees it."""
        self.kubelet.policy = policy
        self.state.report_numa({})
        self.registered.add_registration()


@pytest.fixture
def parts() -> Parts:
    parts = Parts()
    parts.find_gpus()
    return parts


async def test_nothing_is_reported_before_kubelet_has_registered_the_agent(parts: Parts) -> None:
    await parts.reporter.update()
    assert (parts.state.numa_nodes, parts.kubelet.reads) == ({}, [])
    assert "kubelet has not registered the agent yet" in parts.reporter.condition.message


async def test_the_policy_is_read_once_for_each_registration(parts: Parts) -> None:
    parts.register()
    for _ in range(3):
        await parts.reporter.update()
    assert (parts.state.numa_nodes, len(parts.kubelet.reads)) == (NODES, 1)
    parts.register("restricted")
    assert parts.state.numa_nodes == {}
    await parts.reporter.update()
    assert (parts.state.numa_nodes, len(parts.kubelet.reads)) == ({}, 2)
    assert parts.reporter.condition.reason == "PolicyNotNone"


async def test_a_policy_of_the_former_kubelet_reports_nothing_to_the_next_one(parts: Parts) -> None:
    parts.register()
    # The response comes from a kubelet that has ended when it arrives.
    parts.kubelet.during_read = lambda: parts.register("restricted")
    await parts.reporter.update()
    assert parts.state.numa_nodes == {}
    await parts.reporter.update()
    assert (parts.state.numa_nodes, parts.reporter.condition.reason) == ({}, "PolicyNotNone")


async def test_when_kubelet_ends_during_the_read_nothing_is_reported(parts: Parts) -> None:
    def end() -> None:
        parts.registered.registered = False

    parts.register()
    parts.kubelet.during_read = end
    await parts.reporter.update()
    assert parts.state.numa_nodes == {}
    assert parts.reporter.condition.reason == "PolicyUnknown"


async def test_gpus_that_are_found_later_are_reported_without_another_read() -> None:
    parts = Parts()
    parts.register()
    await parts.reporter.update()
    assert parts.state.numa_nodes == {}
    parts.find_gpus()
    await parts.reporter.update()
    assert (parts.state.numa_nodes, len(parts.kubelet.reads)) == (NODES, 1)


def test_failed_reads_are_repeated_ever_more_slowly_until_one_succeeds(parts: Parts) -> None:
    async def wait_for_success() -> None:
        running = asyncio.create_task(parts.reporter.run())
        parts.register(None)
        await asyncio.sleep(30 * (1 + 2 + 4) - 1)
        assert parts.reporter.condition.message == "kubelet's policy is unknown: no response"
        parts.changes.notify()  # a change elsewhere causes no read
        await asyncio.sleep(0)
        parts.kubelet.policy = "none"
        await asyncio.sleep(2)
        assert parts.state.numa_nodes == NODES
        await asyncio.sleep(100_000)
        running.cancel()

    with runner() as loop:
        loop.run(wait_for_success())
    first = parts.kubelet.reads[0]
    assert [at - first for at in parts.kubelet.reads] == [0, 30, 90, 210]


def test_the_pause_between_failed_reads_has_a_limit_and_ends_with_the_registration(
    parts: Parts,
) -> None:
    async def wait_for_failures() -> None:
        running = asyncio.create_task(parts.reporter.run())
        parts.register(None)
        await asyncio.sleep(30 * (127 + 64 + 1))
        assert len(parts.kubelet.reads) == 9
        parts.registered.registered = False
        parts.changes.notify()
        await asyncio.sleep(100_000)
        assert len(parts.kubelet.reads) == 9
        parts.register(None)
        await asyncio.sleep(31)
        assert len(parts.kubelet.reads) == 11
        running.cancel()

    with runner() as loop:
        loop.run(wait_for_failures())


def aligned() -> Parts:
    """Return a reporter that reports NUMA nodes with any policy."""
    parts = Parts(any_policy=True)
    parts.find_gpus()
    parts.kubelet.cpu_manager = "static"
    return parts


def test_kubelet_gets_numa_nodes_by_which_it_takes_gpus_after_the_schedulers_know_its_policy() -> (
    None
):
    parts = aligned()

    async def publish() -> None:
        running = asyncio.create_task(parts.reporter.run())
        parts.register("restricted")
        await asyncio.sleep(100)
        assert parts.reporter.aligned_by is not None
        assert parts.reporter.cpus == CPUS
        assert (parts.state.numa_nodes, parts.state.aligned) == ({}, False)
        parts.reporter.confirm(stable=False)
        await asyncio.sleep(100)
        assert parts.state.numa_nodes == {}
        parts.reporter.confirm(stable=True)
        await asyncio.sleep(0.9)
        assert parts.state.numa_nodes == {}
        parts.reporter.confirm(stable=True)  # does not begin again
        await asyncio.sleep(0.2)
        assert (parts.state.numa_nodes, parts.state.aligned) == (NODES, True)
        running.cancel()

    with runner() as loop:
        loop.run(publish())


async def test_after_a_restart_with_the_policy_none_no_scheduler_must_follow_kubelet() -> None:
    parts = aligned()
    parts.register("restricted")
    await parts.reporter.update()
    restricted = parts.reporter.aligned_by
    assert restricted is not None
    parts.registered.registered = False
    await parts.reporter.update()
    assert parts.reporter.aligned_by == restricted, "until the next kubelet is known"
    parts.register("none")
    await parts.reporter.update()
    assert [parts.reporter.aligned_by] == [None]
    parts.reporter.confirm(stable=True)
    assert (parts.state.numa_nodes, parts.state.aligned) == (NODES, False)


def test_restarted_kubelet_gets_no_numa_node_before_its_policy_is_known() -> None:
    parts = aligned()
    first = min(NODES)

    async def restart() -> None:
        parts.register("restricted")
        await parts.reporter.update()
        parts.reporter.confirm(stable=True)
        await asyncio.sleep(2)
        await parts.reporter.update()
        parts.reporter.hide(frozenset({first}))
        others = {gpu: node for gpu, node in NODES.items() if gpu != first}
        assert (parts.state.numa_nodes, parts.state.aligned) == (others, True)
        parts.register("newest")
        parts.reporter.hide(frozenset())
        assert parts.state.numa_nodes == {}
        await parts.reporter.update()
        assert (parts.state.numa_nodes, parts.reporter.condition.reason) == (
            {},
            "PolicyNotPredicted",
        )

    with runner() as loop:
        loop.run(restart())


async def test_if_the_cpus_cannot_be_read_the_policy_is_unknown() -> None:
    parts = aligned()

    async def fail() -> KubeletCpus:
        raise PodResourcesError("kubelet's pod-resources list: no response")

    parts.reporter._read_cpus = fail
    parts.register("restricted")
    await parts.reporter.update()
    assert (parts.reporter.condition.reason, parts.reporter.aligned_by) == ("PolicyUnknown", None)


async def test_a_node_without_an_address_cannot_be_read() -> None:
    read = config_reader(dict, AgentSettings(node="n1"))
    with pytest.raises(KubeletConfigError, match=r"Node n1: no status\.daemon"):
        await read()
