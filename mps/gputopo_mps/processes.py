"""Finds processes on the node: the pod of a client, and the daemons of a GPU."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_SERVER: Final = b"nvidia-cuda-mps-server"
_CONTROL: Final = b"nvidia-cuda-mps-control"
_FIRST_WORDS: Final = 5
"""The program is one of the first words of a command line; scripts have an interpreter before."""

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


def is_daemon(pid: int, pipe: Path) -> bool:
    """Return whether a process is a control daemon or a server that uses the folder ``pipe``.

    A client has the same variable in its environment, but another program.
    """
    process = _PROC / str(pid)
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")[:_FIRST_WORDS]
        if not _is_program([word.rpartition(b"/")[2] for word in words]):
            return False
        variables = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"CUDA_MPS_PIPE_DIRECTORY={pipe}".encode() in variables


def find_daemons(pipe: Path) -> Iterator[int]:
    """Yield the PIDs of the control daemon and of the servers that use the folder ``pipe``."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and is_daemon(int(entry.name), pipe):
            yield int(entry.name)


def _is_program(words: list[bytes]) -> bool:
    """Return whether the command line is of a server or of a daemon, which has an option."""
    if _SERVER in words:
        return True
    return _CONTROL in words and words[words.index(_CONTROL) + 1 :][:1] not in ([], [b""])
