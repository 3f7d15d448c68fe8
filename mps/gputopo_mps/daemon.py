"""The control daemon of one shared GPU: its start, its end, and whether it runs."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import Final

from gputopo.errors import GputopoError
from gputopo_mps.cgroups import DaemonCgroup
from gputopo_mps.control import ACTIVE, ControlError, ControlProgram, GpuFolders
from gputopo_mps.processes import find_daemons, is_daemon
from gputopo_mps.settings import MpsSettings

_PID_FILE: Final = "nvidia-cuda-mps-control.pid"
_POLL_SECONDS: Final = 0.05
_ROOT: Final = 0


class DaemonError(GputopoError):
    """The daemon or its server did not start, or their processes do not end."""


class MpsDaemon:
    """Starts and ends the daemon of one GPU. The daemon is found by its PID file."""

    def __init__(
        self,
        folders: GpuFolders,
        control: ControlProgram,
        settings: MpsSettings,
        cgroup: DaemonCgroup,
    ) -> None:
        self._folders = folders
        self._control = control
        self._settings = settings
        self._cgroup = cgroup

    @property
    def is_running(self) -> bool:
        """Whether the daemon runs."""
        return self._pid is not None

    @property
    def _pid(self) -> int | None:
        try:
            pid = int((self._folders.pipe / _PID_FILE).read_text())
        except (OSError, ValueError):
            return None
        return pid if is_daemon(pid, self._folders.pipe) else None

    async def start(self) -> None:
        """Start the daemon and its server, and wait until both respond.

        Raises:
            DaemonError: a program is missing, or ends, or does not respond in time.
        """
        # Containers have the folder itself mounted, so it is emptied and not replaced.
        for path in self._folders.pipe.iterdir():
            path.unlink()
        seconds = self._settings.start_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._launch()
                await self._wait_until_responding()
                await self._start_server()
        except TimeoutError:
            reason = f"MPS did not respond within {seconds:g} s: {self._last_line()}"
            raise DaemonError(reason) from None

    async def _launch(self) -> None:
        """Run the control program, which ends as soon as the daemon runs in the background.

        In the foreground (``-f``), it would write both logs to its standard output.
        """
        several_users = [] if self._settings.client_user is not None else ["-multiuser-server"]
        program = self._settings.control_program
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                "-d",
                *several_users,
                env=self._folders.environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError as error:
            raise DaemonError(f"{program}: {error.strerror}") from error
        try:
            status = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if status:
            raise DaemonError(f"the control daemon ended at once: {self._last_line()}")

    async def _wait_until_responding(self) -> None:
        moved = False
        while True:
            pid = self._pid
            if pid is not None and not moved:
                self._cgroup.move(pid)
                moved = True
            if moved and pid is None:
                raise DaemonError(f"the control daemon ended at once: {self._last_line()}")
            with suppress(ControlError):
                await self._control.servers()
                if moved:
                    return
            await asyncio.sleep(_POLL_SECONDS)

    async def _start_server(self) -> None:
        """Start the server, and wait until its status is known.

        The first client would start it too. But so an error is found before a pod gets a share. On
        real GPUs, commands about a server fail in the first 0.3 s.
        """
        await self._control.start_server(self._settings.client_user or _ROOT)
        seen = False
        while True:
            with suppress(ControlError):
                servers = await self._control.servers()
                if seen and not servers:
                    raise DaemonError(f"the MPS server ended at once: {self._last_line()}")
                seen = bool(servers)
                if servers and await self._control.status(servers[0]) == ACTIVE:
                    return
            await asyncio.sleep(_POLL_SECONDS)

    async def quit(self) -> None:
        """End the daemon and its server; without a response, kill them."""
        if self.is_running:
            with suppress(ControlError):
                await self._control.quit(self._settings.stop_seconds / 2)
        await self.kill()

    async def kill(self) -> None:
        """Kill the daemon and its server, and wait until they have ended.

        Raises:
            DaemonError: they did not end in time.
        """
        deadline = time.monotonic() + self._settings.stop_seconds
        while pids := set(find_daemons(self._folders.pipe)):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() >= deadline:
                raise DaemonError(f"processes {', '.join(map(str, pids))} of MPS do not end")
            await asyncio.sleep(_POLL_SECONDS)

    def _last_line(self) -> str:
        """Return the newest last line of both logs. Each line begins with its time."""
        last: list[str] = []
        for name in ("control.log", "server.log"):
            with suppress(OSError):
                lines = (self._folders.log / name).read_text(errors="replace").splitlines()
                last += lines[-1:]
        return max(last, default="it wrote no log")
