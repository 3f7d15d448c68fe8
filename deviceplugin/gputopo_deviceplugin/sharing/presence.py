"""What the agent sees of MPS on the node without a response of the component that runs it.

The component's API documents the folders and the sockets (``mps/README.md``). A daemon and its
clients go on while the component is down, so its GPU can take further sharing pods meanwhile.
"""

import asyncio
import errno
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.sharing.client import MpsGpu

_POLL_SECONDS: Final = 0.2
_CONNECT_SECONDS: Final = 1.0


class MpsPresence:
    """The socket of the component, and the folders and control sockets of its daemons."""

    def __init__(self, component: Path) -> None:
        """Look beside the socket of the component, whose path is that of the host."""
        self._component = component
        self._gpus = component.parent / "gpus"

    def served(self) -> frozenset[GpuUuid]:
        """Return the GPUs that only MPS can use: all that may have EXCLUSIVE_PROCESS."""
        with suppress(FileNotFoundError):
            return frozenset(GpuUuid(folder.name) for folder in self._gpus.iterdir())
        return frozenset()

    def daemon(self, gpu: GpuUuid) -> MpsGpu | None:
        """Return the daemon of a GPU, if its process has the control socket open.

        Without the state file, the component has interrupted its start or its end: it ends the
        daemon later.
        """
        pipe = self._gpus / gpu / "pipe"
        if not (self._gpus / gpu / "state.json").exists() or not _is_open(pipe / "control"):
            return None
        return self.expected(gpu)

    def expected(self, gpu: GpuUuid) -> MpsGpu:
        """Return what the daemon of a GPU has once it takes clients."""
        folder = self._gpus / gpu
        shm = folder / "shm"
        if folder.exists() and not shm.exists():
            # An earlier release of the component has one folder for all GPUs.
            shm = self._component.parent / "shm"
        pipe = folder / "pipe"
        return MpsGpu(uuid=gpu, state="Ready", pipe_directory=pipe, shm_directory=shm)

    async def wait_for_end(self, seconds: float) -> None:
        """Return when the component ends, at once if it does not run, or after ``seconds``.

        The kernel closes the connection when the process ends.
        """
        with suppress(OSError):
            async with _connected(self._component) as reader, asyncio.timeout(seconds):
                await reader.read()

    async def wait_for_start(self, seconds: float) -> None:
        """Return when the component takes connections again, or after ``seconds``."""
        if await self._listens():  # it runs, but does not respond
            await asyncio.sleep(seconds)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not await self._listens():  # noqa: ASYNC110 - another process
                    await asyncio.sleep(_POLL_SECONDS)

    async def _listens(self) -> bool:
        with suppress(OSError):
            async with _connected(self._component):
                return True
        return False


def _is_open(path: Path) -> bool:
    """Return whether a process has a socket of MPS open. The process does not notice the check.

    A datagram socket cannot connect to it. The error shows whether a process has the other socket:
    EPROTOTYPE, or ECONNREFUSED after its end. Neither a FIFO nor a full queue blocks the check.

    The pods of the GPU can write the folder. A link is no socket of MPS: it could lead to a socket
    of the host. A pod can replace the socket by its own one, which harms the pods of this GPU only.
    """
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return False
    except OSError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        return other.connect_ex(str(path)) == errno.EPROTOTYPE


@asynccontextmanager
async def _connected(path: Path) -> AsyncIterator[asyncio.StreamReader]:
    """Connect to a socket.

    Raises:
        OSError: no process listens.
    """
    async with asyncio.timeout(_CONNECT_SECONDS):
        reader, writer = await asyncio.open_unix_connection(path)
    try:
        yield reader
    finally:
        writer.close()
