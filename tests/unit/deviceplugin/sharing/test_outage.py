"""The component for MPS does not respond: which pods wait, are served and are rejected."""

import asyncio
import socket

import pytest

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.sharing import daemons
from gputopo_deviceplugin.sharing.client import MpsGpu
from support.agent.coordinated import Coordinated
from support.builders.objects import pod
from support.builders.shares import sharing_pod

PATIENT = 3600.0
"""Longer than any test."""


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "_PATIENCE_SECONDS", 0.0)


def count_starts(case: Coordinated, monkeypatch: pytest.MonkeyPatch) -> list[GpuUuid]:
    """Return the list to which each request for a start adds its GPU."""
    sent: list[GpuUuid] = []
    start = case.daemons._connection.start

    async def counted(gpu: GpuUuid) -> MpsGpu:
        sent.append(gpu)
        return await start(gpu)

    monkeypatch.setattr(case.daemons._connection, "start", counted)
    return sent


async def test_gpu_whose_daemon_goes_on_is_shared_further(case: Coordinated) -> None:
    case.users.put(sharing_pod("a", share=case.share(0)))
    await case.check()
    await case.mps.end()
    await case.check()
    outage = case.state.mps_faults.outage
    assert outage is not None
    assert outage.startswith("the MPS component does not respond: ")
    assert case.sharing_faults == {case.gpus[1]: outage}
    second = case.users.put(sharing_pod("b", share=case.share(0, 1)))
    assert await case.prepare(second, case.share(0, 1)) is None
    served = case.coordinator.folders(case.gpus[0])
    assert served.pipe_directory == case.mps.folder(case.gpus[0]) / "pipe"
    assert served.shm_directory == case.mps.folder(case.gpus[0]) / "shm"


async def test_daemon_of_an_earlier_release_has_the_folder_of_all_gpus(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0])
    (case.mps.folder(case.gpus[0]) / "shm").rmdir()
    served = case.daemons.surviving(case.gpus[0])
    assert served is not None
    assert served.shm_directory == case.mps.directory / "shm"


async def test_new_agent_finds_daemons_without_the_component(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0])
    await case.mps.end()
    case.restart()
    await case.check()
    assert [*case.sharing_faults] == [case.gpus[1]]
    assert [*case.whole_faults] == [case.gpus[0]]
    view = case.users.put(sharing_pod("a", share=case.share(0)))
    assert await case.prepare(view, case.share(0)) is None


async def test_daemon_of_the_real_mps_is_found_by_its_socket_of_packets(
    case: Coordinated,
) -> None:
    case.mps.serve(case.gpus[0])
    case.mps.end_daemon(case.gpus[0])
    control = case.mps.folder(case.gpus[0]) / "pipe" / "control"
    control.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
        daemon.bind(str(control))
        daemon.listen()
        assert case.daemons.surviving(case.gpus[0]) is not None
    assert case.daemons.surviving(case.gpus[0]) is None


async def test_gpu_whose_daemon_has_ended_is_not_shared(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0])
    await case.check()
    await case.mps.end()
    case.mps.end_daemon(case.gpus[0])
    await case.check()
    assert [*case.sharing_faults] == case.gpus
    view = case.users.put(sharing_pod("a", share=case.share(0)))
    assert await case.prepare(view, case.share(0)) is None
    found = await case.start(0)
    assert f"{case.gpus[0]} cannot be shared: the MPS component does not respond" in found
    case.mps.serve(case.gpus[0])


async def test_daemon_whose_start_was_interrupted_is_not_used(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0])
    (case.mps.folder(case.gpus[0]) / "state.json").unlink()
    await case.mps.end()
    case.restart()
    await case.check()
    assert [*case.sharing_faults] == case.gpus


async def test_gpu_with_a_fault_before_the_outage_is_not_shared(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0], "Fault")
    await case.check()
    await case.mps.end()
    await case.check()
    assert [*case.sharing_faults] == case.gpus


async def test_container_of_an_admitted_pod_waits_for_the_component(
    case: Coordinated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "_PATIENCE_SECONDS", PATIENT)
    sent = count_starts(case, monkeypatch)
    await case.mps.end()
    view = case.users.put(sharing_pod("a", share=case.share(0)))
    assert await case.prepare(view, case.share(0)) is None  # kubelet's main loop does not wait
    folders = case.coordinator.folders(case.gpus[0])
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(case.start(0))
        while len(sent) < 3:  # noqa: ASYNC110 - another task sends the requests
            await asyncio.sleep(0.01)
        await case.check()  # the checks go on meanwhile, so that the outage is published
        assert case.state.mps_faults.outage is not None
        assert not waiting.done()
        await case.mps.open()
    assert waiting.result() == ""
    assert case.daemons.known[case.gpus[0]].state == "Ready"
    assert folders.pipe_directory == case.mps.folder(case.gpus[0]) / "pipe"
    assert folders.shm_directory == case.mps.folder(case.gpus[0]) / "shm"


