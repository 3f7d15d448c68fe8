"""Follows the node's GPUs: reads NVML again and again, and at once when an XID comes."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from gputopo.runtime.log import fields
from gputopo.topology.model import GpuUuid, NodeTopology, TopologyError
from gputopo.topology.published import to_spec
from gputopo_deviceplugin.discover import discover
from gputopo_deviceplugin.health import XidMark, all_unhealthy, health_of, is_critical
from gputopo_deviceplugin.host import numa_nodes
from gputopo_deviceplugin.nvml import Nvml, NvmlError, XidEvents
from gputopo_deviceplugin.readings import Readings, Xid
from gputopo_deviceplugin.state import Current, Hardware

_LISTEN_MILLISECONDS: Final = 250

_log = logging.getLogger(__name__)

Value = TypeVar("Value")


class HardwareWatch:
    """Keeps ``current`` true. All of NVML is called from one thread of its own."""

    def __init__(
        self,
        current: Current,
        *,
        library_dir: Path,
        system_dir: Path,
        health_seconds: float,
        retry_seconds: float,
        xid_quiet_seconds: float,
    ) -> None:
        """Read every ``health_seconds``; without NVML try every ``retry_seconds``."""
        self._current = current
        self._library_dir = library_dir
        # Read once: on virtual machines with a balloon the memory goes up and down, and each
        # change of the spec would be a new generation of the topology.
        self._numa_nodes = numa_nodes(system_dir)
        self._health_seconds = health_seconds
        self._retry_seconds = retry_seconds
        self._xid_quiet_seconds = xid_quiet_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nvml")
        self._nvml: Nvml | None = None
        self._events: XidEvents | None = None
        self._answering: frozenset[str] = frozenset()
        self._marks: dict[GpuUuid, XidMark] = {}

    async def run(self, known: NodeTopology | None) -> None:
        """Follow the GPUs until cancelled, from what was ``known`` of them before."""
        try:
            while True:
                hardware = await self._call(partial(self._look, known))
                known = hardware.topology
                self._tell(hardware)
                self._current.set(hardware)
                await self._pause(hardware)
        finally:
            await asyncio.shield(self._call(self._close))
            self._thread.shutdown()

    async def _pause(self, hardware: Hardware) -> None:
        """Wait for the time of the next reading, or for an XID."""
        if self._events is None:
            wait = self._retry_seconds if hardware.fault else self._health_seconds
            await asyncio.sleep(wait)
            return
        deadline = time.monotonic() + self._health_seconds
        while time.monotonic() < deadline:
            xid = await self._call(self._listen)
            if xid is None:
                continue
            _log.warning(
                "XID %s", fields(gpu=xid.uuid, xid=xid.code, critical=is_critical(xid.code))
            )
            if is_critical(xid.code):
                self._marks[GpuUuid(xid.uuid)] = XidMark(xid.code, time.monotonic())
                return

    async def _call(self, function: Callable[[], Value]) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def _look(self, known: NodeTopology | None) -> Hardware:
        try:
            if self._nvml is None:
                self._nvml = Nvml(self._library_dir)
            readings = self._nvml.read()
            self._listen_to(readings)
            topology = _publishable(discover(readings, self._numa_nodes, known))
        except (NvmlError, TopologyError) as error:
            self._close()
            fault = str(error)
            return Hardware(known, all_unhealthy(known, fault) if known else {}, fault)
        if not topology.gpus and known is None:
            return Hardware(None, {}, None)
        health = health_of(
            topology,
            readings,
            self._marks,
            now_seconds=time.monotonic(),
            xid_quiet_seconds=self._xid_quiet_seconds,
        )
        return Hardware(topology, health, None)

    def _listen_to(self, readings: Readings) -> None:
        """Register for XIDs anew when other GPUs answer than before."""
        answering = frozenset(gpu.uuid for gpu in readings.gpus)
        if self._events is not None and answering == self._answering:
            return
        if self._events is not None:
            self._events.close()
            self._events = None
        self._events = XidEvents()
        self._answering = answering

    def _listen(self) -> Xid | None:
        if self._events is None:
            return None
        try:
            return self._events.wait(_LISTEN_MILLISECONDS)
        except NvmlError as error:
            _log.warning("XIDs not heard, registering again %s", fields(reason=error))
            self._answering = frozenset()
            time.sleep(_LISTEN_MILLISECONDS / 1000)
            return None

    def _close(self) -> None:
        if self._nvml is None:
            return
        try:
            if self._events is not None:
                self._events.close()
            self._nvml.close()
        except NvmlError as error:
            _log.debug("NVML not closed %s", fields(reason=error))
        self._nvml = self._events = None

    def _tell(self, hardware: Hardware) -> None:
        before = self._current.hardware
        if before is None or before.fault != hardware.fault:
            _log.info(
                "hardware read %s",
                fields(gpus=len(hardware.health), fault=hardware.fault or "none"),
            )
        for gpu, fault in hardware.health.items():
            if before is not None and before.health.get(gpu) != fault:
                _log.warning("health changed %s", fields(gpu=gpu, fault=fault or "none"))


def _publishable(topology: NodeTopology) -> NodeTopology:
    """Return the topology itself.

    Raises:
        TopologyError: where the API has no words for what NVML says.
    """
    try:
        to_spec(topology)
    except ValidationError as error:
        detail = error.errors()[0]
        field = ".".join(map(str, detail["loc"]))
        raise TopologyError(f"NVML: {field}: {detail['msg']} (got {detail['input']!r})") from None
    return topology
