"""Rates and samples in the status of the GPUTopology."""

import asyncio
import itertools
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from gputopo.api.names import STEPS_DIRECTORY, STEPS_SOURCE_ANNOTATION
from support.agent.world import NODE, AgentWorld, agent_world
from support.api.store import PODS, TOPOLOGIES, Document

SAMPLE: Document = {
    "namespace": "default",
    "profile": "bert",
    "podUID": "uid-former",
    "container": "main",
    "time": "2026-01-01T00:00:00Z",
    "seconds": 60,
    "source": "SDK",
    "microStepsPerSecond": 12_500_000,
    "ciPermille": 20,
    "gpuModel": "H100",
    "gpus": 2,
    "imageDigest": "sha256:1a2b",
    "socketNeighbours": [],
    "nodeNeighbours": [],
}


@pytest.fixture
async def world(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AgentWorld]:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    logs = short_directory / "logs"
    async with agent_world(
        short_directory, library_dir, measure_publish_seconds=0.2, pod_logs_dir=logs
    ) as world:
        yield world


async def socket_of(world: AgentWorld, name: str, gpus: list[int]) -> Path:
    """Run a pod, and return the host's path of the socket in its container."""
    response = (await world.run(name, {"main": gpus}))["main"]
    await world.set_phase(name, "Running")
    [mount] = response.mounts
    assert mount.container_path == STEPS_DIRECTORY
    return Path(mount.host_path) / "socket"


@asynccontextmanager
async def training(path: Path) -> AsyncIterator[None]:
    """Send messages until the block ends."""

    async def send() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            for steps in itertools.count():
                message = {"v": 1, "run": "r", "steps": steps, "seconds": steps / 10}
                with suppress(BlockingIOError, ConnectionRefusedError, FileNotFoundError):
                    sender.sendto(json.dumps(message).encode(), str(path))
                await asyncio.sleep(0.1)

    task = asyncio.create_task(send())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def measured(world: AgentWorld) -> dict[str, str]:
    """Return the published state of each pod."""
    return {each["pod"]: each["state"] for each in world.status.get("measurements", [])}


async def test_each_container_with_gpus_has_a_measurement_until_it_ends(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        path = await socket_of(world, "a", [0, 1])
        await socket_of(world, "b", [2])
        await world.until(lambda: measured(world) == {"a": "NoData", "b": "NoData"})
        async with training(path):
            await world.until(lambda: measured(world) == {"a": "WarmUp", "b": "NoData"})
        assert world.status["measurements"][0] == {
            "namespace": "default",
            "pod": "a",
            "podUID": "uid-a",
            "container": "main",
            "gpus": 2,
            "source": "SDK",
            "state": "WarmUp",
            "profiling": [],
        }
        await world.force_delete("a")
        await world.until(lambda: measured(world) == {"b": "NoData"})
        await world.until(lambda: not path.parent.exists())


async def test_a_new_agent_keeps_the_samples_of_the_former_one(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        path = await socket_of(world, "a", [0])
        await world.until(lambda: measured(world) == {"a": "NoData"})
    document = world.published
    document["status"]["samples"] = [SAMPLE]
    world.api.put(TOPOLOGIES, document)
    async with world.agent(), training(path):
        await world.until(lambda: measured(world) == {"a": "WarmUp"})
        assert world.status["samples"] == [SAMPLE]
    assert world.published["metadata"]["name"] == NODE


async def test_a_killed_agent_leaves_the_socket_and_its_successor_opens_it(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        path = await socket_of(world, "a", [0])
    async with training(path):
        async with world.agent():
            await world.until(lambda: measured(world) == {"a": "WarmUp"})
        assert path.exists()


async def test_steps_in_the_log_of_a_container_are_counted(world: AgentWorld) -> None:
    assert world.settings.pod_logs_dir is not None
    log = world.settings.pod_logs_dir / "default_a_uid-a/main/0.log"
    log.parent.mkdir(parents=True)
    log.touch()
    async with world.agent():
        await world.served()
        await world.place("a", {"main": [0]})
        pod = world.api.pod("a")
        pod["metadata"]["annotations"][STEPS_SOURCE_ANNOTATION] = "Log"
        world.api.put(PODS, pod)
        response = (await world.kubelet.admit(("default", "a"), {"main": 1}))["main"]
        assert [*response.mounts] == []
        await world.until(lambda: measured(world) == {"a": "NoData"})

        def logged() -> bool:
            with log.open("a") as file:
                file.write("2026-01-01T00:00:00Z stdout F gputopo-steps 1\n")
            return measured(world) == {"a": "WarmUp"}

        await world.until(logged)
