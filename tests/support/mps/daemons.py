"""Finds the processes of MPS by what they were started with, as only a test may do."""

from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_SERVER = b"nvidia-cuda-mps-server"
_CONTROL = b"nvidia-cuda-mps-control"
_FIRST_WORDS = 5


def find_daemons(pipe: Path) -> Iterator[int]:
    """Yield the PIDs of the control daemon and of the servers that use the folder ``pipe``."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and _is_daemon(entry, pipe):
            yield int(entry.name)


def _is_daemon(process: Path, pipe: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")[:_FIRST_WORDS]
        if not _is_program([word.rpartition(b"/")[2] for word in words]):
            return False
        variables = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"CUDA_MPS_PIPE_DIRECTORY={pipe}".encode() in variables


def _is_program(words: list[bytes]) -> bool:
    """Return whether the command line is of a server or of a daemon, which has an option."""
    if _SERVER in words:
        return True
    return _CONTROL in words and words[words.index(_CONTROL) + 1 :][:1] not in ([], [b""])
