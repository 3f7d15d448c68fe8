"""Kubelet starts without its records of the GPUs of running pods."""

from pathlib import Path
from typing import Any

import pytest

from gputopo_kube.document import ObjectKey
from support.agent.world import AgentWorld, agent_world
from support.api.store import PODS


def reason(world: AgentWorld) -> object:
    return world.condition("Ready").get("reason")


def healthy(world: AgentWorld) -> list[int]:
    return [i for i, uuid in enumerate(world.uuids) if world.kubelet.devices.get(uuid) == "Healthy"]


async def running(world: AgentWorld, name: str, *gpus: int) -> None:
    await world.run(name, {"main": gpus})
    await world.set_phase(name, "Running")


async def restart_without_records(world: AgentWorld, *names: str, lists_pods: bool = True) -> None:
    registrations = world.kubelet.registrations
    await world.kubelet.stop()
    for name in names:
        world.kubelet.checkpoint.pods["default", name] = {"main": set()}
    if not lists_pods:
        world.kubelet.checkpoint.pods = {}
    world.kubelet.restart()
    await world.kubelet.start()
    await world.until(lambda: world.kubelet.registrations > registrations)


async def test_the_node_is_not_offered_until_the_pods_without_record_have_ended(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await running(world, "a", 0, 1)
        await running(world, "b", 2)
        await running(world, "c", 3)
        await restart_without_records(world, "a", "b")
        await world.until(lambda: reason(world) == "KubeletRecordsLost")
        message = world.condition("Ready")["message"]
        assert "default/a, default/b; delete them or drain the node" in message
        await world.until(lambda: len(world.events("GPUsDiffer")) == 2)
        await world.until(lambda: healthy(world) == [0, 1, 2, 3])
        assert [world.observed(index).get("pod") for index in range(5)] == [
            "a",
            "a",
            "b",
            "c",
            None,
        ]
        assert world.observed(0)["podUID"] == "uid-a"
        world.kubelet.end(("default", "a"))
        await world.set_phase("a", "Succeeded")
        await world.until(lambda: "default/a" not in world.condition("Ready")["message"])
        assert reason(world) == "KubeletRecordsLost"
        world.kubelet.end(("default", "b"))
        await world.set_phase("b", "Succeeded")
        await world.served()
        await world.run("d", {"main": [2]})


async def compared(world: AgentWorld) -> None:
    """Wait until the agent has compared a list that kubelet served after this call."""
    enough = world.kubelet.lists_served + 3  # one in flight, one whole, the next
    await world.until(lambda: world.kubelet.lists_served >= enough)


async def test_pods_in_admission_and_pods_that_end_do_not_count_as_lost(world: AgentWorld) -> None:
    async with world.agent() as agent:
        await world.served()
        await running(world, "ends", 0)
        await restart_without_records(world)
        await compared(world)
        # Kubelets before 1.34 still list a pod that has ended, and its phase changes later.
        world.kubelet.checkpoint.pods["default", "ends"] = {"main": set()}
        await world.place("comes", {"main": [1]})
        world.kubelet.checkpoint.pods["default", "comes"] = {"main": set()}
        await world.until(lambda: world.condition("AllocationsAsPlaced").get("status") == "False")
        assert not agent.admit.tracker.lost
        assert reason(world) == "Serving"


async def test_a_deleted_pod_without_record_does_not_count_as_lost(world: AgentWorld) -> None:
    async with world.agent() as agent:
        await world.served()
        await running(world, "a", 0)
        pod = world.api.pod("a")
        deleted = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        world.api.put(PODS, {**pod, "metadata": deleted})
        await restart_without_records(world, "a")
        await world.until(lambda: world.condition("AllocationsAsPlaced").get("status") == "False")
        assert agent.api.pods[ObjectKey("default", "a")].deleting
        assert not agent.admit.tracker.lost


async def test_a_pod_without_record_gets_its_own_gpus_when_kubelet_admits_it_again(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await running(world, "a", 4, 5)
        await restart_without_records(world, "a")
        await world.until(lambda: healthy(world) == [4, 5])
        given = await world.kubelet.admit(("default", "a"), {"main": 2})
        gpus = f"{world.uuids[4]},{world.uuids[5]}"
        assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == gpus
        await world.served()


async def test_records_that_kubelet_lost_are_reported_soon_after_its_start(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    pauses: Any = {"observe_seconds": 300.0, "resync_seconds": 300.0}
    async with agent_world(short_directory, library_dir, **pauses) as world, world.agent():
        await world.served()
        await running(world, "a", 0, 1)
        pods = world.kubelet.checkpoint.pods
        # Kubelet lists its pods one by one as it admits them again.
        await restart_without_records(world, lists_pods=False)
        await compared(world)
        world.kubelet.checkpoint.pods = {key: {"main": set()} for key in pods}
        await world.until(lambda: reason(world) == "KubeletRecordsLost")
