"""The installed program: settings, probes and signals."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from gputopo_mps.settings import MpsSettings
from support.api.kubeconfig import write_kubeconfig
from support.api.store import PODS
from support.mps.world import MpsWorld
from support.ports import free_port


@asynccontextmanager
async def program(
    world: MpsWorld, directory: Path
) -> AsyncIterator[tuple[asyncio.subprocess.Process, httpx2.AsyncClient]]:
    port = free_port()
    given = world.settings.model_dump(mode="json", exclude_unset=True) | {
        "probes_host": "127.0.0.1",
        "probes_port": port,
    }
    settings = {MpsSettings.variable(name): str(value) for name, value in given.items()}
    kubeconfig = write_kubeconfig(directory / "kubeconfig", world.api.url)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gputopo_mps"),
        env={**os.environ, **settings, "KUBECONFIG": str(kubeconfig)},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        async with httpx2.AsyncClient(base_url=url, timeout=60.0) as client:
            await world.until(lambda: status_of(client, "/readyz", 200))
            yield process, client
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def status_of(client: httpx2.AsyncClient, path: str, wanted: int) -> bool:
    try:
        return (await client.get(path)).status_code == wanted
    except httpx2.TransportError:
        return False


async def stopped(process: asyncio.subprocess.Process) -> None:
    process.send_signal(signal.SIGTERM)
    _, errors = await process.communicate()
    assert process.returncode == 0
    assert b"Traceback" not in errors


async def test_daemons_go_on_while_pods_share_gpus_and_end_after_that(
    world: MpsWorld, short_directory: Path
) -> None:
    world.put_pod("a")
    async with program(world, short_directory) as (process, client):
        assert await status_of(client, "/livez", 200)
        await world.share(0)
        await world.share(1)
        metrics = (await client.get("/metrics")).text
        assert "gputopo_mps_terminated_clients_total 0.0" in metrics
        await stopped(process)
    daemons = world.daemons(0), world.daemons(1)
    assert all(daemons)
    async with program(world, short_directory) as (process, client):
        assert (world.daemons(0), world.daemons(1)) == daemons
        world.start_client(1, "b")
        await world.until_clients(1, ["b"])
        world.api.delete(PODS, "a")
        await world.until(lambda: shows(client, "gputopo_mps_sharing_pods 0.0"))
        await stopped(process)
    assert (world.daemons(0), world.mode(0)) == ([], "0")
    assert world.daemons(1) == daemons[1], "a client uses it, of a pod that is not known"


async def shows(client: httpx2.AsyncClient, line: str) -> bool:
    return line in (await client.get("/metrics")).text.splitlines()
