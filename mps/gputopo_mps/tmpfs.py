"""Mounts the shared memory of daemons and clients: ``python -m gputopo_mps.tmpfs FOLDER SIZE``.

The chart runs this in an init container, because the main container has the folder as ``/dev/shm``
from its start. A folder on a tmpfs of its own cannot fill the host's ``/run``.
"""

import ctypes
import os
import sys
from pathlib import Path


def mount(folder: Path, size: str) -> None:
    """Mount a tmpfs, unless one is mounted. ``size`` is as in the mount option, such as 50%.

    Raises:
        OSError: the kernel rejects it; it needs CAP_SYS_ADMIN.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if os.path.ismount(folder):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"mode=1777,size={size}".encode()
    if libc.mount(b"gputopo-mps", os.fsencode(folder), b"tmpfs", 0, options) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(folder))


def main() -> None:
    """Mount the folder that the arguments name."""
    folder, size = sys.argv[1:]
    mount(Path(folder), size)


if __name__ == "__main__":
    main()
