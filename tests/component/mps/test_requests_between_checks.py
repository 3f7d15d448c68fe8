"""Requests that meet a state which no check has seen yet; the next check is far away."""

import os
import signal
from collections.abc import AsyncIterator

import pytest

from support.mps.world import MpsWorld


@pytest.fixture
async def unchecked(world: MpsWorld) -> AsyncIterator[MpsWorld]:
    """Return a world with a component that shares the first GPU and does not check it again."""
    world.configure(check_seconds=3600, response_seconds=10)
    async with world.running():
        await world.share(0)
        yield world


async def delete(world: MpsWorld) -> tuple[int, str]:
    status, document = await world.call("DELETE", f"/gpus/{world.uuids[0]}")
    return status, document.get("reason", "")


async def test_a_daemon_that_has_ended_is_no_obstacle(unchecked: MpsWorld) -> None:
    for pid in unchecked.daemons(0):
        os.kill(pid, signal.SIGKILL)
    assert unchecked.component is not None
    (gpu,) = unchecked.component._gpus.all
    await unchecked.until(lambda: not gpu._daemon.is_running)
    assert await delete(unchecked) == (200, "")
    assert unchecked.mode(0) == "0"


async def test_clients_of_a_daemon_without_response_are_unknown(unchecked: MpsWorld) -> None:
    for pid in unchecked.daemons(0):
        os.kill(pid, signal.SIGSTOP)
    status, reason = await delete(unchecked)
    assert (status, "the clients are unknown" in reason) == (409, True)


async def test_a_compute_mode_that_cannot_be_set_is_tried_again(unchecked: MpsWorld) -> None:
    unchecked.add_to_conf("compute-mode-fault 0 4")
    status, reason = await delete(unchecked)
    assert (status, "NVML" in reason) == (409, True)
    assert (await unchecked.shared(0))["state"] == "Failed"
    assert unchecked.daemons(0) == []
    unchecked.put_pod("a", deletionTimestamp="2026-01-01T00:00:00Z")
    unchecked.conf.write_text(
        unchecked.conf.read_text().replace("compute-mode-fault 0 4\n", "# it can be set\n")
    )
    assert (await unchecked.share(0))["state"] == "Ready"
    assert await delete(unchecked) == (200, "")


async def test_clients_of_a_gpu_that_does_not_run_are_not_terminated(unchecked: MpsWorld) -> None:
    component = unchecked.component
    assert component is not None
    unchecked.add_to_conf("compute-mode-fault 0 4")
    await delete(unchecked)
    await component._gpus.terminate({"uid"})
    assert (await unchecked.shared(0))["state"] == "Failed"


async def test_at_its_end_it_ends_the_daemons_that_no_client_and_no_pod_needs(
    unchecked: MpsWorld,
) -> None:
    component = unchecked.component
    assert component is not None
    await unchecked.share(1)
    unchecked.start_client(1, "b")
    unchecked.put_pod("a")
    await unchecked.until(lambda: component._pods.running)
    await component.stop()
    assert unchecked.daemons(0)
    document = unchecked.api.pod("a")
    unchecked.api.put("pods", {**document, "status": {"phase": "Succeeded"}})
    await unchecked.until(lambda: not component._pods.running)
    await component.stop()
    assert (unchecked.daemons(0), unchecked.mode(0)) == ([], "0")
    assert unchecked.daemons(1)
