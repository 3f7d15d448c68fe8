"""The agent reports NUMA nodes to kubelet only while kubelet's topology manager policy is none.

The kubelet is the device manager on real sockets, and an HTTPS server with its configuration.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.agent.world import AgentWorld, agent_world
from support.api.store import NODES
from support.kubelet.configz import TOKEN, KubeletConfigServer, config_server
from support.kubelet.device_manager import AdmissionRejectedError


@asynccontextmanager
async def numa_world(
    directory: Path, library_dir: Path, policy: str = "none", **settings: Any
) -> AsyncIterator[tuple[AgentWorld, KubeletConfigServer]]:
    """Run the fakes of a node; kubelet has this policy."""
    account = directory / "account"
    settings = {"publish_numa": "PolicyNone", "service_account_dir": account, **settings}
    async with (
        config_server(account) as config,
        agent_world(directory, library_dir, **settings) as (world),
    ):
        config.policy = policy
        world.api.put(NODES, {**world.node_object, "status": config.node_status})
        yield world, config


def shown(world: AgentWorld) -> float | None:
    return world.metrics.registry.get_sample_value("gputopo_agent_numa_published")


async def test_with_the_policy_none_kubelet_sees_the_numa_node_of_every_gpu(
    short_directory: Path, library_dir: Path
) -> None:
    async with numa_world(short_directory, library_dir) as (world, config), world.agent():
        await world.served()
        await world.until(lambda: world.condition("NUMAPublished").get("status") == "True")
        expected = {gpu.uuid: [gpu.numa_node] for gpu in world.topology.gpus}
        await world.until(lambda: world.kubelet.numa_nodes == expected)
        assert config.tokens == [TOKEN]
        assert shown(world) == 1
        given = await world.run("a", {"main": [6, 2, 5]})
        chosen = [world.uuids[index] for index in (6, 2, 5)]
        assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == ",".join(chosen)


async def test_after_a_restart_with_another_policy_kubelet_never_sees_a_numa_node(
    short_directory: Path, library_dir: Path
) -> None:
    async with numa_world(short_directory, library_dir) as (world, config), world.agent():
        await world.served()
        await world.until(lambda: world.kubelet.numa_nodes)
        await world.kubelet.stop()
        config.policy = "single-numa-node"
        await world.kubelet.start()
        await world.served()
        await world.until(lambda: world.condition("NUMAPublished").get("reason") == "PolicyNotNone")
        assert "'single-numa-node'" in world.condition("NUMAPublished")["message"]
        assert world.kubelet.numa_seen
        assert not any(world.kubelet.numa_seen)
        await world.until(lambda: shown(world) == 0)


async def test_while_the_policy_cannot_be_read_the_agent_serves_without_numa_nodes(
    short_directory: Path, library_dir: Path
) -> None:
    async with numa_world(short_directory, library_dir) as (world, config), world.agent():
        config.status = 403
        await world.served()
        await world.until(lambda: world.condition("NUMAPublished").get("reason") == "PolicyUnknown")
        assert "nodes/configz" in world.condition("NUMAPublished")["message"]
        assert world.kubelet.numa_nodes == {}
        given = await world.run("a", {"main": [1]})
        assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[1]
        config.status = 200
        await world.until(lambda: world.kubelet.numa_nodes)


async def test_with_insecure_tls_the_certificate_of_kubelet_needs_no_ca(
    short_directory: Path, library_dir: Path
) -> None:
    async with numa_world(short_directory, library_dir, kubelet_tls="Insecure") as (world, config):
        (config.folder / "ca.crt").unlink()
        async with world.agent():
            await world.served()
            await world.until(lambda: world.kubelet.numa_nodes)


async def test_by_default_the_agent_reads_no_policy_and_publishes_no_numa_node(
    short_directory: Path, library_dir: Path
) -> None:
    async with numa_world(short_directory, library_dir, publish_numa="Never") as (world, config):
        async with world.agent():
            await world.served()
            await world.run("a", {"main": [1]})
        assert config.tokens == []
        assert world.kubelet.numa_nodes == {}
        assert world.condition("NUMAPublished") == {}


def write_numa_nodes(world: AgentWorld) -> None:
    """Write a sysfs with two NUMA nodes of two CPUs each."""
    system = world.settings.system_dir / "devices/system"
    for node, cpus in enumerate(("0-1", "2-3")):
        folder = system / f"node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cpus}\n")
        (folder / "meminfo").write_text(f"Node {node} MemTotal: 1024 kB\n")
    (system / "cpu").mkdir()
    (system / "cpu/online").write_text("0-3\n")


@asynccontextmanager
async def aligned_world(directory: Path, library_dir: Path) -> AsyncIterator[AgentWorld]:
    """Run an agent that reports NUMA nodes to a kubelet with the policy restricted."""
    numa = numa_world(directory, library_dir, "restricted", publish_numa="AnyPolicy")
    async with numa as (world, config):
        config.more = {"cpuManagerPolicy": "static", "topologyManagerScope": "pod"}
        world.kubelet.allocatable_cpus = [1, 2, 3]
        write_numa_nodes(world)
        async with world.agent():
            await world.served()
            yield world


async def test_the_status_has_the_policy_before_kubelet_sees_numa_nodes(
    short_directory: Path, library_dir: Path
) -> None:
    async with aligned_world(short_directory, library_dir) as world:
        await world.until(lambda: world.status.get("alignment"))
        assert world.kubelet.numa_nodes == {}
        await world.until(lambda: world.kubelet.numa_nodes)
        assert world.condition("NUMAPublished")["reason"] == "PolicyPredicted"
        assert world.status["alignment"] == {
            "policy": "restricted",
            "scope": "pod",
            "cpus": [
                {"numaNode": 0, "total": 2, "allocatable": 1, "free": 1},
                {"numaNode": 1, "total": 2, "allocatable": 2, "free": 2},
            ],
            "admitted": [],
        }
        await world.run("a", {"main": [2, 0]})
        await world.until(lambda: world.status["alignment"]["admitted"] == ["uid-a"])


async def test_a_container_gets_all_gpus_of_a_numa_node_without_a_call_before_allocate(
    short_directory: Path, library_dir: Path
) -> None:
    async with aligned_world(short_directory, library_dir) as world:
        await world.until(lambda: world.kubelet.numa_nodes)
        world.kubelet.aligned = {world.uuids[index] for index in range(4)}
        given = await world.run("a", {"main": [3, 1, 0, 2]})
        chosen = [world.uuids[index] for index in (3, 1, 0, 2)]
        assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == ",".join(chosen)


async def test_a_container_for_which_kubelet_takes_other_gpus_is_rejected(
    short_directory: Path, library_dir: Path
) -> None:
    async with aligned_world(short_directory, library_dir) as world:
        await world.until(lambda: world.kubelet.numa_nodes)
        world.kubelet.aligned = {world.uuids[index] for index in range(4)}
        with pytest.raises(AdmissionRejectedError, match="is not available on this node now"):
            await world.run("a", {"main": [4, 5, 6, 7]})


async def test_if_no_pod_is_found_kubelet_gets_no_gpus_by_allocate_alone(
    short_directory: Path, library_dir: Path
) -> None:
    async with aligned_world(short_directory, library_dir) as world:
        await world.until(lambda: world.kubelet.numa_nodes)
        world.kubelet.aligned = {world.uuids[index] for index in range(4)}
        with pytest.raises(AdmissionRejectedError, match="without GetPreferredAllocation"):
            await world.kubelet.admit(("default", "unknown"), {"main": 4})


async def test_after_a_change_to_the_policy_none_the_status_has_no_alignment(
    short_directory: Path, library_dir: Path
) -> None:
    numa = numa_world(short_directory, library_dir, "best-effort", publish_numa="AnyPolicy")
    async with numa as (world, config), world.agent():
        await world.served()
        await world.until(lambda: world.kubelet.numa_nodes)
        assert world.status["alignment"]["policy"] == "best-effort"
        assert "cpus" not in world.status["alignment"]
        await world.kubelet.stop()
        config.policy = "none"
        await world.kubelet.start()
        await world.served()
        await world.until(lambda: "alignment" not in world.status)
        await world.until(lambda: world.kubelet.numa_nodes)


async def test_while_the_exclusive_cpus_cannot_be_read_the_policy_is_unknown(
    short_directory: Path, library_dir: Path
) -> None:
    numa = numa_world(short_directory, library_dir, "restricted", publish_numa="AnyPolicy")
    async with numa as (world, config), world.agent():
        config.more = {"cpuManagerPolicy": "static"}
        await world.served()
        await world.until(
            lambda: "no list of CPUs yet" in world.condition("NUMAPublished").get("message", "")
        )
        assert world.condition("NUMAPublished")["reason"] == "PolicyUnknown"
        world.kubelet.allocatable_cpus = [0]
        await world.until(lambda: world.status.get("alignment"))
