"""The poller follows the state of NVML that the health watch has found."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gputopo_deviceplugin.counters.build import create_poller
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.nvml import Nvml
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.changes import ChangeSignal
from support.agent.counters import CounterNode

FAULT = "NVML: Driver Not Loaded"


class Polled:
    """A poller over a simulated node."""

    def __init__(self, folder: Path, library_dir: Path) -> None:
        node = CounterNode(folder, library_dir, "dgx-h100")
        self.hardware = node.hardware
        self.state, self.changes, self.metrics = GpuState(), ChangeSignal(), AgentMetrics()
        settings = AgentSettings(node="n1", library_dir=library_dir)
        poller = create_poller(settings, self.state, self.metrics.counters, self.changes)
        assert poller is not None
        self.poller = poller

    def reads(self, result: str) -> float | None:
        name = "gputopo_agent_counter_reads_total"
        return self.metrics.registry.get_sample_value(name, {"result": result})

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(120):
            while not holds():  # noqa: ASYNC110 - a thread changes it
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.poller.run())
        yield
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def polled(tmp_path: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Polled:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    return Polled(tmp_path, library_dir)


async def test_before_the_gpus_are_known_nothing_is_read(polled: Polled) -> None:
    async with polled.running():
        await asyncio.sleep(0.05)
        assert polled.poller.status == []
        polled.state.set_hardware(polled.hardware)
        await polled.until(lambda: polled.reads("read") == 1)
        assert [each.gpus for each in polled.poller.status] == [8, 8, 8]
        assert polled.changes.count == 1
        await polled.poller._poll(asyncio.get_running_loop().time())
        assert polled.reads("read") == 1, "the next read is not due yet"
    assert not polled.poller._session.is_open


async def test_the_session_is_closed_while_nvml_is_unavailable(polled: Polled) -> None:
    """Otherwise NVML would not really be opened again after the driver was loaded again."""
    polled.state.set_hardware(polled.hardware)
    polled.poller.active = True
    async with polled.running():
        await polled.until(lambda: polled.poller._session.is_open)
        polled.state.set_hardware(replace(polled.hardware, fault=FAULT))
        await polled.until(lambda: not polled.poller._session.is_open)
        with pytest.raises(pynvml.NVMLError_Uninitialized):
            pynvml.nvmlDeviceGetCount()
        await polled.until(lambda: polled.poller.status[0].message == FAULT)
        before = polled.reads("read")
        polled.state.set_hardware(polled.hardware)
        await polled.until(lambda: polled.reads("read") != before)
        assert polled.poller.status[0].message == ""


async def test_a_fault_is_shown_while_the_end_of_the_session_hangs(
    polled: Polled, monkeypatch: pytest.MonkeyPatch
) -> None:
    polled.state.set_hardware(polled.hardware)
    await polled.poller._poll(0.0)
    session, returns, calls = polled.poller._session, threading.Event(), list[str]()
    close, read = session.close, session.read

    def hanging_close() -> None:
        calls.append("close")
        returns.wait(60)
        close()

    def counted_read(*arguments: Any) -> Any:
        calls.append("read")
        return read(*arguments)

    monkeypatch.setattr(session, "close", hanging_close)
    monkeypatch.setattr(session, "read", counted_read)
    polled.state.set_hardware(replace(polled.hardware, fault=FAULT))
    first = asyncio.create_task(polled.poller._poll(1.0))
    await polled.until(lambda: calls == ["close"])
    assert {(each.gpus, each.message) for each in polled.poller.status} == {(0, FAULT)}
    first.cancel()  # as the limit of a pause does
    polled.state.set_hardware(polled.hardware)
    second = asyncio.create_task(polled.poller._poll(100.0))
    await asyncio.sleep(0.1)
    assert calls == ["close"], "the session serves one call at a time"
    returns.set()
    await second
    assert calls == ["close", "read"]
    assert {each.gpus for each in polled.poller.status} == {8}


async def test_a_node_that_never_had_nvml_has_no_status(polled: Polled) -> None:
    polled.state.set_hardware(NodeHardware(None, {}, FAULT))
    async with polled.running():
        await asyncio.sleep(0.05)
        assert polled.poller.status == []


async def test_nvml_that_cannot_be_opened_is_the_reason(polled: Polled, tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text("nonsense\n")
    polled.state.set_hardware(polled.hardware)
    async with polled.running():
        await polled.until(lambda: polled.reads("failed") == 1)
        assert {each.message for each in polled.poller.status} == {FAULT}
        assert {each.gpus for each in polled.poller.status} == {0}


async def test_a_fault_that_clears_at_once_keeps_the_session(polled: Polled) -> None:
    polled.state.set_hardware(polled.hardware)
    async with polled.running():
        await polled.until(lambda: polled.reads("read") == 1)
        polled.state.set_hardware(replace(polled.hardware, health={}))
        await asyncio.sleep(0.05)
        assert polled.poller._session.is_open
        Nvml(polled.poller._session._library_dir).close()
