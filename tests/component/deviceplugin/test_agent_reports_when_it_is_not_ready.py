"""The agent publishes that it is not ready: it ends, or kubelet does not watch it."""

import asyncio
import copy
import time

import pytest

from gputopo_cluster.topologies import GpuNode, parse_gpu_node
from gputopo_deviceplugin.kubelet import registration
from gputopo_deviceplugin.report import reporter
from support.agent.world import AgentWorld
from support.api.store import TOPOLOGIES
from support.kubelet.device_manager import AdmissionRejectedError


def not_ready(world: AgentWorld) -> str | None:
    """Return why the node is not ready, as the extender parses it."""
    found = parse_gpu_node(world.published)
    assert isinstance(found, GpuNode)
    return found.not_ready


async def test_an_agent_publishes_that_it_ends_and_serves_pods_in_flight(
    world: AgentWorld,
) -> None:
    world.settings = world.settings.model_copy(update={"drain_seconds": 10.0})
    async with world.agent() as agent:
        await world.served()
        await world.run("a", {"main": [0]})
        await world.until(lambda: world.observed(0).get("podUID") == "uid-a")
        assert not_ready(world) is None
        before = copy.deepcopy(world.published)
        stopping = asyncio.create_task(agent.stop())
        await world.until(lambda: world.condition("Ready")["reason"] == "Stopping")
        assert not_ready(world) == (
            "the node's agent is not ready: Stopping: the agent is stopping; "
            "the node is ready again when its next agent runs"
        )
        assert not stopping.done()
        await world.run("late", {"main": [1]})
        await stopping
        after = world.published
        assert after["spec"] == before["spec"]
        assert after["status"]["gpus"] == before["status"]["gpus"]
        assert after["status"]["conditions"][1:] == before["status"]["conditions"][1:]
    assert world.condition("Ready")["reason"] == "Stopping"
    await world.until(lambda: "Healthy" not in world.kubelet.devices.values())
    with pytest.raises(AdmissionRejectedError, match="no healthy devices"):
        await world.run("meanwhile", {"main": [2]})


async def test_the_next_agent_publishes_that_it_is_ready(world: AgentWorld) -> None:
    for _ in range(2):
        async with world.agent() as agent:
            await world.served()
            assert not_ready(world) is None
            await agent.stop()
        assert "Stopping" in str(not_ready(world))


async def test_an_agent_that_ends_does_not_overwrite_its_successor(world: AgentWorld) -> None:
    async with world.agent() as agent:
        await world.served()
        document = copy.deepcopy(world.published)
        document["status"]["gpus"][0]["reason"] = "written by another agent"
        world.api.put(TOPOLOGIES, document)
        await agent.stop()
        assert world.condition("Ready")["status"] == "True"


async def test_a_label_of_another_client_does_not_prevent_the_write(
    world: AgentWorld,
) -> None:
    async with world.agent() as agent:
        await world.served()
        document = copy.deepcopy(world.published)
        document["metadata"]["labels"] = {"team": "a"}
        world.api.put(TOPOLOGIES, document)
        await agent.stop()
        assert world.condition("Ready")["reason"] == "Stopping"
        assert world.published["metadata"]["labels"] == {"team": "a"}


async def test_a_node_without_an_object_publishes_no_end(world: AgentWorld) -> None:
    world.conf.write_text("driver 550.54.15\n")
    async with world.agent() as agent:
        await world.until(lambda: world.pulse.ready)
        await agent.stop()
    assert not world.is_published


@pytest.mark.parametrize("fault", ["down", "silent"])
async def test_an_unavailable_api_server_does_not_delay_the_end(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(reporter, "_WITHDRAW_SECONDS", 0.5)
    async with world.agent() as agent:
        await world.served()
        setattr(world.api, fault, True)
        began = time.monotonic()
        await agent.stop()
        assert time.monotonic() - began < 10
        await world.until(lambda: not world.api.waiting)
        setattr(world.api, fault, False)
        await asyncio.sleep(0.5)
        assert world.condition("Ready")["status"] == "True"


async def test_a_node_is_not_ready_after_kubelet_ends_until_it_watches_again(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.kubelet.stop()
        await world.until(lambda: world.condition("Ready")["status"] == "False")
        assert world.condition("Ready")["reason"] in {"NotHeard", "NotRegistered"}
        assert not_ready(world) is not None
        await world.kubelet.start()
        await world.served()
        assert not_ready(world) is None
        await world.run("a", {"main": [0]})


async def test_a_node_is_not_ready_after_kubelet_drops_the_agent_until_it_is_registered_again(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "_UNWATCHED_CHECKS", 5)
    async with world.agent():
        await world.served()
        await world.kubelet.forget_plugin()
        await world.until(lambda: world.condition("Ready")["reason"] == "NotHeard")
        await world.until(lambda: world.kubelet.registrations == 2)
        await world.served()
