"""The GPUTopology, with an unavailable API server or writes of another client."""

import pytest

from gputopo_deviceplugin.report import reporter
from support.agent.world import NODE, AgentWorld
from support.api.faults import Fault
from support.api.store import TOPOLOGIES


def failures(world: AgentWorld, of: str) -> float:
    """Return the number of these failures."""
    name = "gputopo_agent_failures_total"
    return world.metrics.registry.get_sample_value(name, {"of": of}) or 0.0


async def test_changes_during_an_outage_of_the_api_server_are_published_afterwards(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        world.api.down = True
        world.break_gpus("fault 2 15")
        tried = ("publish", "resync", "event")
        await world.until(lambda: all(failures(world, of) for of in tried))
        world.api.down = False
        await world.until(lambda: world.observed(2).get("healthy") is False)
        assert world.condition("GPUsHealthy")["status"] == "False"


async def test_an_invalid_object_is_replaced(world: AgentWorld) -> None:
    metadata = {"name": NODE, "generation": 3}
    spoiled = {"metadata": metadata, "spec": {"gpus": [{"uuid": ""}]}, "status": {"gpus": 3}}
    world.api.put(TOPOLOGIES, spoiled)
    async with world.agent():
        await world.served()
    assert world.observed(0)["uuid"] == world.uuids[0]
    assert world.published["metadata"]["generation"] == 4


async def test_a_topology_that_cannot_be_read_at_the_start_is_read_again(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "_RETRY_SECONDS", 0.1)
    world.api.faults.append(Fault(".*", rf"/gputopologies/{NODE}(\?|$)", 503, times=None))
    async with world.agent():
        await world.until(lambda: failures(world, "contact") >= 2)
        assert world.kubelet.registrations == 0
        world.api.faults.clear()
        await world.served()
