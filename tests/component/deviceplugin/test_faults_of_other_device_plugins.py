"""Faults that other device plugins had on the node; docs/develop/scenarios.md lists all of them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api
from support.agent.world import AgentWorld, annotation_of, pod_document
from support.api.store import PODS
from support.kubelet.device_manager import AdmissionRejectedError


async def test_a_pod_deleted_between_bind_and_allocate_gets_nothing_and_blocks_no_pod(
    world: AgentWorld,
) -> None:
    async with world.agent() as agent:
        await world.served()
        await world.place("a", {"main": [1]})
        await world.until(lambda: len(agent.api.pods) == 1)
        world.api.delete(PODS, "a")
        with pytest.raises(AdmissionRejectedError, match="no pod of this node waits for 1 GPUs"):
            await world.kubelet.admit(("default", "a"), {"main": 1})
        given = await world.run("b", {"main": [1]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[1]


async def test_a_manual_annotation_takes_no_gpu_of_another_pod(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [1]})
        world.kubelet.checkpoint.allocated.clear()  # even if kubelet offers it
        own = annotation_of("thief", {"main": [world.uuids[1]]})
        world.api.put(PODS, pod_document("thief", {"main": 1}, annotation=own))
        with pytest.raises(AdmissionRejectedError, match="is used by pod default/a"):
            await world.kubelet.admit(("default", "thief"), {"main": 1})


class Meddled:
    """A plugin that runs an action between Allocate and kubelet's record of it."""

    def __init__(self, plugin: Any, meanwhile: Callable[[], None]) -> None:
        self.GetPreferredAllocation = plugin.GetPreferredAllocation
        self._plugin = plugin
        self._meanwhile = meanwhile

    async def Allocate(self, request: api.AllocateRequest) -> api.AllocateResponse:  # noqa: N802
        reply: api.AllocateResponse = await self._plugin.Allocate(request)
        self._meanwhile()
        return reply


async def test_a_list_inside_allocate_while_another_pod_ends_allocates_no_gpu_twice(
    world: AgentWorld,
) -> None:
    def meanwhile() -> None:
        world.kubelet.end(("default", "old"))
        world.kubelet.listed()  # by another client

    async with world.agent():
        await world.served()
        await world.run("old", {"main": [0]})
        plugin = world.kubelet.plugin
        world.kubelet.plugin = Meddled(plugin, meanwhile)
        await world.run("a", {"main": [1]})
        world.kubelet.plugin = plugin
        assert world.uuids[1] not in world.kubelet.checkpoint.allocated  # kubelet's fault is there
        with pytest.raises(AdmissionRejectedError, match="is used by pod default/a"):
            await world.run("b", {"main": [1]})
        given = await world.run("c", {"main": [2]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[2]


async def test_a_pod_that_kubelet_rejected_early_is_not_identified_as_the_next_one(
    world: AgentWorld,
) -> None:
    async with world.agent() as agent:
        await world.served()
        await world.place("rejected", {"main": [0]})
        await world.until(lambda: len(agent.api.pods) == 1)
        # Kubelets before 1.34 continue to list it.
        world.kubelet.checkpoint.pods["default", "rejected"] = {"main": set()}
        world.api.mute = True
        await world.set_phase("rejected", "Failed")
        given = await world.run("b", {"main": [1]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[1]


async def test_equal_pods_bound_in_another_order_than_created_get_their_own_gpus(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.place("created-second", {"main": [4]})
        await world.place("created-first", {"main": [5]})
        await asyncio.sleep(0.1)
        for name, gpu in (("created-first", 5), ("created-second", 4)):
            given = await world.kubelet.admit(("default", name), {"main": 1})
            assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[gpu]
        assert world.events("GPUsDiffer") == []
