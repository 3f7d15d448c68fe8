"""The control daemon of one shared GPU: its start, its end, and whether it runs."""

import asyncio
import json
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

from gputopo.errors import GputopoError
from gputopo_mps import files
from gputopo_mps.cgroups import DaemonCgroup
from gputopo_mps.control import ACTIVE, ControlError, ControlProgram
from gputopo_mps.folders import GpuFolders
from gputopo_mps.launcher import KEEP
from gputopo_mps.settings import MpsSettings
from gputopo_mps.threads import in_thread
from gputopo_mps.tracked import MpsProcesses

_POLL_SECONDS: Final = 0.05
_ROOT: Final = 0
_MOST_LOG_BYTES: Final = 1 << 16


class DaemonError(GputopoError):
    """The daemon or its server did not start, or their processes do not end."""


class MpsDaemon:
    """Starts and ends the daemon of one GPU."""

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
        self.processes = MpsProcesses(folders, cgroup)

    @property
    def is_running(self) -> bool:
        """Whether the daemon runs."""
        return self.processes.is_running

    async def start(self, limit_bytes: int) -> None:
        """Start the daemon and its server, and wait until both respond.

        Args:
            limit_bytes: GPU memory of a process that sets no limit; no process can set more.

        Raises:
            DaemonError: a program is missing, or ends, or does not respond in time.
        """
        seconds = self._settings.start_seconds
        try:
            async with asyncio.timeout(seconds):
                # Containers have the folder itself mounted, so it is emptied and not replaced.
                await in_thread(partial(files.clear, self._folders.pipe), seconds)
                await self._launch()
                await self._wait_until_responding()
                await self._control.set_default_limit(limit_bytes)
                await self._start_server()
        except TimeoutError:
            raise DaemonError(
                f"MPS did not respond within {seconds:g} s: {await self._last_line()}"
            ) from None
        self.processes.update()

    async def _launch(self) -> None:
        """Run the control program, which ends as soon as the daemon runs in the background.

        In the foreground (``-f``), it would write both logs to its standard output.
        """
        several_users = [] if self._settings.client_user is not None else ["-multiuser-server"]
        memory = self._folders.memory
        plan = {
            "command": [self._settings.control_program, "-d", *several_users],
            "cgroups": [str(path) for path in self.processes.prepare()],
            "shm": str(self._folders.shm) if memory is not None else None,
        }
        launcher = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "gputopo_mps.launcher", json.dumps(plan)),
            env=self._folders.environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            await self._record(launcher)
        finally:
            _input(launcher).close()  # it now ends, and kills a daemon that was not recorded
            await launcher.wait()

    async def _record(self, launcher: asyncio.subprocess.Process) -> None:
        """Record the daemon before it may outlive the launcher."""
        line = await cast("asyncio.StreamReader", launcher.stdout).readline()
        report: dict[str, Any] = json.loads(line or b'{"error": "the launcher ended at once"}')
        if "error" in report:
            raise DaemonError(report["error"])
        if report["status"] or not report["daemons"]:
            raise DaemonError(f"the control daemon ended at once: {await self._last_line()}")
        self.processes.record(report["daemons"][0])
        _input(launcher).write(KEEP)
        with suppress(ConnectionError):
            await _input(launcher).drain()

    async def _wait_until_responding(self) -> None:
        while True:
            if not self.is_running:
                raise DaemonError(f"the control daemon ended at once: {await self._last_line()}")
            with suppress(ControlError):
                await self._control.servers()
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
                    raise DaemonError(f"the MPS server ended at once: {await self._last_line()}")
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
        self.processes.update()
        while found := self.processes.running():
            for each in found:
                each.kill()
                each.close()
            if time.monotonic() >= deadline:
                pids = ", ".join(map(str, sorted(each.identity.pid for each in found)))
                raise DaemonError(f"processes {pids} of MPS do not end")
            await asyncio.sleep(_POLL_SECONDS)
        self.processes.forget()

    async def _last_line(self) -> str:
        """Return the newest last line of both logs. Each line begins with its time."""
        last: list[str] = []
        for name in ("control.log", "server.log"):
            path = self._folders.log / name
            with suppress(OSError):
                seconds = self._settings.start_seconds
                text = await in_thread(partial(files.read_end, path, _MOST_LOG_BYTES), seconds)
                last += text.decode(errors="replace").splitlines()[-1:]
        return max(last, default="it wrote no log")


def _input(process: asyncio.subprocess.Process) -> asyncio.StreamWriter:
    return cast("asyncio.StreamWriter", process.stdin)
