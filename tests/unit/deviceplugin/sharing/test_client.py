"""Responses of the MPS component, valid and not."""

import asyncio

import pytest

from gputopo_deviceplugin.sharing.client import MpsConnection, MpsError, MpsGpu, SharedGpuFault
from support.agent.coordinated import Coordinated


@pytest.fixture
def client(case: Coordinated) -> MpsConnection:
    return MpsConnection(case.mps.socket, timeout_seconds=60.0)


async def test_state_has_gpus_and_faults(case: Coordinated, client: MpsConnection) -> None:
    case.mps.serve(case.gpus[0])
    case.mps.fault(3, case.gpus[1], "uid-a", cause="uid-a")
    found = await client.state()
    [gpu], [fault] = found.gpus, found.faults
    assert (gpu.uuid, gpu.state, gpu.fault) == (case.gpus[0], "Ready", None)
    assert str(gpu.pipe_directory) == f"/run/gputopo-mps/gpus/{case.gpus[0]}/pipe"
    assert str(gpu.shm_directory) == f"/run/gputopo-mps/gpus/{case.gpus[0]}/shm"
    assert (fault.cause, fault.pods, fault.message) == ("uid-a", ["uid-a"], "Xid 3")


async def test_start_and_stop(case: Coordinated, client: MpsConnection) -> None:
    assert (await client.start(case.gpus[0])).state == "Ready"
    await client.stop(case.gpus[0])
    assert case.mps.gpus == {}
    case.mps.no_start[case.gpus[0]] = " it\nis in use "
    with pytest.raises(MpsError, match=r"^it is in use$"):
        await client.start(case.gpus[0])


async def test_gpu_that_is_not_ready_is_an_error(case: Coordinated, client: MpsConnection) -> None:
    case.mps.serve(case.gpus[0], "Starting")
    with pytest.raises(MpsError, match=r"^MPS is in state Starting$"):
        await client.start(case.gpus[0])


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("", "does not respond: Expecting value"),
        ("null", "the MPS component: value: None"),
        ("[]", r"the MPS component: value: \[\]"),
        ('{"gpus": []}', "the MPS component: faults: is required"),
        ('{"gpus": [{"uuid": "GPU-0"}], "faults": []}', "the MPS component: gpus"),
    ],
)
async def test_invalid_response_is_an_error(
    case: Coordinated, client: MpsConnection, raw: str, message: str
) -> None:
    case.mps.raw = raw
    with pytest.raises(MpsError, match=message):
        await client.state()


@pytest.mark.parametrize("raw", ["[]", "{}", '"no"', "null"])
async def test_conflict_without_a_reason_is_an_error(
    case: Coordinated, client: MpsConnection, raw: str
) -> None:
    case.mps.no_start[case.gpus[0]], case.mps.raw = "x", raw
    with pytest.raises(MpsError, match="the MPS component: "):
        await client.start(case.gpus[0])


async def test_other_status_is_an_error(case: Coordinated, client: MpsConnection) -> None:
    case.mps.broken = True
    fault = SharedGpuFault(id="1", uuid=case.gpus[0], cause=None, pods=[], message="")
    for request in (client.state(), client.stop(case.gpus[0]), client.acknowledge(fault)):
        with pytest.raises(MpsError, match="does not respond: status 500"):
            await request


async def test_unknown_fault_is_no_error(case: Coordinated, client: MpsConnection) -> None:
    await client.acknowledge(
        SharedGpuFault(id="gone", uuid=case.gpus[0], cause=None, pods=[], message="")
    )
    assert case.mps.requests == ["DELETE /faults/gone"]


async def test_late_response_is_an_error(case: Coordinated) -> None:
    case.mps.responds.clear()
    client = MpsConnection(case.mps.socket, timeout_seconds=0.05)
    with pytest.raises(MpsError, match=r"does not respond: no response within 0.05 s"):
        await client.state()
    case.mps.responds.set()


async def test_response_that_is_not_http_is_an_error(case: Coordinated) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"hello\r\n\r\n")
        writer.close()

    path = case.mps.directory / "other.sock"
    server = await asyncio.start_unix_server(respond, path)
    async with server:
        with pytest.raises(MpsError, match="does not respond: "):
            await MpsConnection(path, timeout_seconds=60.0).state()


def test_long_reason_is_cut() -> None:
    gpu = MpsGpu.model_validate(
        {
            "uuid": "GPU-0",
            "state": "Failed",
            "reason": "a " * 2000,
            "pipeDirectory": "/p",
            "shmDirectory": "/s",
        }
    )
    assert gpu.fault is not None
    assert len(gpu.fault) < 350
