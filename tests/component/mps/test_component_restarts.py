"""A component that is killed at any moment leaves no GPU that it does not serve."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.mps.world import MpsWorld, pod_uid

ROOT = Path(__file__).parents[3]


@asynccontextmanager
async def victims(world: MpsWorld) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start the program whose processes are killed while they work."""
    folders = (ROOT / "tests", ROOT / "tools", ROOT)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "support.mps.killed"),
        *(world.settings.model_dump_json(), world.uuids[0]),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def is_killed_at(process: asyncio.subprocess.Process, operation: str, number: int) -> bool:
    """Work until the change of this number; return whether there was one."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{operation} {number}\n".encode())
    line = await process.stdout.readline()
    assert line in {b"killed\n", b"done\n"}
    return line == b"killed\n"


@pytest.mark.parametrize(
    ("operation", "ends"), [("start", [None, "Ready"]), ("stop", ["Ready", None])]
)
async def test_after_a_kill_at_any_change_a_gpu_is_served_or_as_found(
    world: MpsWorld, operation: str, ends: list[str | None]
) -> None:
    found: list[str | None] = []
    async with victims(world) as process:
        is_killed = True
        while is_killed:  # the last time, the operation has ended
            is_killed = await is_killed_at(process, operation, len(found) + 1)
            async with world.running():
                found.append((await world.shared(0)).get("state"))
                check_served_or_as_found(world, is_served=found[-1] == "Ready")
                await world.call("DELETE", f"/gpus/{world.uuids[0]}")
                check_served_or_as_found(world, is_served=False)
    assert len(found) > 8
    assert list(dict.fromkeys(found)) == ends
    assert found.count("Ready") + found.count(None) == len(found)


def check_served_or_as_found(world: MpsWorld, *, is_served: bool) -> None:
    if is_served:
        assert (world.mode(0), len(world.daemons(0))) == ("3", 2)
    else:
        assert (world.mode(0), world.daemons(0)) == ("0", [])
        assert not world.folder(0).exists()


async def test_clients_and_daemon_survive_a_restart_of_the_component(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        client = world.start_client(0, "a")
        await world.until_clients(0, ["a"])
        served = await world.shared(0)
    daemons = world.daemons(0)
    world.set_mode(0, "0")
    async with world.running():
        assert await world.shared(0) == served
        assert world.daemons(0) == daemons
        assert world.mode(0) == "3", "it is compared before the GPU is Ready"
        assert client.poll() is None
        assert await world.faults() == []


async def test_a_daemon_that_ended_while_the_component_was_down_is_a_fault(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        world.start_client(0, "a")
        await world.until_clients(0, ["a"])
        await world.until(lambda: pod_uid("a") in (world.folder(0) / "state.json").read_text())
    for pid in world.daemons(0):
        os.kill(pid, signal.SIGKILL)
    async with world.running():
        (fault,) = await world.faults()
        assert fault["podUIDs"] == [pod_uid("a")]
        await world.until_state(0, "Ready")


async def test_recovery_waits_for_nvml(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
    (world.folder(0) / "state.json").write_text("not JSON")
    text = world.conf.read_text()
    world.conf.write_text("# no driver\n")
    async with world.running():
        found = await world.until_state(0, "Starting")
        assert "NVML" in found["reason"]
        status, document = await world.call("PUT", f"/gpus/{world.uuids[0]}")
        assert (status, "NVML" in document["reason"]) == (409, True)
        world.conf.write_text(text)
        status, document = await world.call("PUT", f"/gpus/{world.uuids[0]}")
        assert (status, document["state"]) == (200, "Ready")


async def test_a_start_cleans_up_what_an_earlier_one_has_left(world: MpsWorld) -> None:
    world.folder(0).mkdir(parents=True)
    world.set_mode(0, "3")
    text = world.conf.read_text()
    world.conf.write_text("# no driver\n")
    async with world.running():
        await world.until_state(0, "Starting")
        world.conf.write_text(text)
        assert (await world.share(0))["state"] == "Ready"


async def test_a_second_component_waits_for_the_first(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        first = world.pulse
        other = MpsWorld(world.topology, world.api, world.settings, world.conf)
        waiting = asyncio.create_task(run_briefly(other))
        await asyncio.sleep(0)
        assert first.ready
        assert not other.pulse.ready
    await waiting
    assert other.pulse.ready


async def run_briefly(world: MpsWorld) -> None:
    async with world.running():
        assert (await world.shared(0))["state"] == "Ready"
