"""The installed program: settings, probes, and how it stops."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from agent_world import AgentWorld
from gputopo_deviceplugin.settings import Settings


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def program(
    world: AgentWorld, directory: Path
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": world.api.url}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    port = free_port()
    given = world.settings.model_dump(mode="json", exclude_unset=True) | {
        "probes_host": "127.0.0.1",
        "probes_port": port,
    }
    settings = {Settings.variable(name): str(value) for name, value in given.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gputopo_deviceplugin",
        env={**os.environ, **settings, "KUBECONFIG": str(kubeconfig)},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_it_serves_answers_its_probes_and_stops_when_told(
    world: AgentWorld, short_directory: Path
) -> None:
    async with (
        program(world, short_directory) as (process, url),
        httpx2.AsyncClient(base_url=url) as client,
    ):
        await world.served()
        await world.until(lambda: world.condition("Ready").get("status") == "True")
        await world.run("a", {"main": [0]})
        ready, live = await client.get("/readyz"), await client.get("/livez")
        assert (ready.status_code, live.status_code) == (200, 200)
        assert (await client.get("/")).status_code == 404
        metrics = (await client.get("/metrics")).text
        assert 'gputopo_agent_allocations_total{result="granted"} 1.0' in metrics
        assert 'gputopo_agent_gpus{state="healthy"} 8.0' in metrics
        process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.wait_for(process.communicate(), 10)
    assert process.returncode == 0
    assert b"Traceback" not in errors
    assert f"granted pod=default/a container=main gpus={world.uuids[0]}".encode() in errors


async def test_it_lives_but_is_not_ready_while_the_api_server_is_away(
    world: AgentWorld, short_directory: Path
) -> None:
    world.api.down = True
    async with (
        program(world, short_directory) as (process, url),
        httpx2.AsyncClient(base_url=url) as client,
    ):
        assert process.stderr is not None
        line = await asyncio.wait_for(process.stderr.readline(), 10)
        assert b"contact failed, trying again" in line
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/readyz")).status_code == 503
        world.api.down = False
        await world.served()


async def test_a_wrong_setting_ends_it_with_a_message() -> None:
    environment = {**os.environ, Settings.variable("health_seconds"): "0"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gputopo_deviceplugin",
        "--node=n1",
        env=environment,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert errors.startswith(b"gputopo-deviceplugin: --health-seconds (GPUTOPO_DEVICEPLUGIN_")
