"""Keeps the plugin connected to the container runtime while it may set CPUs."""

import asyncio
import logging
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from gputopo.alignment.cpuset import MachineCpus
from gputopo.runtime.log import fields
from gputopo_deviceplugin.admit.build import AdmitPart
from gputopo_deviceplugin.clock import loop_time
from gputopo_deviceplugin.conditions import NodeCondition
from gputopo_deviceplugin.context import AgentContext
from gputopo_deviceplugin.gpus.numa import read_cpus_of_nodes
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.kubelet.repeated_read import ReadWithBackoff
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.nri.frames import NriError
from gputopo_deviceplugin.nri.manager import cpu_manager_reader
from gputopo_deviceplugin.nri.plugin import CpusetPlugin
from gputopo_deviceplugin.nri.rule import CpuManager, connected, disconnected, obstacle
from gputopo_deviceplugin.nri.session import run_session
from gputopo_kube.changes import ChangeSignal

_CHECK_SECONDS: Final = 1.0
"""Time between two checks whether the plugin may still be connected."""

_HANDSHAKE_SECONDS: Final = 10.0
"""Longest time from the connection to the runtime's list of containers. The runtime waits 5 s for
the registration, and 2 s for each response."""

_MOST_PAUSE_SECONDS: Final = 30.0
"""The pause between two attempts to connect starts with 1 s and doubles up to this."""

_log = logging.getLogger(__name__)


class NriConnector:
    """Connects the plugin, and connects it again after a restart of the runtime.

    Attributes:
        condition: whether containers are limited to the CPUs near their GPUs, and why not.
        unbound: number of containers with GPUs without such a limit.
    """

    def __init__(
        self,
        state: GpuState,
        reader: ReadWithBackoff[CpuManager],
        changes: ChangeSignal,
        metrics: AgentMetrics,
        *,
        socket: Path,
        system_dir: Path,
        allowed: Callable[[], Collection[int]] = lambda: os.sched_getaffinity(0),
    ) -> None:
        """Connect to ``socket``; sysfs is mounted at ``system_dir``.

        The CPUs that the agent itself may use are those of kubelet's cgroup. With cgroup v1, a
        container could not start with others.
        """
        self._state = state
        self._reader = reader
        self._changes = changes
        self._metrics = metrics
        self._socket = socket
        self._system_dir = system_dir
        self._allowed = allowed
        self._failures = 0
        self.condition = disconnected("the agent has not connected to the container runtime yet")
        self.unbound = 0

    async def run(self) -> None:
        """Stay connected until cancelled. No error ends this loop."""
        while True:
            try:
                await self._connect_if_allowed()
            except NriError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001 - a fault here must not end the agent
                _log.exception("NRI failed, connecting again")
                self._fail(error)
            await asyncio.sleep(self._pause_seconds())

    def _pause_seconds(self) -> float:
        pause: float = _CHECK_SECONDS * 2 ** max(self._failures - 1, 0)
        return min(pause, _MOST_PAUSE_SECONDS)

    def _fail(self, error: Exception) -> None:
        self._failures = min(self._failures + 1, 10)
        self._metrics.count_failure("nri")
        self._set(disconnected(str(error)))

    async def _connect_if_allowed(self) -> None:
        if (found := await self._find_obstacle()) is not None:
            self._failures = 0
            self._set(found)
            return
        gpus, metrics = self._state.known.gpus, self._metrics
        plugin = CpusetPlugin(
            gpus, self._read_machine, metrics, lambda: self._show_connected(plugin)
        )
        session = asyncio.create_task(run_session(self._socket, plugin))
        try:
            await self._watch(session, plugin)
        finally:
            session.cancel()
            await asyncio.gather(session, return_exceptions=True)

    async def _watch(self, session: asyncio.Task[None], plugin: CpusetPlugin) -> None:
        """Wait until the session ends, or until the plugin may not be connected any more."""
        topology = self._state.known.topology
        deadline = loop_time() + _HANDSHAKE_SECONDS
        while not session.done():
            await asyncio.wait({session}, timeout=_CHECK_SECONDS)
            if not plugin.synchronized and loop_time() > deadline:
                raise NriError(f"{self._socket}: no list of containers in {_HANDSHAKE_SECONDS:g} s")
            other = self._state.known.topology != topology
            if other or await self._find_obstacle() is not None:
                return
        await session

    async def _find_obstacle(self) -> NodeCondition | None:
        await self._reader.update()
        cpus_of = read_cpus_of_nodes(self._system_dir, self._allowed())
        return obstacle(self._reader.value, self._state.known.gpus, cpus_of)

    def _read_machine(self) -> MachineCpus:
        cpus_of = read_cpus_of_nodes(self._system_dir, self._allowed())
        return MachineCpus(cpus_of, self._reader.value.policy)

    def _show_connected(self, plugin: CpusetPlugin) -> None:
        self._failures = 0
        self.unbound = len(plugin.known.unbound)
        self._set(connected(plugin.known.unbound))

    def _set(self, condition: NodeCondition) -> None:
        if condition != self.condition:
            _log.info(
                "CPUs near the GPUs %s", fields(bound=condition.holds, reason=condition.message)
            )
            self.condition = condition
            self.unbound = self.unbound if condition.holds else 0
            self._changes.notify()


def create_connector(context: AgentContext, admit: AdmitPart) -> NriConnector | None:
    """Return the connector, or None if the agent must not limit the CPUs of containers."""
    settings, retry_seconds = context.settings, context.settings.resync_seconds
    if settings.nri_socket is None:
        return None
    return NriConnector(
        context.state,
        cpu_manager_reader(admit.kubelet, admit.read_config, retry_seconds=retry_seconds),
        context.changes,
        context.metrics,
        socket=settings.nri_socket,
        system_dir=settings.system_dir,
    )