async def test_container_starts_when_kubelet_tries_again(
    case: Coordinated, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = count_starts(case, monkeypatch)
    monkeypatch.setattr(daemons, "_PATIENCE_SECONDS", 1.5)
    monkeypatch.setattr(daemons, "loop_time", lambda: float(len(sent)))
    await case.mps.end()
    assert "does not respond" in await case.start(0)
    assert len(sent) == 2
    await case.mps.open()
    assert await case.start(0) == ""


async def test_nothing_waits_if_the_gpu_cannot_be_shared(
    case: Coordinated, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = count_starts(case, monkeypatch)
    case.mps.no_start[case.gpus[0]] = "process 99 uses the GPU"
    view = case.users.put(sharing_pod("a", share=case.share(0)))
    assert "process 99 uses the GPU" in str(await case.prepare(view, case.share(0)))
    assert "process 99 uses the GPU" in await case.start(0)
    assert len(sent) == 2


@pytest.mark.parametrize("new_agent", [False, True])
async def test_whole_gpu_is_not_given_while_its_daemon_goes_on(
    case: Coordinated, *, new_agent: bool
) -> None:
    case.mps.serve(case.gpus[0])
    await case.check()
    await case.mps.end()
    if new_agent:
        case.restart()
    view = case.users.put(pod("whole", node="n1"))
    found = str(await case.prepare(view, case.gpus[0]))
    assert f"{case.gpus[0]} cannot be used as a whole: the MPS component does not" in found
    await case.check()
    assert case.whole_faults == {case.gpus[0]: case.state.mps_faults.outage}
    assert await case.prepare(view, case.gpus[1]) is None
    await case.mps.open()
    assert await case.prepare(view, case.gpus[0]) is None
    assert case.mps.gpus == {}


async def test_folder_of_an_interrupted_start_keeps_the_gpu_from_whole_pods(
    case: Coordinated,
) -> None:
    await case.check()
    case.mps.folder(case.gpus[0]).mkdir(parents=True)
    await case.mps.end()
    view = case.users.put(pod("whole", node="n1"))
    assert "cannot be used as a whole" in str(await case.prepare(view, case.gpus[0]))
    await case.mps.open()
    assert await case.prepare(view, case.gpus[0]) is None
    assert not case.mps.folder(case.gpus[0]).exists()


async def test_daemon_that_does_not_end_keeps_its_gpu_from_whole_pods(case: Coordinated) -> None:
    case.mps.serve(case.gpus[0])
    case.mps.no_end[case.gpus[0]] = "processes 12 use it"
    await case.check(5)
    assert case.whole_faults == {case.gpus[0]: "processes 12 use it"}
    case.mps.no_end.clear()
    await case.check()
    assert case.whole_faults == {}


async def test_only_changes_are_signalled(case: Coordinated) -> None:
    await case.check()
    before = case.changes.count
    await case.check()
    assert case.changes.count == before
    await case.mps.end()
    await case.check(2)
    assert case.changes.count == before + 1


async def test_end_and_start_of_the_component_are_noticed_at_once(
    case: Coordinated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputopo_deviceplugin.sharing.coordinator._CHECK_SECONDS", PATIENT)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(case.coordinator.run())
        await case.changes.wait_after(0)
        outages = [case.state.mps_faults.outage is not None]
        await case.mps.end()
        await case.changes.wait_after(1)
        outages.append(case.state.mps_faults.outage is not None)
        await case.mps.open()
        await case.changes.wait_after(2)
        outages.append(case.state.mps_faults.outage is not None)
        running.cancel()
    assert outages == [False, True, False]


async def test_pauses_are_limited(case: Coordinated) -> None:
    await case.check()
    await case.daemons.pause(0.01)
    case.mps.broken = True  # it takes connections, but does not respond
    await case.check()
    await case.daemons.pause(0.01)
    await case.mps.end()
    await case.check()
    await case.daemons.pause(0.01)
    assert case.state.mps_faults.outage is not None


async def test_node_without_folders_serves_no_gpu(case: Coordinated) -> None:
    assert case.daemons.serving() == frozenset()
