"""Faults of shared GPUs: which pods they hit, which pod caused them, and the recovery."""

import os
import signal
from pathlib import Path

import pytest

from fakemps.server import STUCK
from gputopo_mps.control import ControlError, ControlProgram
from support.api.store import Document
from support.mps.world import MpsWorld, pod_uid


async def recorded(world: MpsWorld, count: int = 1) -> list[Document]:
    """Wait for faults and return them."""

    async def reached() -> list[Document]:
        found = await world.faults()
        return found if len(found) >= count else []

    found: list[Document] = await world.until(reached)
    assert len(found) == count
    return found


def server_of(world: MpsWorld, index: int) -> int:
    """Return the PID of the server, by its command line."""
    for pid in world.daemons(index):
        if "nvidia-cuda-mps-server" in Path(f"/proc/{pid}/cmdline").read_text():
            return pid
    raise AssertionError("no server")


async def test_a_fatal_fault_is_recorded_with_its_cause_and_the_pods_it_hit(
    world: MpsWorld,
) -> None:
    async with world.running():
        await world.share(0)
        await world.share(1)
        world.start_client(0, "a")
        world.start_client(1, "other")
        await world.until_clients(0, ["a"])
        world.start_client(0, "b", "--fault-after=0")
        (fault,) = await recorded(world)
        assert fault["uuid"] == world.uuids[0]
        assert fault["causePodUID"] == pod_uid("b")
        assert fault["podUIDs"] == sorted([pod_uid("a"), pod_uid("b")])
        assert "fatal GPU error" in fault["message"]
        await world.until_state(0, "Ready")
        assert len(await world.faults()) == 1, "a fault is recorded once"
        world.start_client(0, "c")
        await world.until_clients(0, ["c"])
        await world.until_clients(1, ["other"])
        value = world.metrics.registry.get_sample_value
        assert value("gputopo_mps_faults_total", {"kind": "client"}) == 1


async def test_a_server_in_fault_accepts_no_clients_until_those_it_hit_have_ended(
    world: MpsWorld,
) -> None:
    async with world.running():
        await world.share(0)
        waiting = world.start_client(0, "a", "--step=1000")
        await world.until_clients(0, ["a"])
        world.start_client(0, "b", "--fault-after=0")
        found = await world.until_state(0, "Fault")
        assert "after all its clients have ended" in found["reason"]
        rejected = world.start_client(0, "c", ready=False)
        assert await world.error_of(rejected) == 807
        (fault,) = await recorded(world)
        waiting.kill()
        await world.until_state(0, "Ready")
        assert await world.faults() == [fault]


