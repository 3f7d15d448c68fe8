"""The agent limits containers to CPUs near their GPUs, with the code of containerd's NRI.

The kubelet is the device manager on real sockets, and an HTTPS server with its configuration. The
container runtime is the program ``tools/nrioracle``.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gputopo_deviceplugin.nri.v1alpha1 import api_pb2 as api
from support.agent.nri import NriRuntime, in_runtime, nri_runtime, sandbox
from support.agent.world import AgentWorld, agent_world
from support.api.store import NODES
from support.kubelet.configz import KubeletConfigServer, config_server

CPUS = {0: "0-3", 1: "4-7"}


@pytest.fixture(autouse=True)
def cpus_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the agent run on the CPUs of the made-up machine."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(8)})


@asynccontextmanager
async def nri_world(
    directory: Path, library_dir: Path
) -> AsyncIterator[tuple[AgentWorld, KubeletConfigServer]]:
    """Run the fakes of a node with two NUMA nodes of 4 CPUs each."""
    folder = directory / "sys/devices/system"
    for number, cpus in CPUS.items():
        (folder / f"node/node{number}").mkdir(parents=True)
        (folder / f"node/node{number}/cpulist").write_text(f"{cpus}\n")
    (folder / "cpu").mkdir()
    (folder / "cpu/online").write_text("0-7\n")
    settings: dict[str, Any] = {
        "nri_socket": directory / "nri.sock",
        "service_account_dir": directory / "account",
    }
    async with (
        config_server(directory / "account") as config,
        agent_world(directory, library_dir, **settings) as world,
    ):
        world.api.put(NODES, {**world.node_object, "status": config.node_status})
        yield world, config


def bound(world: AgentWorld) -> Mapping[str, Any]:
    return world.condition("CPUsBound")


def metric(world: AgentWorld, name: str, **labels: str) -> float | None:
    return world.metrics.registry.get_sample_value(f"gputopo_agent_{name}", labels)


async def create(
    runtime: NriRuntime, world: AgentWorld, name: str, *gpus: int, milli: int = 0
) -> str:
    """Create a container with these GPUs, and return its CPUs."""
    pod = sandbox(name, {"main": [world.uuids[index] for index in gpus]})
    reply = await runtime.do("create", pod, in_runtime(pod, milli=milli))
    assert not reply.get("error")
    return str(reply.get("adjust", ""))


def named(name: str) -> api.Container:
    return api.Container(id=f"{name}-main")


async def test_containers_run_on_the_cpus_of_their_gpus(
    short_directory: Path, library_dir: Path
) -> None:
    async with (
        nri_world(short_directory, library_dir) as (world, _),
        nri_runtime(short_directory / "nri.sock") as runtime,
    ):
        missed = sandbox("missed", {"main": [world.uuids[5]]})
        await runtime.do("seed", missed, in_runtime(missed))
        async with world.agent():
            await world.served()
            assert (await runtime.synchronized())["updates"] == {"missed-main": CPUS[1]}
            await world.until(lambda: bound(world).get("reason") == "Connected")
            assert await create(runtime, world, "a", 0, 3, milli=3000) == CPUS[0]
            assert await create(runtime, world, "b", 6) == CPUS[1]
            assert await create(runtime, world, "c", 3, 4) == ""
            assert await create(runtime, world, "d", 1, milli=2000) == ""
            await world.until(lambda: "default/d/main: its NUMA" in bound(world)["message"])
            await world.until(lambda: metric(world, "unbound_containers") == 1)
            stopped = await runtime.do("stop", container=named("a"))
            assert stopped["updates"] == {"d-main": CPUS[0]}
            raised = await runtime.do("update", container=named("d"), shares=8 * 1024)
            assert raised["updates"] == {"d-main": "0-7"}
            await runtime.do("remove", container=named("d"))
            assert metric(world, "cpusets_total", result="set") == 2
            assert metric(world, "cpusets_total", result="repaired") == 2
            assert metric(world, "cpusets_total", result="released") == 1
        # Without the agent a container starts as ever, and the next agent limits it.
        assert await create(runtime, world, "e", 2) == ""
        async with world.agent():
            known = {"missed-main": CPUS[1], "b-main": CPUS[1]}
            assert (await runtime.synchronized())["updates"] == {**known, "e-main": CPUS[0]}


async def test_a_container_that_was_starting_is_limited_after_its_start(
    short_directory: Path, library_dir: Path
) -> None:
    async with (
        nri_world(short_directory, library_dir) as (world, _),
        nri_runtime(short_directory / "nri.sock") as runtime,
    ):
        for name, cpus in (("a", ""), ("b", CPUS[1])):
            pod = sandbox(name, {"main": [world.uuids[5]]})
            await runtime.do("seed", pod, in_runtime(pod, cpus=cpus, state=api.CONTAINER_CREATED))
        async with world.agent():
            both = {"a-main": CPUS[1], "b-main": CPUS[1]}
            assert (await runtime.synchronized())["updates"] == both
            for name in ("a", "b"):
                started = await runtime.do("start", container=named(name))
                assert not started.get("error")
                assert (await runtime.updated())["updates"] == {f"{name}-main": CPUS[1]}
            assert metric(world, "cpusets_total", result="repaired") == 1


async def test_the_agent_connects_again_after_a_restart_of_the_runtime(
    short_directory: Path, library_dir: Path
) -> None:
    socket = short_directory / "nri.sock"
    async with nri_world(short_directory, library_dir) as (world, _), world.agent():
        await world.until(lambda: "No such file" in bound(world).get("message", ""))
        assert bound(world)["reason"] == "NRIUnavailable"
        for _ in range(2):
            async with nri_runtime(socket) as runtime:
                await runtime.synchronized()
                assert await create(runtime, world, "a", 7) == CPUS[1]
                await world.until(lambda: metric(world, "nri_connected") == 1)
            await world.until(lambda: bound(world).get("reason") == "NRIUnavailable")
            await world.until(lambda: metric(world, "nri_connected") == 0)


async def test_a_list_of_containers_may_be_longer_than_a_message(
    short_directory: Path, library_dir: Path
) -> None:
    async with (
        nri_world(short_directory, library_dir) as (world, _),
        nri_runtime(short_directory / "nri.sock") as runtime,
    ):
        long = ["A=" + "x" * 40_000]
        for number in range(150):
            pod = sandbox(f"p{number}", {"main": [world.uuids[number % 8]]})
            await runtime.do("seed", pod, in_runtime(pod, env=long))
        async with world.agent():
            found = await runtime.synchronized()
        assert not found.get("error")
        assert found["updates"] == {
            f"p{number}-main": CPUS[number % 8 // 4] for number in range(150)
        }


async def test_with_another_cpu_manager_the_agent_does_not_connect(
    short_directory: Path, library_dir: Path
) -> None:
    async with (
        nri_world(short_directory, library_dir) as (world, config),
        nri_runtime(short_directory / "nri.sock") as runtime,
    ):
        config.cpu_manager = "static"
        async with world.agent():
            await world.until(lambda: bound(world).get("reason") == "CPUManagerNotNone")
            assert await create(runtime, world, "a", 7) == ""
            await world.served()
            await world.kubelet.stop()
            config.cpu_manager = "none"
            await world.kubelet.start()
            assert (await runtime.synchronized())["updates"] == {"a-main": CPUS[1]}
            await world.until(lambda: bound(world).get("reason") == "Connected")
            await world.served()
            await world.kubelet.stop()
            config.cpu_manager = "static"
            await world.kubelet.start()
            await world.until(lambda: bound(world).get("reason") == "CPUManagerNotNone")
            assert await create(runtime, world, "b", 7) == ""


async def test_by_default_the_agent_has_no_such_condition(
    short_directory: Path, library_dir: Path
) -> None:
    async with agent_world(short_directory, library_dir) as world, world.agent():
        await world.served()
        assert bound(world) == {}
