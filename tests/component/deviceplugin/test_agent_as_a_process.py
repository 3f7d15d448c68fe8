"""The installed program: settings, probes and signals."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from gputopo_deviceplugin.settings import AgentSettings
from support.agent.world import PATIENCE_SECONDS, AgentWorld
from support.api.kubeconfig import write_kubeconfig
from support.kubelet.device_manager import AdmissionRejectedError
from support.ports import free_port

RESPONSE_SECONDS = 60.0
HANG_SECONDS = 45.0
"""15 on an idle machine."""


@asynccontextmanager
async def program(
    world: AgentWorld, directory: Path, **environment: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    kubeconfig = write_kubeconfig(directory / "kubeconfig", world.api.url)
    port = free_port()
    given = world.settings.model_dump(mode="json", exclude_unset=True) | {
        "probes_host": "127.0.0.1",
        "probes_port": port,
    }
    settings = {AgentSettings.variable(name): str(value) for name, value in given.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gputopo_deviceplugin",
        env={**os.environ, **settings, **environment, "KUBECONFIG": str(kubeconfig)},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def client_of(url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, timeout=RESPONSE_SECONDS)


async def test_it_serves_responds_to_probes_and_stops_at_sigterm(
    world: AgentWorld, short_directory: Path
) -> None:
    async with (
        program(world, short_directory) as (process, url),
        client_of(url) as client,
    ):
        await world.served()
        await world.until(lambda: world.condition("Ready").get("status") == "True")
        await world.run("a", {"main": [0]})
        ready, live = await client.get("/readyz"), await client.get("/livez")
        assert (ready.status_code, live.status_code) == (200, 200)
        assert (await client.get("/")).status_code == 404
        metrics = (await client.get("/metrics")).text
        assert 'gputopo_agent_allocations_total{result="allocated"} 1.0' in metrics
        assert 'gputopo_agent_gpus{state="healthy"} 8.0' in metrics
        await world.until(lambda: world.observed(0).get("podUID") == "uid-a")
        process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    assert process.returncode == 0
    assert b"Traceback" not in errors
    assert_published_end(world, errors)
    assert world.observed(0)["podUID"] == "uid-a"
    assert f"allocated pod=default/a container=main gpus={world.uuids[0]}".encode() in errors


def assert_published_end(world: AgentWorld, errors: bytes) -> None:
    """Assert that the agent published its end, or logged that it had too little time for it."""
    published = world.condition("Ready")["reason"] == "Stopping"
    late = b'could not publish that the agent ends reason="no response in time"' in errors
    assert published or late


async def test_it_lives_but_is_not_ready_while_the_api_server_is_unavailable(
    world: AgentWorld, short_directory: Path
) -> None:
    world.api.down = True
    async with (
        program(world, short_directory) as (process, url),
        client_of(url) as client,
    ):
        assert process.stderr is not None
        line = await asyncio.wait_for(process.stderr.readline(), PATIENCE_SECONDS)
        assert b"no response from the API server" in line
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/readyz")).status_code == 503
        world.api.down = False
        await world.served()


async def test_after_a_crash_running_pods_keep_their_gpus_and_no_other_pod_gets_them(
    world: AgentWorld, short_directory: Path
) -> None:
    async with program(world, short_directory) as (process, _):
        await world.served()
        await world.run("a", {"main": [0]})
        await world.set_phase("a", "Running")
        process.kill()
        await process.wait()
        await world.until(lambda: "Healthy" not in world.kubelet.devices.values())
        with pytest.raises(AdmissionRejectedError, match="no healthy devices"):
            await world.run("meanwhile", {"main": [1]})
    async with program(world, short_directory):
        await world.served()
        assert world.kubelet.registrations == 2
        assert world.observed(0)["podUID"] == "uid-a"
        with pytest.raises(AdmissionRejectedError, match="is used by pod default/a"):
            await world.run("thief", {"main": [0]})
        given = await world.run("b", {"main": [2]})
        assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[2]


async def liveness_fails(client: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with suppress(httpx2.TransportError):  # not listening yet
                if (await client.get("/livez")).status_code == 503:
                    return
            await asyncio.sleep(0.05)


async def test_a_hang_of_nvml_fails_liveness_and_recovers(
    world: AgentWorld, short_directory: Path
) -> None:
    default = AgentSettings.model_fields["nvml_timeout_seconds"].default
    limit = {AgentSettings.variable("nvml_timeout_seconds"): str(default)}
    async with (
        program(world, short_directory, **limit) as (_, url),
        client_of(url) as client,
    ):
        await world.served()
        world.break_gpus("hang")
        async with asyncio.timeout(HANG_SECONDS):
            await liveness_fails(client)
            await world.until(lambda: world.condition("Ready").get("reason") == "NVMLUnavailable")
            await world.until(lambda: "Healthy" not in world.kubelet.devices.values())
        assert (await client.get("/livez")).text.startswith("NVML does not respond: ")
        world.break_gpus()
        await world.served()
        assert (await client.get("/livez")).status_code == 200


@pytest.mark.parametrize("known", [True, False])
async def test_it_ends_at_sigterm_although_nvml_hangs(
    impatient: AgentWorld, short_directory: Path, *, known: bool
) -> None:
    world = impatient
    if not known:
        world.break_gpus("hang")
    async with (
        program(world, short_directory) as (process, url),
        client_of(url) as client,
    ):
        if known:
            await world.served()
            world.break_gpus("hang")
            await world.until(lambda: "Healthy" not in world.kubelet.devices.values())
        else:
            await liveness_fails(client)
        process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    assert process.returncode == 0
    assert b"Traceback" not in errors
    assert b"NVML not closed, a call hangs" in errors
    if known:
        assert_published_end(world, errors)
    world.break_gpus()


def preloadable_clock(directory: Path) -> Path:
    library = directory / "shifted_clock.so"
    source = Path(__file__).parents[2] / "data" / "shifted_clock.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


async def test_a_clock_that_jumps_changes_only_published_times(
    world: AgentWorld, short_directory: Path
) -> None:
    shift = short_directory / "shift"
    shift.write_text("0")
    clock = {
        "LD_PRELOAD": str(preloadable_clock(short_directory)),
        "SHIFTED_CLOCK": str(shift),
    }
    async with (
        program(world, short_directory, **clock) as (process, url),
        client_of(url) as client,
    ):
        await world.served()
        years = []
        for gpu, seconds in enumerate((400 * 86_400, -400 * 86_400, 0)):
            shift.write_text(str(seconds))
            years.append(await year_of_a_rejection(world, gpu))
        assert years[1] < years[2] < years[0]
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
        assert world.kubelet.registrations == 1
        process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    assert process.returncode == 0
    assert b"Traceback" not in errors


async def year_of_a_rejection(world: AgentWorld, gpu: int) -> str:
    """Run a pod and let another one be rejected; return the year in the event."""
    await world.run(f"pod-{gpu}", {"main": [gpu]})
    with pytest.raises(AdmissionRejectedError, match=f"is used by pod default/pod-{gpu}"):
        await world.run(f"refused-{gpu}", {"main": [gpu]})
    await world.until(lambda: world.observed(gpu).get("pod") == f"pod-{gpu}")
    await world.until(lambda: len(world.events("GPUsRefused")) == gpu + 1)
    events = world.api.all("events")
    about = [one for one in events if one["involvedObject"]["name"] == f"refused-{gpu}"]
    return str(about[0]["lastTimestamp"][:4])


async def test_a_wrong_setting_ends_it_with_a_message() -> None:
    environment = {**os.environ, AgentSettings.variable("health_seconds"): "0"}
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
