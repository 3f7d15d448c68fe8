"""Starts programs on the GPU and sends them commands."""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_CUDA: Final = Path(__file__).with_name("cuda.py")
_ENDED: Final = {"ended": True}


@dataclass(frozen=True, slots=True)
class Container:
    """How a program runs as in a container: namespaces of its own, and folders mounted there.

    Attributes:
        mounts: folder of the host by folder of the container.
        variables: environment variables.
        user: user ID of the program.
    """

    mounts: Mapping[str, str]
    variables: Mapping[str, str]
    user: int = 0

    def command(self, program: list[str]) -> list[str]:
        """Return the command line that runs ``program`` in new namespaces."""
        lines = ["mount -t proc proc /proc"]
        for target, source in self.mounts.items():
            folder, origin = shlex.quote(target), shlex.quote(source)
            lines += [f"mkdir -p {folder}", f"mount --bind {origin} {folder}"]
        changed = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        words = [*(changed if self.user else []), *program]
        script = " && ".join([*lines, f"exec {shlex.join(words)}"])
        namespaces = ["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
        return ["unshare", *namespaces, "sh", "-c", script]


class GpuProgram:
    """A process that obeys commands, one at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("process: needs pipes for its input and its output")
        self._process = process
        self._input, self._output = process.stdin, process.stdout

    @classmethod
    async def start(cls, container: Container, program: list[str] | None = None) -> "GpuProgram":
        """Start ``program``, by default ``cuda.py``."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("CUDA_")}
        process = await asyncio.create_subprocess_exec(
            *container.command(program or [sys.executable, str(_CUDA)]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**kept, **container.variables},
            start_new_session=True,
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """PID of the program on the host, below the process that has made the namespaces."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        found = children.read_text().split()
        return int(found[0]) if found else self._process.pid

    async def request(
        self, command: str, limit_seconds: float = 60.0, **options: object
    ) -> dict[str, Any]:
        """Send a command; return the reply, or that the process has ended or does not respond."""
        await self.send(command, **options)
        return await self.reply(limit_seconds)

    async def send(self, command: str, **options: object) -> None:
        """Send a command, and do not wait for its reply."""
        self._input.write(json.dumps({"command": command, **options}).encode() + b"\n")
        with suppress(ConnectionError):
            await self._input.drain()

    async def reply(self, limit_seconds: float = 60.0) -> dict[str, Any]:
        """Return the next reply."""
        try:
            line = await asyncio.wait_for(self._output.readline(), limit_seconds)
        except TimeoutError:
            return {"no response within s": limit_seconds}
        found: dict[str, Any] = json.loads(line) if line else dict(_ENDED)
        return found

    async def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, 9)
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def end(self) -> None:
        """Close the input, so that the program ends in order; kill it after 10 s."""
        self._input.close()
        try:
            await asyncio.wait_for(self._process.wait(), 10.0)
        except TimeoutError:
            await self.kill()
