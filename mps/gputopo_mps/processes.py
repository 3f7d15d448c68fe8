"""What the kernel shows of processes: their pods, parents and identity.

Nothing here depends on what a process can write: its command line, its environment or files.
"""

import os
import re
import select
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

_PROC: Final = Path("/proc")
_BOOT_ID: Final = _PROC / "sys/kernel/random/boot_id"
_STATE, _STARTED = 0, 19
"""Fields of ``stat`` after the program: state, and start time in ticks after the boot."""

_ENDED: Final = {b"Z", b"X"}

# kubelet's systemd driver writes the UID with underscores. The UID of a static pod is a hash.
_POD_UID: Final = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})")


class Processes:
    """Reads the process list. The component shares the PID namespace of the host."""

    def __init__(self, proc_dir: Path) -> None:
        """Read the cgroups of clients below ``proc_dir``."""
        self._proc_dir = proc_dir

    def pod_of(self, pid: int) -> str | None:
        """Return the UID of the pod of a process, or None if it is in no pod or has ended."""
        try:
            text = (self._proc_dir / str(pid) / "cgroup").read_text()
        except OSError:
            return None
        found = _POD_UID.findall(text)
        return found[-1].replace("_", "-") if found else None


class ProcessId(BaseModel):
    """A process. A PID alone may be of another process later.

    Attributes:
        started: in ticks after the boot.
    """

    model_config = ConfigDict(frozen=True)

    pid: int
    started: int


class ProcessHandle:
    """A process by its pidfd, which never names another process."""

    def __init__(self, identity: ProcessId, descriptor: int) -> None:
        self.identity = identity
        self._descriptor = descriptor
        self._ends = select.poll()
        self._ends.register(descriptor, select.POLLIN)

    @classmethod
    def open(cls, identity: ProcessId) -> "ProcessHandle | None":
        """Return the process, or None if it has ended."""
        try:
            descriptor = os.pidfd_open(identity.pid)
        except OSError:
            return None
        if process_id(identity.pid) != identity:
            os.close(descriptor)
            return None
        return cls(identity, descriptor)

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return not self._ends.poll(0)

    def kill(self) -> None:
        """Send SIGKILL."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def close(self) -> None:
        """Close the pidfd."""
        os.close(self._descriptor)


def boot_id() -> str:
    """Return a text that differs after each boot of the node."""
    return _BOOT_ID.read_text().strip()


def process_id(pid: int) -> ProcessId | None:
    """Return the identity of a process, or None if it has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 1 :].split()  # the program may have any name
    return None if fields[_STATE] in _ENDED else ProcessId(pid=pid, started=int(fields[_STARTED]))


def children_of(pid: int) -> list[ProcessId]:
    """Return the child processes of a process."""
    pids: list[int] = []
    for file in _PROC.glob(f"{pid}/task/*/children"):
        with suppress(OSError):
            pids += map(int, file.read_text().split())
    return [found for each in pids if (found := process_id(each)) is not None]


def executable_of(pid: int) -> str:
    """Return the program that a process runs; empty if the process has ended."""
    try:
        return str((_PROC / str(pid) / "exe").readlink())
    except OSError:
        return ""


def cgroup_of(pid: int) -> str:
    """Return the cgroups of a process as the kernel lists them; empty if it has ended."""
    try:
        return (_PROC / str(pid) / "cgroup").read_text()
    except OSError:
        return ""


def has_variable(pid: int, name: str, value: str) -> bool:
    """Return whether a process was started with a variable; a process can forge this."""
    try:
        variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"{name}={value}".encode() in variables
