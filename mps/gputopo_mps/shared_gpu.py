"""One shared GPU: its compute mode, its control daemon, its clients and their faults."""

import asyncio
import logging
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final

from gputopo.errors import GputopoError
from gputopo.runtime.log import fields
from gputopo_mps.client_termination import ClientTermination
from gputopo_mps.clients import Clients, StoredState, load_state, save_state
from gputopo_mps.control import ControlError, ControlProgram, NoResponseError
from gputopo_mps.daemon import MpsDaemon
from gputopo_mps.exclusive import ExclusiveMode, NotPossibleError
from gputopo_mps.faultwatch import FaultWatch
from gputopo_mps.folders import GpuFolders
from gputopo_mps.memory import GpuMemory
from gputopo_mps.parts import NodeParts, SharedGpuState
from gputopo_mps.threads import in_thread

_MOST_ERRORS: Final = 3
"""A daemon that responds with so many errors, one after another, is replaced."""

_log = logging.getLogger(__name__)


class SharedGpu:
    """Runs MPS for one GPU. One operation at a time.

    Attributes:
        state: None while the GPU is not shared.
        reason: why the GPU is not Ready.
        server: PID of the server; None if there is none.
        clients: the clients of the server.
        memory: the limits of their memory.
    """

    def __init__(self, folders: GpuFolders, parts: NodeParts) -> None:
        settings = parts.settings
        self.folders = folders
        self.state: SharedGpuState | None = None
        self.reason = ""
        self.server: int | None = None
        self.clients = Clients(parts.processes)
        self.control = ControlProgram(settings.control_program, folders, settings.response_seconds)
        self.mode = ExclusiveMode(parts.driver, folders.uuid)
        self.memory = GpuMemory(folders.uuid, self.control, self.mode, parts)
        self._daemon = MpsDaemon(folders, self.control, settings, parts.cgroup)
        self._faults = FaultWatch(folders, parts.faults, parts.metrics, self.clients, settings)
        self._termination = ClientTermination(self.control, self.clients, parts.metrics)
        self._metrics = parts.metrics
        self._settings = settings
        self._lock = asyncio.Lock()
        self._errors = 0

    async def start(self) -> None:
        """Start MPS; do nothing if it runs.

        Raises:
            NotPossibleError: it did not start. The GPU is as before.
        """
        async with self._lock:
            if self.state is SharedGpuState.STARTING:
                try:
                    await self._recover()
                except (GputopoError, OSError) as error:
                    raise NotPossibleError(str(error)) from error
            if self.state not in {SharedGpuState.READY, SharedGpuState.FAULT}:
                await self._begin()
                return
            with suppress(ControlError):  # the next check finds out why
                await self.memory.apply(self.server)

    async def stop(self) -> None:
        """End MPS and set the compute mode DEFAULT; do nothing if the GPU is not shared.

        Raises:
            NotPossibleError: a client is connected, or the processes do not end.
        """
        async with self._lock:
            if self.state is None:
                return
            if self._daemon.is_running:
                await self._reject_clients()
            self._set(SharedGpuState.STOPPING)
            try:
                self.folders.state.unlink(missing_ok=True)
                await self._daemon.quit()
                await self._clean_up()
            except (GputopoError, OSError) as error:
                self._set(SharedGpuState.FAILED, str(error))
                raise NotPossibleError(self.reason) from error
            self._set(None)

    async def recover(self) -> None:
        """Continue with what an earlier start of the component has left."""
        self._set(SharedGpuState.STARTING, "the component was started again")
        await self.check()

    async def check(self) -> None:
        """Check daemon, server, compute mode and clients once. Failures set the state."""
        async with self._lock:
            try:
                if self.state is SharedGpuState.STARTING:
                    await self._recover()
                elif self.state in {SharedGpuState.READY, SharedGpuState.FAULT}:
                    await self._observe()
                elif self.state is SharedGpuState.FAILED and self.folders.root.exists():
                    await self._clean_up()
            except Exception as error:  # noqa: BLE001 - the checks of other GPUs must go on
                self._metrics.count_failure("check")
                _log.warning("check failed %s", fields(gpu=self.folders.uuid, reason=error))
                kept = self.state in {SharedGpuState.STARTING, SharedGpuState.FAILED}
                self._set(self.state if kept else SharedGpuState.FAULT, str(error))

    async def terminate(self, pods: AbstractSet[str]) -> None:
        """Terminate all clients of these pods. Clients that connect later need another call."""
        async with self._lock:
            if self.state in {SharedGpuState.READY, SharedGpuState.FAULT}:
                await self._termination.terminate(pods)

    async def _begin(self) -> None:
        self._set(SharedGpuState.STARTING)
        try:
            if self.folders.root.exists():
                await self._clean_up()
            await self.mode.check_unused()
            self.folders.create()
            await self.mode.enter()
            await self._serve()
        except (GputopoError, OSError) as error:
            await self._abandon(str(error))
            reason = self.reason
            if not self.mode.memory_bytes:
                self._set(None)  # there is no such GPU, or no NVML
            raise NotPossibleError(reason) from error

    async def _recover(self) -> None:
        self._daemon.processes.restore()
        state = load_state(self.folders.state)
        if state is None:
            await self._clean_up()
            self._set(None)
            return
        self.clients.restore(state)
        self._faults.restore(state)
        await self._observe()

    async def _observe(self) -> None:
        if not self._daemon.is_running:
            await self._replace("ended", "the control daemon has ended")
            return
        try:
            servers = await self.control.servers()
            status = await self.control.status(servers[0]) if servers else ""
            clients = await self.control.clients() if servers else []
        except ControlError as error:
            self._errors += 1
            if not isinstance(error, NoResponseError) and self._errors < _MOST_ERRORS:
                raise
            await self._replace("no-response", str(error))
            return
        self._errors = 0
        self._daemon.processes.update()
        await self.mode.keep([*servers, *(each.pid for each in clients)])
        if self.server is not None and self.server not in servers:
            await self._faults.record("ended", f"the MPS server {self.server} has ended")
        self.server = servers[0] if servers else None
        self.clients.update(clients)
        await self._follow_status(status)
        await self.memory.apply(self.server)
        self.memory.check()
        self._save()

    async def _follow_status(self, status: str) -> None:
        await self._faults.follow(status)
        if status != self._faults.FAULT:
            self._set(SharedGpuState.READY)
        elif self._faults.is_stuck:
            await self._replace("no-response", "the MPS server does not recover from a fatal fault")
        else:
            self._set(
                SharedGpuState.FAULT, "the MPS server recovers after all its clients have ended"
            )

    async def _replace(self, kind: str, reason: str) -> None:
        """Kill daemon and server, which ends the clients, and start them again."""
        await self._faults.record(kind, reason)
        self._set(SharedGpuState.STARTING, reason)
        try:
            await self._daemon.kill()
            former = [each.client.pid for each in self.clients.current]
            self.clients.update([])
            self.folders.create()
            await self.mode.keep(former)
            await self._serve()
        except (GputopoError, OSError) as error:
            await self._abandon(f"{reason}; not started again: {error}")

    async def _serve(self) -> None:
        await self._daemon.start(self.memory.limits.of_process)
        self._errors = 0
        self.memory.reset()
        self._faults.reset()
        self._save()
        servers = await self.control.servers()
        self.server = servers[0] if servers else None
        self._set(SharedGpuState.READY)

    def _save(self) -> None:
        state = StoredState(
            clients=self.clients.stored(),
            log_offset=self._faults.log.offset,
            fault_recorded=self._faults.is_recorded,
        )
        save_state(self.folders.state, state)

    async def _reject_clients(self) -> None:
        try:
            clients = await self.control.clients()
        except ControlError as error:
            raise NotPossibleError(f"the clients are unknown: {error}") from error
        if clients:
            pids = ", ".join(str(each.pid) for each in clients)
            raise NotPossibleError(f"GPU {self.folders.uuid}: processes {pids} use it")

    async def _abandon(self, reason: str) -> None:
        try:
            await self._clean_up()
        except (GputopoError, OSError) as error:
            reason = f"{reason}; not cleaned up yet: {error}"
        self._set(SharedGpuState.FAILED, reason)

    async def _clean_up(self) -> None:
        """Undo everything. The folder is last, because it shows what is left to do."""
        self.folders.state.unlink(missing_ok=True)
        await self._daemon.kill()
        if self.folders.root.exists():
            await self.mode.leave()
            await in_thread(self.folders.remove, self._settings.stop_seconds)
        self.clients.update([])
        self.memory.reset()
        self.server = None
        self._faults.reset(new_log=True)

    def _set(self, state: SharedGpuState | None, reason: str = "") -> None:
        if (state, reason) != (self.state, self.reason):
            shown = state or "not shared"
            _log.info("GPU %s", fields(gpu=self.folders.uuid, state=shown, reason=reason or None))
        self.state, self.reason = state, reason
