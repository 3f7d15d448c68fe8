"""Registration with kubelet, its repetition, and nodes without it."""

import asyncio
from pathlib import Path

import pytest

from support.agent.world import AgentWorld, agent_world
from support.api.faults import Fault
from support.api.store import NODES, PODS


async def test_a_new_kubelet_gets_the_gpus_again_and_running_pods_keep_theirs(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [0, 1]})
        await world.kubelet.stop()
        await world.kubelet.start()
        await world.served()
        assert world.kubelet.registrations == 2
        given = await world.run("b", {"main": [3]})
        assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[3]
        await world.until(lambda: world.observed(0).get("podUID") == "uid-a")


def sockets(world: AgentWorld) -> list[str]:
    return sorted(path.name for path in world.kubelet.plugin_dir.glob("gputopo.io-gpu*"))


async def test_a_deleted_socket_is_created_again(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        (world.kubelet.plugin_dir / world.kubelet.endpoints[0]).unlink()
        await world.until(lambda: world.kubelet.registrations == 2)
        await world.served()
        assert sockets(world) == [world.kubelet.endpoints[1]]


async def test_no_endpoint_registers_twice_because_kubelet_may_still_have_its_record(
    world: AgentWorld,
) -> None:
    world.kubelet.keeps_endpoints = True
    async with world.agent():
        await world.served()
        (world.kubelet.plugin_dir / world.kubelet.endpoints[0]).unlink()
        await world.until(lambda: world.kubelet.registrations == 2)
        await world.served()
    async with world.agent():
        await world.until(lambda: world.kubelet.registrations == 3)
        await world.served()
    assert world.kubelet.registrations_rejected == 0


async def test_after_a_rejection_the_agent_registers_another_endpoint(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputopo_deviceplugin.kubelet.registration._REJECTED_SECONDS", 0.05)
    world.kubelet.rejects_registration = True
    async with world.agent():
        await world.until(lambda: world.kubelet.registrations_rejected)
        first = sockets(world)
        await world.until(lambda: world.kubelet.registrations_rejected >= 3)
        world.kubelet.rejects_registration = False
        await world.served()
        assert sockets(world) == world.kubelet.endpoints
        assert sockets(world) != first


async def test_sockets_of_ended_agents_are_deleted_and_no_others(world: AgentWorld) -> None:
    others = ["gputopo.io-gpu2.sock", "gputopo.io-gpu-0123abcd.sock.bak", "nvidia-gpu.sock"]
    ended = ["gputopo.io-gpu.sock", "gputopo.io-gpu-0123abcd.sock"]
    for name in others + ended:
        (world.kubelet.plugin_dir / name).touch()
    async with world.agent():
        await world.served()
        left = {path.name for path in world.kubelet.plugin_dir.iterdir()}
        assert left == {*others, world.kubelet.endpoints[0], "kubelet.sock"}


async def test_the_agent_waits_for_a_kubelet_that_is_not_there_yet(world: AgentWorld) -> None:
    await world.kubelet.stop()
    async with world.agent():
        await world.until(lambda: world.condition("Ready").get("reason") == "NotRegistered")
        assert not world.pulse.ready
        await world.until(lambda: sockets(world))
        served = sockets(world)
        await asyncio.sleep(1.0)  # several attempts to register
        assert sockets(world) == served
        await world.kubelet.start()
        await world.served()
        await world.until(lambda: world.condition("Ready").get("status") == "True")
        await world.until(lambda: world.pulse.ready)


async def test_a_kubelet_that_rejects_the_agent_is_called_again_after_a_pause(
    world: AgentWorld,
) -> None:
    world.kubelet.rejects_registration = True
    async with world.agent():
        await world.until(lambda: world.kubelet.registrations_rejected)
        await asyncio.sleep(1.0)
        assert world.kubelet.registrations_rejected == 1
        world.kubelet.rejects_registration = False
        await world.served()


async def test_repeated_rejections_of_the_agent_are_logged_once(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("gputopo_deviceplugin.kubelet.registration._REJECTED_SECONDS", 0.05)
    world.kubelet.rejects_registration = True
    async with world.agent():
        await world.until(lambda: world.kubelet.registrations_rejected >= 3)
        world.kubelet.rejects_registration = False
        await world.served()
    assert sum("not registered" in each for each in caplog.messages) == 1


async def test_rejected_watches_do_not_cause_a_list_of_pods_each_second(
    world: AgentWorld,
) -> None:
    world.api.faults.append(Fault("GET", "watch=true", 503, times=None))
    async with world.agent():
        await asyncio.sleep(6.0)
        # After 1, 2 and 4 seconds or half of that: an outage finds every node's agent here.
        assert world.api.lists(PODS) <= 4
        await world.until(lambda: world.api.lists(PODS) >= 2)
        world.api.faults.clear()
        await world.run("a", {"main": [0]})


async def test_a_second_agent_takes_over_from_the_first(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [2]})
    async with world.agent():
        await world.until(lambda: world.kubelet.registrations == 2)
        await world.served()
        given = await world.run("b", {"main": [4]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[4]


async def test_gpus_that_another_plugin_serves_are_not_served(world: AgentWorld) -> None:
    node = world.node_object
    world.api.put(NODES, {**node, "status": {"allocatable": {"nvidia.com/gpu": "8"}}})
    async with world.agent():
        await world.until(lambda: world.condition("Ready").get("reason") == "CompetingAllocator")
        assert "the node offers 8 nvidia.com/gpu" in world.condition("Ready")["message"]
        assert world.kubelet.registrations == 0
        world.api.put(NODES, {**node, "status": {"allocatable": {"nvidia.com/gpu": "0"}}})
        await world.served()
        world.api.put(NODES, {**node, "status": {"allocatable": {"nvidia.com/gpu": "1"}}})
        await world.until(lambda: set(world.kubelet.devices.values()) == {"Unhealthy"})


async def test_a_node_without_the_driver_is_idle_until_it_is_installed(world: AgentWorld) -> None:
    moved = world.conf.with_name("away.conf")
    world.conf.rename(moved)
    async with world.agent():
        await world.until(lambda: world.pulse.ready)
        assert world.kubelet.registrations == 0
        assert not world.is_published
        moved.rename(world.conf)
        await world.served()
        await world.until(lambda: world.condition("Ready").get("status") == "True")


async def test_a_missing_library_folder_counts_as_a_missing_driver(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")  # so that it is unset after the test
    driver = short_directory / "run" / "nvidia" / "driver"
    async with agent_world(short_directory, driver / "lib") as world, world.agent():
        await world.until(lambda: world.pulse.ready)
        assert world.kubelet.registrations == 0
        assert not world.is_published
        # A driver container has started.
        driver.mkdir(parents=True)
        (driver / "lib").symlink_to(library_dir)
        await world.served()


async def test_a_node_without_gpus_is_idle(world: AgentWorld) -> None:
    world.conf.write_text("driver 550.54.15\n")
    async with world.agent():
        await world.until(lambda: world.pulse.ready)
        assert world.kubelet.registrations == 0
        assert not world.is_published


async def test_a_node_without_gpus_sends_no_requests_until_its_driver_is_loaded(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")  # so that it is unset after the test
    driver = short_directory / "driver"
    async with agent_world(
        short_directory, driver / "lib", retry_seconds=0.1, resync_seconds=0.1
    ) as world:
        async with world.agent() as agent:
            await world.until(lambda: world.pulse.ready)
            await world.until(lambda: not agent.api.connection.responding.is_set())
            requests = len(world.api.requests)
            await asyncio.sleep(0.5)  # several resyncs
            assert len(world.api.requests) == requests
            await world.until(lambda: not agent.api.connection.connected)
            driver.mkdir(parents=True)
            (driver / "lib").symlink_to(library_dir)
            await world.served()
            await world.until(lambda: agent.api.connection.connected)
        assert world.kubelet.registrations == 1


async def test_no_socket_is_left_behind(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
    assert sockets(world) == []
