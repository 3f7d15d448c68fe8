"""The GPUTopology object: hardware, health and users."""

import asyncio
import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gputopo.api.names import GPUS_RESET_ANNOTATION
from gputopo.api.topology import from_spec
from gputopo.api.v1alpha1 import GPUTopologySpec
from gputopo.catalogue import names
from support.agent.world import NODE, AgentWorld, agent_world
from support.api.store import NODES, TOPOLOGIES


@pytest.mark.parametrize("name", names())
async def test_every_server_of_the_catalogue_is_published_unchanged(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    async with agent_world(short_directory, library_dir, name) as world:
        for numa in world.topology.numa_nodes:
            folder = short_directory / f"sys/devices/system/node/node{numa.id}"
            folder.mkdir(parents=True)
            (folder / "cpulist").write_text(f"0-{numa.cpus - 2},{numa.cpus + 7}\n")
            total = f"Node {numa.id} MemTotal:       {numa.memory_bytes // 1024} kB\n"
            (folder / "meminfo").write_text(total)
        async with world.agent():
            await world.until(lambda: world.condition("Ready").get("status") == "True")
        published = world.published
        spec = GPUTopologySpec.model_validate(published["spec"])
        assert from_spec(spec) == world.topology
        assert published["status"]["fingerprint"] == world.topology.fingerprint
        assert published["status"]["observedGeneration"] == published["metadata"]["generation"]
        [owner] = published["metadata"]["ownerReferences"]
        assert owner == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-node"}


async def test_users_appear_and_disappear_with_one_write_each(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [0, 7]})
        await world.until(lambda: "podUID" in world.observed(7))
        held = {"podUID": "uid-a", "namespace": "default", "pod": "a", "container": "main"}
        for index in (0, 7):
            assert world.observed(index) == {
                "uuid": world.uuids[index],
                "healthy": True,
                **held,
            }
        await world.until(lambda: world.condition("Ready")["status"] == "True")
        await world.quiet()
        world.kubelet.end(("default", "a"))
        await world.until(lambda: all("pod" not in gpu for gpu in world.status["gpus"]))


