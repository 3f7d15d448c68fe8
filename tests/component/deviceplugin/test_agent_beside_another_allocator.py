"""Another allocator of the same GPUs appears or is removed, with and without running pods."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gputopo_deviceplugin.admit import offer as device_offer
from gputopo_kube import reflector
from support.agent.world import NODE, AgentWorld, agent_world
from support.api.faults import Fault
from support.api.store import NODES, SLICES
from support.kubelet.device_manager import AdmissionRejectedError

MINUTES_SECONDS = 300.0


@pytest.fixture
async def unpolled(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AgentWorld]:
    """A world whose agent reads nothing periodically: only watches show it changes."""
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    monkeypatch.setattr(device_offer, "ADMITTED_SECONDS", 0.5)
    async with agent_world(short_directory, library_dir, resync_seconds=MINUTES_SECONDS) as world:
        yield world


async def offer(world: AgentWorld, **allocatable: str) -> None:
    node = world.node_object
    resources = {name.replace("_", "/", 1): amount for name, amount in allocatable.items()}
    world.api.put(NODES, {**node, "status": {"allocatable": resources}})


def resource_slice(
    devices: int, driver: str = "gpu.nvidia.com", node: str = NODE
) -> dict[str, object]:
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": driver, "nodeName": node, "devices": [{}] * devices},
    }


def healthy(world: AgentWorld) -> list[int]:
    return [i for i, uuid in enumerate(world.uuids) if world.kubelet.devices.get(uuid) == "Healthy"]


def reason(world: AgentWorld) -> object:
    return world.condition("Ready").get("reason")


async def test_running_pods_keep_their_gpus_when_another_plugin_appears(
    unpolled: AgentWorld,
) -> None:
    world = unpolled
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [0, 1]})
        await offer(world, **{"nvidia.com_gpu.shared": "32"})
        await world.until(lambda: reason(world) == "CompetingAllocator")
        assert "32 nvidia.com/gpu.shared" in world.condition("Ready")["message"]
        await world.until(lambda: healthy(world) == [0, 1])
        with pytest.raises(AdmissionRejectedError):
            await world.run("b", {"main": [2]})
        await world.kubelet.stop()
        world.kubelet.restart()
        await world.kubelet.start()
        await world.until(lambda: healthy(world) == [0, 1])
        await world.kubelet.admit(("default", "a"), {"main": 2})
        world.kubelet.checkpoint.pods["kube-system", "agent"] = {"deviceplugin": set()}
        world.kubelet.end(("default", "a"))
        await world.until(lambda: healthy(world) == [])
        await offer(world)
        await world.served()


async def test_a_pod_in_flight_gets_no_gpu_beside_another_allocator(unpolled: AgentWorld) -> None:
    world = unpolled
    async with world.agent() as agent:
        await world.served()
        await world.run("a", {"main": [0]})
        await offer(world, **{"nvidia.com_mig-1g.10gb": "7"})
        await world.until(lambda: healthy(world) == [0])
        await world.place("b", {"main": [1]})
        await world.until(lambda: len(agent.api.pods) == 2)
        world.kubelet.devices = dict.fromkeys(
            world.uuids, "Healthy"
        )  # kubelet has not seen the change yet
        with pytest.raises(AdmissionRejectedError, match=r"the node offers 7 nvidia.com/mig-1g"):
            await world.kubelet.admit(("default", "b"), {"main": 1})


async def test_resource_slices_of_nvidias_dra_driver_are_watched(unpolled: AgentWorld) -> None:
    world = unpolled
    async with world.agent():
        await world.served()
        world.api.put(SLICES, resource_slice(8, node="n2"))
        world.api.put(SLICES, resource_slice(8))
        await world.until(lambda: reason(world) == "CompetingAllocator")
        assert "gpu.nvidia.com publish 8 devices" in world.condition("Ready")["message"]
        await world.until(lambda: healthy(world) == [])
        world.api.delete(SLICES, "s")
        await world.served()


async def test_existing_slices_keep_the_agent_from_registering(
    unpolled: AgentWorld,
) -> None:
    world = unpolled
    world.api.put(SLICES, resource_slice(8))
    async with world.agent():
        await world.until(lambda: reason(world) == "CompetingAllocator")
        assert world.kubelet.registrations == 0


@pytest.mark.parametrize("status", [403, 404])
async def test_without_resource_slices_everything_else_works(
    world: AgentWorld,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(reflector, "UNSUPPORTED_SECONDS", 0.1)
    caplog.set_level("INFO")
    fault = Fault("GET", "/resourceslices", status, times=None)
    world.api.faults.append(fault)
    async with world.agent():
        await world.served()
        await world.until(lambda: world.api.lists(SLICES) >= 3)
        [line] = [each for each in caplog.messages if "not watched kind=resourceslices" in each]
        assert str(status) in line
        world.api.put(SLICES, resource_slice(8))
        world.api.faults.remove(fault)
        await world.until(lambda: reason(world) == "CompetingAllocator")


async def test_a_node_that_is_created_again_owns_the_topology_at_once(unpolled: AgentWorld) -> None:
    world = unpolled

    def owner() -> object:
        [reference] = world.published["metadata"]["ownerReferences"]
        return reference["uid"]

    async with world.agent():
        await world.served()
        assert owner() == "uid-node"
        world.api.delete(NODES, NODE, cascade=False)
        metadata = {"name": NODE, "uid": "uid-again"}
        world.api.put(NODES, {"kind": "Node", "metadata": metadata})
        await world.until(lambda: owner() == "uid-again")