async def test_a_fault_is_not_recorded_again_by_a_component_that_restarts(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        world.start_client(0, "a", "--step=1000")
        await world.until_clients(0, ["a"])
        world.start_client(0, "b", "--fault-after=0")
        await recorded(world)
        # The state file is written at the end of the check that records the fault.
        await world.until(lambda: '"fault_recorded": true' in state_of(world))
    async with world.running():
        await world.until_state(0, "Fault")
        (fault,) = await world.faults()
        assert fault["causePodUID"] == pod_uid("b")
        status, _ = await world.call("DELETE", f"/faults/{fault['id']}")
        assert status == 200
        assert await world.faults() == []
        status, _ = await world.call("DELETE", f"/faults/{fault['id']}")
        assert status == 404
    async with world.running():
        assert await world.faults() == []


def state_of(world: MpsWorld) -> str:
    return (world.folder(0) / "state.json").read_text()


async def test_a_fault_while_the_component_is_down_is_recorded(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        world.start_client(0, "a")
        await world.until_clients(0, ["a"])
        await world.until(lambda: pod_uid("a") in state_of(world))
    causing = world.start_client(0, "b", "--fault-after=0")
    causing.wait()
    async with world.running():
        (fault,) = await recorded(world)
        assert fault["causePodUID"] == pod_uid("b")
        assert pod_uid("a") in fault["podUIDs"]


async def test_a_server_that_hangs_is_replaced(world: MpsWorld) -> None:
    world.configure(response_seconds=10)
    async with world.running():
        await world.share(0)
        client = world.start_client(0, "a")
        await world.until_clients(0, ["a"])
        hanging = world.daemons(0)
        os.kill(server_of(world, 0), signal.SIGSTOP)
        (fault,) = await recorded(world)
        assert fault["podUIDs"] == [pod_uid("a")]
        assert fault["causePodUID"] is None
        assert "no response within 10 s" in fault["message"]
        assert await world.error_of(client) == 806
        await world.until_state(0, "Ready")
        assert not {*hanging} & {*world.daemons(0)}
        world.start_client(0, "b")
        await world.until_clients(0, ["b"])
        value = world.metrics.registry.get_sample_value
        assert value("gputopo_mps_faults_total", {"kind": "no-response"}) == 1


async def test_a_server_that_was_killed_is_recorded(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        world.start_client(0, "a")
        await world.until_clients(0, ["a"])
        os.kill(server_of(world, 0), signal.SIGKILL)
        (fault,) = await recorded(world)
        assert fault["podUIDs"] == [pod_uid("a")]
        assert "has ended" in fault["message"]
        world.start_client(0, "b")
        await world.until_clients(0, ["b"])


async def test_a_control_daemon_that_was_killed_is_started_again(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        world.start_client(0, "a")
        await world.until_clients(0, ["a"])
        control = next(pid for pid in world.daemons(0) if pid != server_of(world, 0))
        os.kill(control, signal.SIGKILL)
        (fault,) = await recorded(world)
        assert fault["podUIDs"] == [pod_uid("a")]
        assert "the control daemon has ended" in fault["message"]
        await world.until_state(0, "Ready")
        assert control not in world.daemons(0)
        assert len(world.daemons(0)) == 2, "no process of the former daemon is left"


async def test_a_daemon_without_clients_is_replaced_without_a_fault(world: MpsWorld) -> None:
    async with world.running():
        await world.share(0)
        former = world.daemons(0)
        for pid in former:
            os.kill(pid, signal.SIGKILL)
        await world.until(lambda: len({*world.daemons(0)} - {*former}) == 2)
        await world.until_state(0, "Ready")
        assert await world.faults() == []


async def test_a_daemon_that_cannot_be_started_again_leaves_the_gpu_as_found(
    world: MpsWorld,
) -> None:
    async with world.running():
        await world.share(0)
        world.start_client(0, "a")
        await world.until_clients(0, ["a"])
        world.set_mode(0, "0")
        world.add_to_conf("compute-mode-fault 0 4")
        os.kill(server_of(world, 0), signal.SIGKILL)
        for pid in world.daemons(0):
            os.kill(pid, signal.SIGKILL)
        found = await world.until_state(0, "Failed")
        assert "not started again" in found["reason"]
        assert "not cleaned up yet" in found["reason"]
        world.conf.write_text(world.conf.read_text().replace("compute-mode-fault 0 4\n", ""))
        await world.until(lambda: not world.folder(0).exists())
        assert (world.mode(0), world.daemons(0)) == ("0", [])
        assert (await world.share(0))["state"] == "Ready"


async def test_a_server_that_does_not_recover_is_replaced(world: MpsWorld) -> None:
    world.configure(recovery_seconds=1.0)
    async with world.running():
        await world.share(0)
        (world.folder(0) / "pipe" / STUCK).touch()
        world.start_client(0, "a")
        await world.until_clients(0, ["a"])
        server = server_of(world, 0)
        world.start_client(0, "b", "--fault-after=0").wait()
        await world.until(lambda: server not in world.daemons(0))
        await world.until_state(0, "Ready")
        assert len(await world.faults()) == 1


async def test_a_daemon_that_only_responds_with_errors_is_replaced(
    world: MpsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, errors = ControlProgram.servers, ["one"]

    def failures() -> float:
        labels = {"of": "check"}
        return world.metrics.registry.get_sample_value("gputopo_mps_failures_total", labels) or 0

    async def fail_once(program: ControlProgram) -> list[int]:
        if errors:
            raise ControlError(errors.pop())
        return await servers(program)

    async with world.running():
        await world.share(0)
        former = world.daemons(0)
        (world.folder(0) / "pipe" / "control").unlink()
        await world.until(lambda: len({*world.daemons(0)} - {*former}) == 2)
        await world.until_state(0, "Ready")
        failed, new = failures(), world.daemons(0)
        assert failed >= 2
        monkeypatch.setattr(ControlProgram, "servers", fail_once)
        await world.until(lambda: failures() == failed + 1)
        await world.until_state(0, "Ready")
        assert world.daemons(0) == new, "the errors of the former daemon do not count"
