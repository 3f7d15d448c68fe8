"""Reads the counters once a second in a thread, and keeps the readings for the measurement."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from gputopo.api.v1alpha1 import CounterStatus
from gputopo.runtime.log import fields
from gputopo.runtime.times import utc_now
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.clock import loop_time
from gputopo_deviceplugin.counters.figures import NvlinkIncrease
from gputopo_deviceplugin.counters.gpu_reader import GpuReading
from gputopo_deviceplugin.counters.scrape import ExporterScraper
from gputopo_deviceplugin.counters.session import CounterSession, ReadGpu
from gputopo_deviceplugin.counters.status import counter_status, unavailable
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.nvml import NvmlError
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.metrics import CounterMetrics
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.daemon_thread import call_in_daemon_thread, finished

READ_SECONDS: Final = 1.0
"""Time between two reads while a container is measured."""

IDLE_SECONDS: Final = 30.0
"""Time between two reads at other times, for the metrics and the status."""

_KEPT: Final = 10
"""Most readings that wait for the measurement, which takes them once a second."""

_END_SECONDS: Final = 1.0
"""Longest wait for NVML when the agent ends."""

_Value = TypeVar("_Value")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeReading:
    """The counters of all GPUs, read at one time.

    Attributes:
        at: when the read began, in seconds of the event loop.
    """

    at: float
    gpus: Mapping[GpuUuid, GpuReading]


class CounterPoller:
    """Reads the counters in a daemon thread, one read at a time.

    A read that hangs delays nothing else. No further read begins until it has returned.

    Attributes:
        active: whether a container is measured.
        status: what can be read, for the GPUTopology.
    """

    def __init__(
        self,
        state: GpuState,
        session: CounterSession,
        scraper: ExporterScraper,
        metrics: CounterMetrics,
        changes: ChangeSignal,
        *,
        timeout_seconds: float,
    ) -> None:
        """Read the GPUs of ``state``; after ``timeout_seconds``, a read hangs."""
        self._state = state
        self._session = session
        self._scraper = scraper
        self._metrics = metrics
        self._changes = changes
        self._timeout_seconds = timeout_seconds
        self._increase: Final = NvlinkIncrease()
        self._readings: Final = deque[NodeReading](maxlen=_KEPT)
        self._in_flight: asyncio.Future[Any] | None = None
        self._read_at: float | None = None
        self.active = False
        self.status: list[CounterStatus] = []

    def take(self) -> list[NodeReading]:
        """Return the readings since the last call, the oldest first."""
        found = [*self._readings]
        self._readings.clear()
        return found

    async def run(self) -> None:
        """Read until cancelled."""
        try:
            while True:
                seen = self._state.changes.count
                await self._poll(loop_time())
                await self._pause(seen)
        finally:
            await self._end()

    async def _pause(self, seen: int) -> None:
        """Wait a second, or until the GPUs are known. If NVML fails, close the session at once.

        The watch of the GPUs opens NVML again only if no session of this process is open.
        """
        unknown = self._state.hardware is None
        try:
            async with asyncio.timeout(READ_SECONDS):
                while not self._state.known.fault:
                    if unknown and self._state.hardware is not None:
                        return
                    await self._state.changes.wait_after(seen)
                    seen = self._state.changes.count
                await self._close()
                await asyncio.Event().wait()
        except TimeoutError:
            return

    async def _poll(self, now: float) -> None:
        hardware = self._state.hardware
        if hardware is None:
            return
        if hardware.fault is not None:
            # First: the call that closes the session may hang as well.
            self._set_status(unavailable(hardware.fault) if hardware.topology else [])
            await self._close()
            return
        due = self._read_at is None or now - self._read_at >= IDLE_SECONDS
        gpus = readable(hardware)
        if gpus and (self.active or due):
            self._read_at = now
            await self._read(gpus, now)

    async def _read(self, gpus: Mapping[GpuUuid, ReadGpu], now: float) -> None:
        exporter = await self._scraper.scrape(now)
        call = await self._begin(partial(self._session.read, gpus, exporter))
        if not await self._wait(call):
            return
        try:
            found = call.result()
        except NvmlError as error:
            self._metrics.count_counter_read("failed")
            self._forget()
            self._set_status(unavailable(str(error)))
            return
        self._metrics.count_counter_read("read")
        self._show(found)
        self._readings.append(NodeReading(now, found))
        self._set_status(counter_status(found.values()))

    async def _begin(self, function: Callable[[], _Value]) -> asyncio.Future[_Value]:
        """Call a method of the session in a thread, when the call before it has returned."""
        if self._in_flight is not None:
            await finished(self._in_flight)
        self._in_flight = call = call_in_daemon_thread(function, "nvml-counters")
        return call

    async def _wait(self, call: asyncio.Future[Any]) -> bool:
        """Wait for a call; return False if it took too long, so that its values are too old."""
        if await finished(call, self._timeout_seconds):
            return True
        since = utc_now()
        self._metrics.count_counter_read("hanging")
        self._forget()
        self._set_status(unavailable(f"NVML: no response to a read of counters since {since}"))
        await finished(call)
        call.exception()  # so that asyncio does not log it
        _log.warning("counters respond again %s", fields(since=since))
        await self._close()
        return False

    def _show(self, found: Mapping[GpuUuid, GpuReading]) -> None:
        """Set the metrics of the GPUs."""
        for uuid, increase in self._increase.add(found).items():
            self._metrics.count_nvlink_bytes(uuid, *increase)
        self._metrics.set_gpu_loads(
            {
                (uuid, load.source.value): (load.occupancy, load.dram)
                for uuid, each in found.items()
                if (load := each.counters.load) is not None
            }
        )

    def _forget(self) -> None:
        """Remove the metrics of the GPUs, because nothing can be read."""
        self._increase.forget()
        self._metrics.set_gpu_loads({})

    def _set_status(self, status: list[CounterStatus]) -> None:
        before = {each.kind: each for each in self.status}
        for each in status:
            if each != before.get(each.kind):
                _log.info(
                    "counters changed %s",
                    fields(kind=each.kind, source=each.source, gpus=each.gpus, reason=each.message),
                )
        if status != self.status:
            self.status = status
            self._changes.notify()

    async def _close(self) -> None:
        """Close the session, if it is open; in a thread because the call may hang."""
        if not self._session.is_open:
            return
        self._forget()
        await finished(await self._begin(self._session.close))

    async def _end(self) -> None:
        """Close the session. If a call hangs, leave the session open until the process ends."""
        if self._in_flight is not None and not await finished(self._in_flight, _END_SECONDS):
            _log.warning("NVML session of the counters not closed, a call hangs")
            return
        call = call_in_daemon_thread(self._session.close, "nvml-counters")
        await finished(call, _END_SECONDS)


def readable(hardware: NodeHardware) -> dict[GpuUuid, ReadGpu]:
    """Return the GPUs that NVML can read, with the numbers of their active NVLinks."""
    return {
        uuid: ReadGpu(gpu.index, tuple(hardware.peers.links(gpu.index)))
        for uuid, gpu in hardware.gpus.items()
    }
