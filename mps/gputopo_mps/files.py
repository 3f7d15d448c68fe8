"""Files that a container can write."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

_SAFE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Neither a symbolic link is followed, nor does a FIFO without another end block."""


@contextmanager
def open_regular(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Open a file that another program can replace at any time; yield its descriptor.

    Raises:
        OSError: it is missing, or no regular file.
    """
    descriptor = os.open(path, flags | _SAFE)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path}: no regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def read_end(path: Path, most_bytes: int) -> bytes:
    """Return the last bytes of a file that another program writes.

    Raises:
        OSError: it is missing, or no regular file.
    """
    with open_regular(path) as descriptor:
        start = max(0, os.fstat(descriptor).st_size - most_bytes)
        return os.pread(descriptor, most_bytes, start)


def clear(folder: Path) -> None:
    """Remove everything in a folder that containers can write; links are not followed.

    Folders may be in each other more often than functions can call each other. So the content of
    each is moved to ``folder`` first.
    """
    with _open_folder(folder) as top:
        names = os.listdir(top)  # noqa: PTH208 - of a descriptor
        while names:
            name = names.pop()
            try:
                os.unlink(name, dir_fd=top)
            except IsADirectoryError:
                names += _move_content(name, top)
                os.rmdir(name, dir_fd=top)


def _move_content(name: str, top: int) -> list[str]:
    """Move the content of a folder to the one that contains it; return the new names."""
    moved: list[str] = []
    with _open_folder(name, top) as inner:
        for entry in os.listdir(inner):  # noqa: PTH208 - of a descriptor
            moved.append(uuid4().hex)
            os.rename(entry, moved[-1], src_dir_fd=inner, dst_dir_fd=top)
    return moved


@contextmanager
def _open_folder(path: Path | str, within: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _SAFE, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
