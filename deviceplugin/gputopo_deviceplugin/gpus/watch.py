"""Follows the node's GPUs: reads NVML again and again, and at once when an XID comes."""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from gputopo.runtime.log import fields
from gputopo.topology.model import NodeTopology
from gputopo_deviceplugin.gpus.daemon_thread import finished, in_daemon_thread
from gputopo_deviceplugin.gpus.health import all_unhealthy, health_of
from gputopo_deviceplugin.gpus.session import Fault, Look, NvmlSession
from gputopo_deviceplugin.gpus.xid_store import XidMarkStore
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_deviceplugin.state import GpuState, NodeHardware

_END_SECONDS: Final = 1.0
"""Longest wait for NVML when the agent ends."""

_log = logging.getLogger(__name__)

Value = TypeVar("Value")


class HardwareWatch:
    """Keeps ``current`` up to date.

    There is at most one call of NVML at a time, in a daemon thread. While one exceeds its time
    limit all GPUs are unhealthy, and no further call is made until it has returned.
    """

    def __init__(
        self,
        current: GpuState,
        session: NvmlSession,
        marks: XidMarkStore,
        settings: AgentSettings,
        *,
        reset_at: Callable[[], str | None],
        on_hang: Callable[[str | None], None],
    ) -> None:
        """Read NVML through ``session``.

        Args:
            current: what is known of the GPUs.
            session: NVML; closed when the watch ends.
            marks: XIDs of the GPUs.
            settings: pauses and time limits.
            reset_at: returns the value of the Node's annotation ``gputopo.io/gpus-reset-at``;
                called at each reading.
            on_hang: called with the reason when a call exceeds its time limit, and with
                None when it has returned.
        """
        self._current = current
        self._session = session
        self._marks = marks
        self._settings = settings
        self._reset_at = reset_at
        self._on_hang = on_hang
        self._known: NodeTopology | None = None
        self._in_flight: asyncio.Future[Any] | None = None

    async def run(self, known: NodeTopology | None) -> None:
        """Follow the GPUs until cancelled, from what was ``known`` of them before."""
        self._known = known
        try:
            while True:
                self._set(self._hardware(await self._look()))
                await self._pause()
        finally:
            await self._end()

    async def _pause(self) -> None:
        """Wait for the time of the next reading, or for an XID, or for the end of a hang."""
        if not self._session.listens:
            await asyncio.sleep(self._settings.retry_seconds)
            return
        hardware = self._current.hardware
        deadline = time.monotonic() + self._settings.health_seconds
        while time.monotonic() < deadline and self._current.hardware is hardware:
            limit = self._settings.nvml_timeout_seconds
            xid = await self._call(self._session.listen, "waiting for XIDs", limit)
            if xid is not None and self._marks.add(xid):
                return

    async def _look(self) -> Look | Fault:
        settings = self._settings
        opened = self._session.is_open
        return await self._call(
            partial(self._session.look, self._known),
            "reading the GPUs" if opened else "opening NVML and reading the GPUs",
            settings.nvml_timeout_seconds if opened else settings.nvml_open_timeout_seconds,
        )

    async def _call(self, function: Callable[[], Value], purpose: str, limit: float) -> Value:
        """Return the function's result, however late; report a hang after ``limit`` seconds."""
        call = in_daemon_thread(function, "nvml")
        self._in_flight = call
        if not await finished(call, limit):
            self._report_hang(f"{purpose} takes longer than {limit:g} s")
            await finished(call)
            _log.warning("NVML responds again %s", fields(after=purpose))
            self._on_hang(None)
        return call.result()

    def _report_hang(self, what: str) -> None:
        reason = (
            f"NVML does not respond: {what}; see the kernel log for NVRM messages, and reboot "
            "the node if it stays so"
        )
        _log.error("NVML hangs %s", fields(reason=reason))
        self._set(self._unavailable(reason))
        self._on_hang(reason)

    def _hardware(self, found: Look | Fault) -> NodeHardware:
        if isinstance(found, Fault):
            return self._unavailable(found.reason)
        if not found.topology.gpus and self._known is None:
            return NodeHardware(None, {}, None)
        reset_at = self._reset_at()
        if reset_at is not None:
            self._marks.reset_at(reset_at)
        marks = self._marks.after(found.readings)
        quiet = self._settings.xid_quiet_seconds
        health = health_of(found.topology, found.readings, marks, xid_quiet_seconds=quiet)
        return NodeHardware(found.topology, health, None)

    def _unavailable(self, reason: str) -> NodeHardware:
        known = self._known
        return NodeHardware(known, all_unhealthy(known, reason) if known else {}, reason)

    def _set(self, hardware: NodeHardware) -> None:
        self._log_changes(hardware)
        self._known = hardware.topology
        self._current.set(hardware)

    async def _end(self) -> None:
        """Close the session, unless a call hangs: its thread ends with the process."""
        if self._in_flight is not None and not await finished(self._in_flight, _END_SECONDS):
            _log.warning("NVML not closed, a call hangs")
            return
        await finished(in_daemon_thread(self._session.close, "nvml"), _END_SECONDS)

    def _log_changes(self, hardware: NodeHardware) -> None:
        before = self._current.hardware
        if before is None or before.fault != hardware.fault:
            _log.info(
                "hardware read %s",
                fields(gpus=len(hardware.health), fault=hardware.fault or "none"),
            )
        for gpu, fault in hardware.health.items():
            if before is not None and before.health.get(gpu) != fault:
                _log.warning("health changed %s", fields(gpu=gpu, fault=fault or "none"))
