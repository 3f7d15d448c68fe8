"""Content keys, locks and bounded caches."""

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_KEY_LENGTH = 12
_BYTECODE = "__pycache__"


def content_key(parts: Mapping[str, bytes]) -> str:
    """Twelve hexadecimal digits that change with any name or content."""
    digest = hashlib.sha256()
    for name in sorted(parts):
        for field in (name.encode(), parts[name]):
            digest.update(len(field).to_bytes(8, "big"))
            digest.update(field)
    return digest.hexdigest()[:_KEY_LENGTH]


def files_below(root: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Contents of the named files and of all files in the named folders, by path below `root`.

    Without compiled Python: running a program must not change its key.
    """
    found: dict[str, bytes] = {}
    for name in names:
        path = root / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if _BYTECODE not in file.parts and not file.is_dir():
                found[str(file.relative_to(root))] = file.read_bytes()
    return found


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait for a folder's lock between processes, and hold it for the block."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"    waiting for another command to leave {folder}", file=sys.stderr)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def mark_used(path: Path) -> None:
    """Make it the newest of its folder, for `keep_newest`."""
    os.utime(path)


def keep_newest(folder: Path, pattern: str, count: int) -> None:
    """Delete all but the `count` most lately used entries that match."""
    entries = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)
    for entry in entries[count:]:
        remove(entry)


def remove(path: Path) -> None:
    """Delete a file or folder if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
