"""Reads counts of steps from the log files of containers.

Kubelet keeps the log of a container in ``NAMESPACE_POD_UID/CONTAINER/RESTARTS.log`` below
``/var/log/pods``. To rotate a log, kubelet renames the file, and the container runtime creates a
new one.
"""

import errno
import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from gputopo.throughput.message import StepMessage
from gputopo_deviceplugin.measure.containers import ContainerKey, MeasuredContainer
from gputopo_deviceplugin.measure.log_entries import LogEntryParser

MAX_LOG_BYTES: Final = 64 * 1024
"""Most bytes that are read from one log at a time. If a log has more new bytes, the older ones are
skipped."""

_NAME: Final = re.compile(r"([0-9]{1,9})\.log")


class LoggedSteps(NamedTuple):
    """A count of steps in the log of a container."""

    key: ContainerKey
    message: StepMessage


@dataclass(frozen=True, slots=True)
class _OpenLog:
    """An open log file. ``run`` is ``log-RESTARTS``, an ID of the process that wrote it."""

    run: str
    descriptor: int
    parser: LogEntryParser = field(default_factory=LogEntryParser)

    def read(self) -> tuple[list[StepMessage], bool]:
        """Return the counts of steps in the next 64 KiB, and whether the file ends there."""
        offset = os.lseek(self.descriptor, 0, os.SEEK_CUR)
        size = os.fstat(self.descriptor).st_size
        if size - offset > MAX_LOG_BYTES:
            os.lseek(self.descriptor, size - MAX_LOG_BYTES, os.SEEK_SET)
            self.parser.skip()
        data = os.read(self.descriptor, MAX_LOG_BYTES)
        counts = [
            StepMessage(self.run, each.steps, each.seconds) for each in self.parser.feed(data)
        ]
        return counts, len(data) < MAX_LOG_BYTES


class PodLogs:
    """Reads the logs of containers. Its methods block; only one thread at a time may call them.

    Attributes:
        errors: why the last call of ``read`` could not read the logs of some containers. A missing
            log is an error only after the start of the container.
    """

    def __init__(self, directory: Path) -> None:
        """Read logs below ``directory``, the host's ``/var/log/pods``."""
        self._directory = directory
        self._open: dict[ContainerKey, _OpenLog] = {}
        self.errors: dict[ContainerKey, str] = {}

    def read(self, containers: Collection[MeasuredContainer]) -> list[LoggedSteps]:
        """Return the counts of steps that these containers have logged since the last call.

        The method reads at most 64 KiB of each log. The first call for a container skips the
        existing entries. From their old times, the agent would conclude that the clock has jumped.
        """
        self.errors = {}
        keys = {each.key for each in containers}
        for key in self._open.keys() - keys:
            self._close(key)
        return [
            LoggedSteps(each.key, message) for each in containers for message in self._read(each)
        ]

    def close(self) -> None:
        """Close all files."""
        for key in list(self._open):
            self._close(key)

    def _read(self, container: MeasuredContainer) -> list[StepMessage]:
        log = self._open.get(container.key)
        try:
            if log is None:
                self._open_newest(container, os.SEEK_END)
                return []
            messages, complete = log.read()
            if complete and self._is_rotated(container, log):
                self._open_newest(container, os.SEEK_SET)
        except OSError as error:  # the file is missing, or no log
            self._close(container.key)
            if container.started or not isinstance(error, FileNotFoundError):
                self.errors[container.key] = _described(error)
            return []
        return messages

    def _is_rotated(self, container: MeasuredContainer, log: _OpenLog) -> bool:
        newest = self._newest(container).stat(follow_symlinks=False)
        return not os.path.samestat(newest, os.fstat(log.descriptor))

    def _open_newest(self, container: MeasuredContainer, whence: int) -> None:
        """Open the newest log of a container at its begin or end, as ``whence`` says."""
        path = self._newest(container)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags)
        self._close(container.key)
        self._open[container.key] = _OpenLog(f"log-{path.stem}", descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        os.lseek(descriptor, 0, whence)

    def _newest(self, container: MeasuredContainer) -> Path:
        """Return the log file with the highest number of restarts in its name.

        Raises:
            OSError: the container has no log.
        """
        pod = container.pod
        folder = self._directory / f"{pod.namespace}_{pod.name}_{pod.uid}" / container.name
        found = [(int(name[1]), path) for path, name in _named(folder)]
        if not found:
            raise FileNotFoundError(errno.ENOENT, "has no log", str(folder))
        return max(found)[1]

    def _close(self, key: ContainerKey) -> None:
        log = self._open.pop(key, None)
        if log is not None:
            os.close(log.descriptor)


def _described(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return f"{error.filename}: is a symbolic link"
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _named(folder: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    for path in folder.iterdir():
        name = _NAME.fullmatch(path.name)
        if name is not None:
            yield path, name