async def test_a_faulty_gpu_is_unhealthy_everywhere_and_the_other_gpus_work(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        generation = world.published["metadata"]["generation"]
        world.break_gpus("fault 2 15")
        await world.until(lambda: world.kubelet.devices[world.uuids[2]] == "Unhealthy")
        await world.until(lambda: world.observed(2).get("healthy") is False)
        assert world.observed(2)["reason"] == "NVML: GPU is lost"
        assert world.condition("GPUsHealthy")["status"] == "False"
        assert world.condition("Ready")["status"] == "True"
        assert world.published["metadata"]["generation"] == generation
        given = await world.run("a", {"main": [3]})
        assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[3]
        world.break_gpus()
        await world.served()
        await world.until(lambda: world.condition("GPUsHealthy")["status"] == "True")
        await world.until(lambda: len(world.events("GPUHealthy")) == 1)
        assert world.events("GPUUnhealthy") == [f"{world.uuids[2]}: NVML: GPU is lost"]


async def test_a_gpu_that_is_faulty_from_the_start_is_known_from_the_published_object(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.until(lambda: world.is_published)
    spec = world.published["spec"]
    world.break_gpus("fault 4 15", "fault 5 15")
    async with world.agent():
        await world.until(lambda: world.observed(4).get("healthy") is False)
        await world.until(lambda: world.kubelet.devices.get(world.uuids[4]) == "Unhealthy")
        assert world.kubelet.devices[world.uuids[3]] == "Healthy"
    assert world.published["spec"] == spec


async def test_a_transient_xid_makes_a_gpu_unhealthy_for_the_quiet_time(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        world.break_gpus("xid 6 74")
        await world.until(lambda: world.kubelet.devices[world.uuids[6]] == "Unhealthy")
        await world.until(lambda: world.observed(6).get("healthy") is False)
        assert world.observed(6)["reason"].startswith("XID 74: NVLink error")
        await world.served()


async def test_a_fatal_xid_counts_until_an_administrator_confirms_the_reset(
    world: AgentWorld,
) -> None:
    def fatal() -> bool:
        reason = "XID 95: uncontained ECC error: reset the GPU or reboot the node"
        return bool(world.observed(6).get("reason") == reason)

    async def annotate(time: datetime) -> None:
        node = copy.deepcopy(world.node_object)
        node["metadata"]["annotations"] = {GPUS_RESET_ANNOTATION: time.isoformat()}
        world.api.put(NODES, node)

    async with world.agent():
        await world.served()
        world.break_gpus("xid 6 95")
        await world.until(fatal)
        await annotate(datetime.now(UTC) - timedelta(hours=1))
        await asyncio.sleep(2 * world.settings.xid_quiet_seconds)
        assert fatal()
    async with world.agent():
        await world.until(lambda: world.kubelet.registrations == 2)
        await asyncio.sleep(2 * world.settings.xid_quiet_seconds)
        assert fatal()
        assert world.kubelet.devices[world.uuids[6]] == "Unhealthy"
        await annotate(datetime.now(UTC) + timedelta(seconds=1))
        await world.served()


async def test_a_recovery_action_counts_until_it_ends_and_clears_the_fatal_xid(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        world.break_gpus("recovery 2 GPU_RESET")
        action = "NVML: recovery action GPU_RESET"
        await world.until(lambda: world.observed(2).get("reason", "").startswith(action))
        world.break_gpus("recovery 2 GPU_RESET", "xid 2 119")
        await world.until(lambda: world.observed(2).get("reason", "").startswith("XID 119"))
        world.break_gpus("recovery 2 NONE", "xid 2 119")
        await world.served()


async def test_an_application_xid_changes_nothing(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        world.break_gpus("xid 5 31", "xid 6 74")
        await world.until(lambda: world.kubelet.devices[world.uuids[6]] == "Unhealthy")
        assert world.kubelet.devices[world.uuids[5]] == "Healthy"
        await world.served()
    [unhealthy] = world.events("GPUUnhealthy")
    assert unhealthy.startswith(f"{world.uuids[6]}: XID 74: NVLink error")


async def test_mig_is_not_yet_supported(world: AgentWorld) -> None:
    world.break_gpus("mig 1")
    async with world.agent():
        await world.until(lambda: world.status.get("gpus"))
        assert world.observed(1)["reason"] == "MIG mode is on: not yet supported"


async def test_lost_links_are_new_hardware(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        kept = [
            line for line in world.conf.read_text().splitlines() if not line.startswith("nvlink 0")
        ]
        new = world.conf.with_suffix(".new")
        new.write_text("\n".join(kept) + "\n")
        new.rename(world.conf)
        await world.until(lambda: world.published["metadata"]["generation"] == 2)
        await world.until(lambda: world.status["observedGeneration"] == 2)
        links = world.published["spec"]["links"]
        mine = [link for link in links if world.uuids[0] in (link["a"], link["b"])]
        assert {link["kind"] for link in mine} == {"PCIe"}


async def test_memory_that_changes_is_not_new_hardware(world: AgentWorld) -> None:
    folder = world.settings.system_dir / "devices/system/node/node0"
    folder.mkdir(parents=True)
    (folder / "cpulist").write_text("0-3\n")
    (folder / "meminfo").write_text("Node 0 MemTotal: 2048 kB\n")
    async with world.agent():
        await world.until(lambda: world.status)
        (folder / "meminfo").write_text("Node 0 MemTotal: 1024 kB\n")
        world.break_gpus("fault 0 15")
        await world.until(lambda: world.observed(0).get("healthy") is False)
        published = world.published
    assert published["spec"]["numaNodes"] == [{"id": 0, "cpus": 4, "memory": "2Mi"}]
    assert published["metadata"]["generation"] == 1


async def test_an_object_deleted_or_changed_by_hand_is_restored(world: AgentWorld) -> None:
    async with world.agent():
        await world.until(lambda: world.condition("Ready").get("status") == "True")
        spec = world.published["spec"]
        world.api.delete(TOPOLOGIES, NODE)
        await world.until(lambda: world.condition("Ready").get("status") == "True")
        broken = {**world.published, "spec": {"gpus": [{"uuid": "x"}]}}
        world.api.put(TOPOLOGIES, broken)
        await world.until(lambda: world.published["spec"] == spec)


async def test_a_node_created_again_owns_the_object(world: AgentWorld) -> None:
    async with world.agent():
        await world.until(lambda: world.is_published)
        node = {"kind": "Node", "metadata": {"name": "n1", "uid": "uid-later"}}
        world.api.put(NODES, node)

        def owner() -> str:
            [reference] = world.published["metadata"]["ownerReferences"]
            return str(reference["uid"])

        await world.until(lambda: owner() == "uid-later")
