"""Mounts the folders of shared GPUs that containers can write."""

import ctypes
import os
from pathlib import Path
from typing import Final

DEV_SHM: Final = Path("/dev/shm")  # noqa: S108 - of this program, and of a daemon

_FOR_PODS: Final = 2 | 4 | 8 | 256
"""MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOSYMFOLLOW: neither a user of the host gets rights by a
file of a container, nor does a program of root follow a link of one (Linux 5.10 and later)."""

_BIND: Final = 0x1000
_SLAVE_TREE: Final = 0x84000
"""MS_REC | MS_SLAVE: mounts of this namespace do not appear in others, but those of others end
here too. So a daemon does not keep the memory of another GPU."""

_DETACH: Final = 2
_NEW_MOUNTS: Final = 0x20000
"""CLONE_NEWNS."""

_libc = ctypes.CDLL(None, use_errno=True)


def mount_tmpfs(folder: Path, *, mode: str, size: str, files: int) -> None:
    """Mount a tmpfs, unless one is mounted: a folder that can fill neither the host's nor another.

    Args:
        folder: is created.
        mode: its permissions.
        size: as in the option of mount: bytes, or percent of the memory of the node.
        files: largest number of files.

    Raises:
        OSError: the kernel rejects it; it needs CAP_SYS_ADMIN.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if os.path.ismount(folder):
        return
    options = f"mode={mode},size={size},nr_inodes={files}".encode()
    path = os.fsencode(folder)
    _check(_libc.mount(b"gputopo-mps", path, b"tmpfs", _FOR_PODS, options), folder)


def unmount(folder: Path) -> None:
    """Unmount a folder, if it is mounted. A container that has it keeps it until it ends."""
    if os.path.ismount(folder):
        _check(_libc.umount2(os.fsencode(folder), _DETACH), folder)


def replace_mount(folder: Path, target: Path) -> None:
    """Mount ``folder`` at ``target`` for this process and its children only."""
    _check(_libc.unshare(_NEW_MOUNTS), target)
    _check(_libc.mount(None, b"/", None, _SLAVE_TREE, None), target)
    _check(_libc.mount(os.fsencode(folder), os.fsencode(target), None, _BIND, None), target)


def _check(result: int, path: Path) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
