"""The control daemon of one shared GPU: its start, its end, and whether it runs."""

import asyncio
import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import Final

from gputopo.errors import GputopoError
from gputopo_mps.cgroups import DaemonCgroup
from gputopo_mps.control import ControlError, ControlProgram, GpuFolders
from gputopo_mps.processes import find_daemons, is_daemon
from gputopo_mps.settings import MpsSettings

_PID_FILE: Final = "nvidia-cuda-mps-control.pid"
_POLL_SECONDS: Final = 0.05
_ROOT: Final = 0


class DaemonError(GputopoError):
    """The daemon did not start, or its processes do not end."""


class MpsDaemon:
    """Starts and ends the daemon of one GPU. A daemon of an earlier start is found by its PID."""

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
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the daemon runs."""
        if self._process is not None:
            return self._process.poll() is None
        try:
            pid = int((self._folders.pipe / _PID_FILE).read_text())
        except (OSError, ValueError):
            return False
        return is_daemon(pid, self._folders.pipe)

    async def start(self) -> None:
        """Start the daemon and wait until it responds.

        Raises:
            DaemonError: the program is missing, or ends, or does not respond in time.
        """
        # Containers have the folder itself mounted, so it is emptied and not replaced.
        for path in self._folders.pipe.iterdir():
            path.unlink()
        self._process = self._launch()
        self._cgroup.move(self._process.pid)
        await self._wait_until_responding()
        # The first client would start the server. An early start shows errors before that.
        with suppress(ControlError):
            await self._control.start_server(self._settings.client_user or _ROOT)

    def _launch(self) -> subprocess.Popen[bytes]:
        several_users = [] if self._settings.client_user is not None else ["-multiuser-server"]
        program = self._settings.control_program
        try:
            return subprocess.Popen(  # noqa: S603 - an administrator names the program
                [program, "-f", *several_users],
                env=self._folders.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise DaemonError(f"{program}: {error.strerror}") from error

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
        while pids := list(find_daemons(self._folders.pipe)):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() >= deadline:
                raise DaemonError(f"processes {', '.join(map(str, pids))} of MPS do not end")
            await asyncio.sleep(_POLL_SECONDS)
            self._reap()
        self._reap()
        self._process = None

    def _reap(self) -> None:
        if self._process is not None:
            self._process.poll()

    async def _wait_until_responding(self) -> None:
        seconds = self._settings.start_seconds
        try:
            async with asyncio.timeout(seconds):
                while True:
                    if not self.is_running:
                        raise DaemonError(f"the control daemon ended at once: {self._last_line()}")
                    with suppress(ControlError):
                        await self._control.servers()
                        return
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            text = f"the control daemon did not respond within {seconds:g} s"
            raise DaemonError(text) from None

    def _last_line(self) -> str:
        try:
            lines = (self._folders.log / "control.log").read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "it wrote no log"
