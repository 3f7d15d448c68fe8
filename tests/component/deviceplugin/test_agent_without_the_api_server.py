"""A node whose kubelet reaches the API server and whose agent does not."""

import asyncio
from collections.abc import Collection

import pytest

from gputopo_deviceplugin.admit import offer
from gputopo_deviceplugin.apiserver import monitor
from gputopo_deviceplugin.report import reporter
from support.agent.world import AgentWorld
from support.api.store import PODS
from support.kubelet.device_manager import AdmissionRejectedError

SOON_SECONDS = 60.0


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "QUIET_SECONDS", 0.5)
    monkeypatch.setattr(monitor, "RESPONSE_SECONDS", 0.5)
    monkeypatch.setattr(monitor, "PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(monitor, "LOST_SECONDS", 1.2)
    monkeypatch.setattr(reporter, "_START_SECONDS", 1.0)
    monkeypatch.setattr(offer, "ADMITTED_SECONDS", 1.0)


def only(world: AgentWorld, healthy: Collection[int]) -> dict[str, str]:
    return {
        uuid: "Healthy" if index in healthy else "Unhealthy"
        for index, uuid in enumerate(world.uuids)
    }


async def devices(world: AgentWorld, healthy: Collection[int]) -> None:
    async with asyncio.timeout(SOON_SECONDS):
        await world.kubelet.wait_for_devices(only(world, healthy))


async def running(world: AgentWorld, name: str, *gpus: int) -> None:
    await world.run(name, {"main": gpus})
    await world.set_phase(name, "Running")


def connected(world: AgentWorld) -> float | None:
    return world.metrics.registry.get_sample_value("gputopo_agent_api_server_connected")


async def restart_kubelet(world: AgentWorld) -> None:
    """Restart kubelet, which lists no pod until it has read its pods from the API server."""
    await world.kubelet.stop()
    pods, world.kubelet.checkpoint.pods = world.kubelet.checkpoint.pods, {}
    registrations = world.kubelet.registrations
    await world.kubelet.start()
    await world.until(lambda: world.kubelet.registrations > registrations)
    await asyncio.sleep(0.5)  # the agent reads the empty list meanwhile
    world.kubelet.checkpoint.pods = pods
    world.kubelet.restart()


async def test_only_gpus_of_running_pods_are_offered_while_packets_are_dropped(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await running(world, "a", 0, 1)
        lists = world.api.lists(PODS)
        world.api.silent = world.api.mute = True  # connections stay open, and nothing is received
        await devices(world, {0, 1})
        with pytest.raises(AdmissionRejectedError, match="needed 1, available 0"):
            await world.kubelet.admit(("default", "new"), {"main": 1})
        await world.until(lambda: connected(world) == 0)
        await restart_kubelet(world)
        await devices(world, {0, 1})
        await world.kubelet.admit(("default", "a"), {"main": 2})  # again, by its record
        await world.place("b", {"main": [2]})
        assert world.api.lists(PODS) == lists
        world.api.silent = False  # the previous watch is still open and still mute
        await devices(world, range(8))
        assert world.api.lists(PODS) > lists
        given = await world.kubelet.admit(("default", "b"), {"main": 1})
        assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[2]
        await world.until(lambda: connected(world) == 1)


async def test_a_gpu_whose_pod_ends_meanwhile_is_not_offered_again(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await running(world, "a", 0)
        await running(world, "b", 1)
        world.api.silent = True
        await devices(world, {0, 1})
        world.kubelet.end(("default", "b"))
        await devices(world, {0})


async def test_a_failed_read_of_a_pod_proves_the_loss_at_once(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "QUIET_SECONDS", 3600.0)
    world.settings = world.settings.model_copy(update={"admission_timeout_seconds": 1.5})
    async with world.agent():
        await world.served()
        await world.place("a", {"main": [0]})
        world.api.silent = True
        with pytest.raises(AdmissionRejectedError):
            await world.kubelet.admit(("default", "a"), {"main": 1})
        await devices(world, ())


async def test_an_agent_that_starts_meanwhile_keeps_the_gpus_of_running_pods_healthy(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await running(world, "a", 3)
    world.api.silent = True
    world.break_gpus("fault 6 15")  # the new agent finds this GPU only in the state file
    async with world.agent():
        await devices(world, {3})
        with pytest.raises(AdmissionRejectedError):
            await world.kubelet.admit(("default", "new"), {"main": 1})
        await restart_kubelet(world)
        await devices(world, {3})
        await world.kubelet.admit(("default", "a"), {"main": 1})
        world.api.silent = False
        await devices(world, set(range(8)) - {6})
        await world.until(lambda: world.condition("Ready").get("status") == "True")
        await world.until(lambda: world.observed(6).get("healthy") is False)
        assert world.published["metadata"]["generation"] == 1


async def test_without_kubelets_list_such_an_agent_does_not_register(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await running(world, "a", 3)
    world.api.silent = True
    await world.kubelet.stop()
    socket = world.settings.pod_resources_socket
    await world.kubelet.start()
    unavailable = socket.with_name("away.sock")
    socket.rename(unavailable)
    registrations = world.kubelet.registrations
    async with world.agent():
        await asyncio.sleep(2.5)
        assert world.kubelet.registrations == registrations
        unavailable.rename(socket)
        await devices(world, {3})


async def test_a_loss_before_the_first_list_of_kubelet_changes_nothing(world: AgentWorld) -> None:
    socket = world.settings.pod_resources_socket
    unavailable = socket.with_name("away.sock")
    socket.rename(unavailable)
    async with world.agent():
        await devices(world, range(8))
        world.api.silent = True
        await world.until(lambda: connected(world) == 0)
        await asyncio.sleep(0.5)
        assert world.kubelet.devices == only(world, range(8))  # any may have a container
        unavailable.rename(socket)
        await devices(world, ())
