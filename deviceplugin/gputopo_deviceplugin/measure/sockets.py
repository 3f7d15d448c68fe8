"""The Unix datagram sockets to which containers send their steps.

Each measured container has its own folder with one socket, and mounts the folder read-only. Each
``sendto`` names the socket by its path, so messages reach the new socket of a restarted agent. A
program can neither block the agent nor fill its memory: the kernel rejects messages while the queue
of a socket is full, and the agent reads a few messages of each socket once a second.

A message can also have file descriptors. If the agent received them, it would have to close them,
and closing can block: a TCP connection with SO_LINGER blocks for as long as the sender has chosen.
So the agent peeks at each message first. If a message has descriptors, another thread closes the
socket, and the agent receives no more steps from this container.
"""

import logging
import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple

from gputopo.api.names import STEPS_SOCKET
from gputopo.runtime.log import fields
from gputopo.throughput.message import MAX_DATAGRAM_BYTES
from gputopo_deviceplugin.admit.identify import ContainerAllocation
from gputopo_deviceplugin.measure.containers import ContainerKey, requested_measuring

MAX_DATAGRAMS: Final = 16
"""Most messages that the agent reads from one socket at a time."""

_log = logging.getLogger(__name__)


class Datagram(NamedTuple):
    """A message of a container. ``data`` is None if the message was too large."""

    key: ContainerKey
    data: bytes | None


class StepsSockets:
    """The sockets through which the agent receives the steps of this node's containers."""

    def __init__(self, directory: Path, on_failure: Callable[[str], None]) -> None:
        """Keep one folder for each container in ``directory``, which must be on a tmpfs.

        ``on_failure`` counts failures, which the methods log and do not raise.
        """
        self._directory = directory
        self._on_failure = on_failure
        self._open: dict[ContainerKey, socket.socket | None] = {}  # None: closed for ever

    @property
    def keys(self) -> frozenset[ContainerKey]:
        """The containers that have a socket."""
        return frozenset(self._open)

    def open_again(self) -> None:
        """Open the sockets of all folders that the agent created before it restarted."""
        try:
            folders = [*self._directory.iterdir()]
        except FileNotFoundError:
            return
        except OSError as error:
            self._log_failure(self._directory, error)
            return
        for folder in folders:
            uid, _, container = folder.name.partition("_")
            if container:
                self.open(ContainerKey(uid, container))

    def open_for(self, allocation: ContainerAllocation) -> Path | None:
        """Open the socket of a container that gets GPUs, and return the socket's folder.

        Return None after a failure, or if the container sends no steps through a socket. An
        ordinary init container gets no socket, because it ends before the training starts.
        """
        pod, name = allocation.pod, allocation.container
        keepers = {each.name for each in pod.gpu_keepers}
        if name not in keepers or requested_measuring(pod)[0].source != "SDK":
            return None
        return self.open(ContainerKey(pod.uid, name))

    def open(self, key: ContainerKey) -> Path | None:
        """Open the socket of a container, and return the socket's folder; None if this fails."""
        folder = self._folder(key)
        if key not in self._open:
            try:
                self._open[key] = _bind(folder)
            except OSError as error:
                self._log_failure(folder, error)
                return None
        return folder

    def receive(self) -> Iterator[Datagram]:
        """Yield the messages that have arrived, at most 16 of each container."""
        for key, opened in [*self._open.items()]:
            if opened is not None:
                yield from (Datagram(key, data) for data in self._receive(key, opened))

    def remove(self, key: ContainerKey) -> None:
        """Close a container's socket and remove its folder. The container must have ended."""
        if (opened := self._open.pop(key)) is not None:
            _close_in_thread(opened)
        shutil.rmtree(self._folder(key), ignore_errors=True)

    def close(self) -> None:
        """Close all sockets. The folders stay, because containers have mounted them."""
        for opened in self._open.values():
            if opened is not None:
                opened.close()
        self._open.clear()

    def _receive(self, key: ContainerKey, opened: socket.socket) -> Iterator[bytes | None]:
        for _ in range(MAX_DATAGRAMS):
            try:
                if _has_descriptors(opened):
                    self._reject_sender(key, opened)
                    return
                data, _, flags, _ = opened.recvmsg(MAX_DATAGRAM_BYTES)
            except BlockingIOError:
                return
            yield None if flags & socket.MSG_TRUNC else data

    def _reject_sender(self, key: ContainerKey, opened: socket.socket) -> None:
        _log.error(
            "closed the steps socket of a container; its steps no longer count: %s",
            fields(pod_uid=key.uid, container=key.container, reason="file descriptors were sent"),
        )
        self._open[key] = None
        _close_in_thread(opened)

    def _log_failure(self, folder: Path, error: OSError) -> None:
        _log.error("steps socket not opened %s", fields(folder=folder, reason=error))
        self._on_failure("socket")

    def _folder(self, key: ContainerKey) -> Path:
        return self._directory / f"{key.uid}_{key.container}"


def _has_descriptors(opened: socket.socket) -> bool:
    """Return whether the next message has file descriptors. The message stays in the queue."""
    _, _, flags, _ = opened.recvmsg(1, 0, socket.MSG_PEEK)
    return bool(flags & socket.MSG_CTRUNC)  # no buffer for descriptors was given


def _close_in_thread(opened: socket.socket) -> None:
    Thread(target=opened.close, name="steps-socket", daemon=True).start()


def _bind(folder: Path) -> socket.socket:
    """Create the folder if it is missing, and open the socket in it for any user ID.

    The path of a Unix socket has at most 107 bytes, and the path of the folder may be longer. So
    ``bind`` gets a short path through ``/proc/self/fd``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        os.fchmod(descriptor, 0o755)
        path = Path(f"/proc/self/fd/{descriptor}") / STEPS_SOCKET
        path.unlink(missing_ok=True)
        opened.bind(str(path))
        _let_all_send(descriptor)
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    finally:
        os.close(descriptor)
    return opened


def _let_all_send(folder: int) -> None:
    """Let any user send to the socket. It must be the socket: a link would change another file."""
    found = os.open(STEPS_SOCKET, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
    try:
        if not stat.S_ISSOCK(os.fstat(found).st_mode):
            raise OSError(f"{STEPS_SOCKET}: another file has replaced the socket")
        Path(f"/proc/self/fd/{found}").chmod(0o666)
    finally:
        os.close(found)
