"""Sends commands to the control daemon of one GPU, by running MPS's control program."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

from gputopo.errors import GputopoError
from gputopo_mps.folders import GpuFolders

ACTIVE: Final = "ACTIVE"
"""Status of a server that takes clients."""

_LONGEST: Final = 200
_MOST_BYTES: Final = 1 << 20
"""A pod can replace the socket of its daemon, and respond without an end."""

_MOST_CLIENTS: Final = 1024
"""MPS takes 60. The pod of each is read from the kernel, which takes time."""

_LONGEST_PID: Final = 10

_MIB: Final = 1 << 20


class ControlError(GputopoError):
    """The control program failed; the message has its output."""


class NoResponseError(ControlError):
    """No response within the time limit: the daemon or its server hangs."""


@dataclass(frozen=True, slots=True)
class MpsClient:
    """A process that is connected to a server."""

    pid: int
    server: int


class ControlProgram:
    """Sends commands to one daemon. Every method raises ``ControlError`` if its command fails."""

    def __init__(self, program: str, folders: GpuFolders, timeout_seconds: float) -> None:
        self._program = program
        self._folders = folders
        self._timeout_seconds = timeout_seconds

    async def servers(self) -> list[int]:
        """Return the PIDs of the servers. Without a client there may be none."""
        words = (await self.run("get_server_list")).split()
        return [pid for word in words if (pid := _pid(word)) is not None]

    async def status(self, server: int) -> str:
        """Return the state of a server: INITIALIZING, ACTIVE or FAULT."""
        return (await self.run(f"get_server_status {server}")).strip()

    async def clients(self) -> list[MpsClient]:
        """Return the clients of all servers; a process with several contexts is listed once."""
        return parse_clients(await self.run("ps"))

    async def terminate(self, client: MpsClient) -> None:
        """End the work of a client on the GPU. Its process gets the CUDA error 810.

        The program prints the number of a CUDA error, 0 for success. Its exit status is 0 anyway.
        """
        code = (await self.run(f"terminate_client {client.server} {client.pid}")).strip()
        if code not in {"", "0"}:
            shown = code[:_LONGEST]
            raise ControlError(f"terminate_client: CUDA error {shown} for process {client.pid}")

    async def set_default_limit(self, limit_bytes: int) -> None:
        """Set the GPU memory of each client of servers that start later."""
        await self.run(f"set_default_device_pinned_mem_limit 0 {limit_bytes // _MIB}M")

    async def set_limit(self, server: int, limit_bytes: int) -> None:
        """Set the GPU memory of each client that connects to this server later."""
        await self.run(f"set_device_pinned_mem_limit {server} 0 {limit_bytes // _MIB}M")

    async def start_server(self, user: int) -> None:
        """Start the server before the first client connects."""
        await self.run(f"start_server -uid {user}")

    async def quit(self, timeout_seconds: float) -> None:
        """Make the daemon end, and its server after ``timeout_seconds`` at the latest."""
        await self.run(f"quit -t {timeout_seconds:.0f}")

    async def run(self, command: str) -> str:
        """Send one command and return the output."""
        process = await self._start()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                output = await _exchange(process, command)
        except TimeoutError:
            reason = f"{command}: no response within {self._timeout_seconds:g} s"
            raise NoResponseError(reason) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        text = output.decode(errors="replace")
        if process.returncode:
            raise ControlError(f"{command}: {' '.join(text.split())[:_LONGEST]}")
        return text

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                self._program,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=self._folders.environment(),
            )
        except OSError as error:
            raise ControlError(f"{self._program}: {error.strerror}") from error


async def _exchange(process: asyncio.subprocess.Process, command: str) -> bytes:
    """Send a command and return the output, after the end of the program."""
    commands = cast("asyncio.StreamWriter", process.stdin)
    responses = cast("asyncio.StreamReader", process.stdout)
    commands.write(f"{command}\n".encode())
    with suppress(ConnectionError):
        await commands.drain()
    commands.close()
    output = b""
    while part := await responses.read(_MOST_BYTES):
        output += part
        if len(output) > _MOST_BYTES:
            process.kill()
            while await responses.read(_MOST_BYTES):  # otherwise its end would not be seen
                pass
            raise ControlError(f"{command}: a response of more than {_MOST_BYTES} bytes")
    await process.wait()
    return output


def parse_clients(table: str) -> list[MpsClient]:
    """Return the clients in the output of ``ps``, whose first line names the columns."""
    header, *rows = [line.split() for line in table.splitlines() if line.strip()] or [[]]
    if not {"PID", "SERVER"} <= set(header):
        return []
    pid, server = header.index("PID"), header.index("SERVER")
    found = (_client(row, pid, server) for row in rows)
    return list(dict.fromkeys(each for each in found if each is not None))[:_MOST_CLIENTS]


def _client(row: Sequence[str], pid: int, server: int) -> MpsClient | None:
    if len(row) <= max(pid, server):
        return None
    found, of = _pid(row[pid]), _pid(row[server])
    return MpsClient(found, of) if found is not None and of is not None else None


def _pid(word: str) -> int | None:
    """Return the number of a response; a pod can forge one that ``int`` does not take."""
    is_number = word.isascii() and word.isdecimal() and len(word) <= _LONGEST_PID
    return int(word) if is_number else None
