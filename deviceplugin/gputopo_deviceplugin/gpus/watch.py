"""Keeps the state of the node's GPUs up to date: reads NVML periodically, and after each XID."""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from gputopo.api.names import GPUS_RESET_ANNOTATION
from gputopo.runtime.log import fields
from gputopo.topology.model import NodeTopology
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.health import all_unhealthy, evaluate_health
from gputopo_deviceplugin.gpus.link_ends import link_peers
from gputopo_deviceplugin.gpus.numa import read_numa_nodes
from gputopo_deviceplugin.gpus.nvml import NvmlError
from gputopo_deviceplugin.gpus.session import NvmlSession
from gputopo_deviceplugin.gpus.snapshot import NvmlSnapshot
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.gpus.xid_mark_store import XidMarkStore
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_deviceplugin.statefile import StateFile
from gputopo_kube.daemon_thread import call_in_daemon_thread, finished
from gputopo_kube.probes import Pulse

_END_SECONDS: Final = 1.0
"""Longest wait for NVML when the agent ends."""

_log = logging.getLogger(__name__)

Value = TypeVar("Value")


class NodeAnnotations(Protocol):
    """The annotations of this node's Node object."""

    def annotation(self, name: str) -> str | None:
        """Return the value of an annotation, or None if the Node does not have it."""
        ...


class HardwareWatch:
    """Reads the node's GPUs through NVML, and writes the GPUs and their health to ``GpuState``.

    A daemon thread makes at most one call of NVML at a time. When a call exceeds its time limit,
    all GPUs become unhealthy, and the next call waits until the hanging call has returned.
    """

    def __init__(
        self,
        state: GpuState,
        session: NvmlSession,
        marks: XidMarkStore,
        settings: AgentSettings,
        node: NodeAnnotations,
        pulse: Pulse,
    ) -> None:
        """Read NVML through ``session``, and close it when the watch ends.

        While a call of NVML exceeds its time limit, ``pulse`` makes the liveness probe fail.
        """
        self._state = state
        self._session = session
        self._marks = marks
        self._settings = settings
        self._node = node
        self._pulse = pulse
        self._known: NodeTopology | None = None
        self._in_flight: asyncio.Future[Any] | None = None

    async def run(self, known: NodeTopology | None) -> None:
        """Watch the GPUs until cancelled. ``known`` is the topology that an earlier agent found."""
        self._known = known
        try:
            while True:
                self._set(await self._read())
                await self._pause()
        finally:
            await self._end()

    async def _pause(self) -> None:
        """Wait until the next read of NVML is due, an XID arrives or a hanging call returns."""
        if not self._session.listens:
            await asyncio.sleep(self._settings.retry_seconds)
            return
        hardware = self._state.hardware
        deadline = time.monotonic() + self._settings.health_seconds
        while time.monotonic() < deadline and self._state.hardware is hardware:
            limit = self._settings.nvml_timeout_seconds
            xid = await self._call(self._session.wait_for_xid, "waiting for XIDs", limit)
            if xid is not None and self._marks.add(xid):
                return

    async def _read(self) -> NodeHardware:
        settings = self._settings
        opened = self._session.is_open
        try:
            topology, snapshot = await self._call(
                partial(self._session.read_topology, self._known),
                "reading the GPUs" if opened else "opening NVML and reading the GPUs",
                settings.nvml_timeout_seconds if opened else settings.nvml_open_timeout_seconds,
            )
        except NvmlError as error:
            return self._unavailable(str(error))
        return self._evaluate(topology, snapshot)

    async def _call(self, function: Callable[[], Value], purpose: str, limit: float) -> Value:
        """Return the result of ``function``. If it takes longer than ``limit``, report a hang."""
        call = call_in_daemon_thread(function, "nvml")
        self._in_flight = call
        if not await finished(call, limit):
            self._report_hang(f"{purpose} takes longer than {limit:g} s")
            await finished(call)
            _log.warning("NVML responds again %s", fields(after=purpose))
            self._pulse.report_hang(None)
        return call.result()

    def _report_hang(self, cause: str) -> None:
        reason = (
            f"NVML does not respond: {cause}; see the kernel log for NVRM messages, and reboot "
            "the node if NVML stays unavailable"
        )
        _log.error("NVML hangs %s", fields(reason=reason))
        self._set(self._unavailable(reason))
        self._pulse.report_hang(reason)

    def _evaluate(self, topology: NodeTopology, snapshot: NvmlSnapshot) -> NodeHardware:
        if not topology.gpus and self._known is None:
            return NodeHardware(None, {}, None)
        reset_at = self._node.annotation(GPUS_RESET_ANNOTATION)
        if reset_at is not None:
            self._marks.apply_reset(reset_at)
        marks = self._marks.update(snapshot)
        quiet = self._settings.xid_quiet_seconds
        health = evaluate_health(topology, snapshot, marks, xid_quiet_seconds=quiet)
        return NodeHardware(topology, health, None, link_peers(topology, snapshot))

    def _unavailable(self, reason: str) -> NodeHardware:
        known = self._known
        return NodeHardware(known, all_unhealthy(known, reason) if known else {}, reason)

    def _set(self, hardware: NodeHardware) -> None:
        self._log_changes(hardware)
        self._known = hardware.topology
        self._state.set_hardware(hardware)

    async def _end(self) -> None:
        """Close the session. If a call hangs, leave the session open until the process ends."""
        if self._in_flight is not None and not await finished(self._in_flight, _END_SECONDS):
            _log.warning("NVML not closed, a call hangs")
            return
        await finished(call_in_daemon_thread(self._session.close, "nvml"), _END_SECONDS)

    def _log_changes(self, hardware: NodeHardware) -> None:
        before = self._state.hardware
        if before is None or before.fault != hardware.fault:
            count, fault = len(hardware.health), hardware.fault or "none"
            _log.info("hardware read %s", fields(gpus=count, fault=fault))
        for gpu, gpu_fault in hardware.health.items():
            if before is not None and before.health.get(gpu) != gpu_fault:
                _log.warning("health changed %s", fields(gpu=gpu, fault=gpu_fault or "none"))


def create_hardware_watch(
    settings: AgentSettings, state: GpuState, node: NodeAnnotations, pulse: Pulse
) -> HardwareWatch:
    """Return the watch of the GPUs, which writes to ``state``; NVML is not opened yet.

    The agent reads sysfs only here. On virtual machines with memory ballooning the size of the
    memory changes, and each change would create a new generation of the spec.
    """
    marks = StateFile(settings.state_dir / "xids.json")
    return HardwareWatch(
        state,
        NvmlSession(settings.library_dir, read_numa_nodes(settings.system_dir)),
        XidMarkStore(marks, quiet_seconds=settings.xid_quiet_seconds),
        settings,
        node,
        pulse,
    )
