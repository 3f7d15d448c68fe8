"""Restarts and failures of parts: running pods keep their GPUs, and new pods get their own."""

import asyncio
import copy

import pytest

from support.agent.world import NODE, AgentWorld
from support.api.store import TOPOLOGIES
from support.kubelet.device_manager import AdmissionRejectedError


async def test_pods_that_kubelet_admits_before_the_agent_registers_leave_nothing_behind(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [0, 1]})
    await world.kubelet.stop()  # the node restarts
    await world.kubelet.start()
    with pytest.raises(AdmissionRejectedError, match="no healthy devices present"):
        await world.kubelet.admit(("default", "a"), {"main": 2})
    await world.set_phase("a", "Failed")
    async with world.agent():
        await world.served()
        assert "pod" not in world.observed(0)
        given = await world.run("b", {"main": [1, 0]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == f"{world.uuids[1]},{world.uuids[0]}"


async def test_an_upgrade_under_running_pods_changes_nothing(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [2]})
        await world.set_phase("a", "Running")
        await world.until(lambda: world.observed(2).get("podUID") == "uid-a")
    before = copy.deepcopy(world.published)
    async with world.agent():
        await world.until(lambda: world.kubelet.registrations == 2)
        await world.served()
        await asyncio.sleep(0.5)
        after = world.published
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        assert after["spec"] == before["spec"]
        assert after["status"]["gpus"] == before["status"]["gpus"]
        await world.kubelet.admit(("default", "a"), {"main": 1})  # it has its record: no call
        assert world.kubelet.checkpoint.pods["default", "a"]["main"] == {world.uuids[2]}
    assert world.events("GPUsDiffer") == []


async def test_a_gpu_that_fails_under_a_running_pod_stays_assigned_and_recovers(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [2, 3]})
        await world.set_phase("a", "Running")
        world.break_gpus("fault 2 15")
        await world.until(lambda: world.observed(2).get("healthy") is False)
        assert world.observed(2)["podUID"] == world.observed(3)["podUID"] == "uid-a"
        with pytest.raises(AdmissionRejectedError, match="is used by pod default/a"):
            await world.run("b", {"main": [2]})
        world.break_gpus()
        await world.served()
        await world.until(lambda: world.observed(2).get("healthy"))
        assert world.observed(2)["podUID"] == "uid-a"
        world.kubelet.end(("default", "a"))
        await world.set_phase("a", "Succeeded")
        given = await world.run("c", {"main": [2]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[2]
    assert world.events("GPUsDiffer") == []


async def test_links_that_change_under_a_running_pod_are_published_and_it_keeps_its_gpus(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [0, 3]})
        lines = world.conf.read_text().splitlines()
        new = world.conf.with_suffix(".new")
        new.write_text("\n".join(line for line in lines if not line.startswith("nvlink 0")) + "\n")
        new.rename(world.conf)
        await world.until(lambda: world.status.get("observedGeneration") == 2)
        assert world.observed(0)["podUID"] == "uid-a"
        given = await world.run("b", {"main": [1]})  # placed by the topology from before
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[1]


async def test_a_deleted_object_is_published_again_with_its_users(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [4]})
        await world.until(lambda: world.observed(4).get("podUID") == "uid-a")
        before = copy.deepcopy(world.published)
        world.api.delete(TOPOLOGIES, NODE)
        await world.until(lambda: world.observed(4).get("podUID") == "uid-a")
        assert world.published["spec"] == before["spec"]
        await world.served()
