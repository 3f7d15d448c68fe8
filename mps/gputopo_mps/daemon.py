"""The control daemon of one shared GPU: its start, its end, and whether it runs."""

import asyncio
import os
import signal
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
_NO_FILES: Final = tuple((os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_RDWR, 0) for each in range(3))


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
        self._child: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether the daemon runs."""
        if self._child is not None:
            return self._child_runs()
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
        self._child = child = self._launch()
        self._cgroup.move(child)
        await self._wait_until_responding()
        # The first client would start the server. An early start shows errors before that.
        with suppress(ControlError):
            await self._control.start_server(self._settings.client_user or _ROOT)

    def _launch(self) -> int:
        several_users = [] if self._settings.client_user is not None else ["-multiuser-server"]
        program = self._settings.control_program
        try:
            return os.posix_spawnp(
                program,
                [program, "-f", *several_users],
                self._folders.environment(),
                file_actions=_NO_FILES,
                setsid=True,
                setsigdef=[signal.SIGPIPE],  # Python ignores it, and children inherit that
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
        while pids := self._processes():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() >= deadline:
                raise DaemonError(f"processes {', '.join(map(str, pids))} of MPS do not end")
            await asyncio.sleep(_POLL_SECONDS)

    def _processes(self) -> set[int]:
        # The command line of a process is empty for a moment after its start.
        own = {self._child} if self._child is not None and self._child_runs() else set()
        return own | set(find_daemons(self._folders.pipe))

    def _child_runs(self) -> bool:
        """Return whether the daemon that this process has started runs; reap it if it has ended."""
        if self._child is not None and _has_ended(self._child):
            self._child = None
        return self._child is not None

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


def _has_ended(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG) != (0, 0)
    except ChildProcessError:  # it was reaped before
        return True
