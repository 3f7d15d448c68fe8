"""A call of NVML that does not return, as when the driver or the GPU's firmware hangs."""

import asyncio

import pytest

from support.agent.world import AgentWorld

FAULT = "NVML does not respond: "


@pytest.fixture
def world(impatient: AgentWorld) -> AgentWorld:
    return impatient


def all_unhealthy(world: AgentWorld) -> bool:
    return set(world.kubelet.devices.values()) == {"Unhealthy"}


async def test_all_gpus_are_unhealthy_until_the_call_returns(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        world.break_gpus("hang")
        await world.until(lambda: all_unhealthy(world))
        await world.until(lambda: world.condition("Ready").get("status") == "False")
        ready = world.condition("Ready")
        assert ready["reason"] == "NVMLUnavailable"
        assert ready["message"].startswith(FAULT)
        assert world.condition("GPUsHealthy")["status"] == "False"
        assert all(gpu["reason"].startswith(FAULT) for gpu in world.status["gpus"])
        await world.until(lambda: len(world.events("GPUUnhealthy")) == 8)
        assert world.pulse.failure
        world.break_gpus()
        await world.served()
        assert world.pulse.failure is None


async def test_an_xid_that_a_late_call_reports_is_not_lost(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        world.break_gpus("hang")
        await world.until(lambda: all_unhealthy(world))
        world.break_gpus("xid 3 95")
        await world.until(lambda: world.observed(4).get("healthy") is True)
        await world.until(lambda: "XID 95" in world.observed(3).get("reason", ""))
        assert world.kubelet.devices[world.uuids[3]] == "Unhealthy"


async def test_a_hang_at_start_publishes_the_known_gpus_as_unhealthy(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
    spec = world.published["spec"]
    world.break_gpus("hang")
    async with world.agent():
        await world.until(lambda: all_unhealthy(world))
        await world.until(lambda: world.condition("Ready").get("reason") == "NVMLUnavailable")
        assert world.published["spec"] == spec
        assert world.pulse.failure
        world.break_gpus()
        await world.served()


async def test_a_hang_at_start_without_a_known_topology_serves_nothing(world: AgentWorld) -> None:
    world.break_gpus("hang")
    async with world.agent():
        await world.until(lambda: world.pulse.failure is not None)
        await asyncio.sleep(0.5)
        assert world.kubelet.registrations == 0
        assert not world.is_published
        world.break_gpus()
        await world.served()


async def test_an_agent_that_ends_during_a_hang_makes_no_further_call(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        world.break_gpus("hang")
        await world.until(lambda: all_unhealthy(world))
    world.break_gpus()
    async with world.agent():
        await world.served()
