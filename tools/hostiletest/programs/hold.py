"""Replaces a file in the pipe folder of a shared GPU by something else, again and again.

``python3 -u -c TEXT KIND``: the PID file becomes a ``fifo``, ``zero`` (a link to /dev/zero), a
``folder`` or ``large`` (1 GB); or the socket of the daemon becomes ``silent`` (one that never
responds). Prints ``held KIND`` once a second while the replacement stays in place, and ``rejected
REASON`` if it is not possible.
"""

import os
import socket
import sys
import time
from pathlib import Path

PIPE = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
LARGE_BYTES = 1 << 30


def replace(kind: str, file: Path) -> None:
    """Put the replacement in place of the file."""
    new = file.with_name(f".new-{time.monotonic_ns()}")
    if kind == "fifo":
        os.mkfifo(new)
    elif kind == "zero":
        new.symlink_to("/dev/zero")
    elif kind == "folder":
        new.mkdir()
        file.unlink(missing_ok=True)
    elif kind == "large":
        with new.open("wb") as written:
            written.truncate(LARGE_BYTES)
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(new))
        listener.listen(64)
        LISTENERS.append(listener)
    new.rename(file)


LISTENERS: list[socket.socket] = []


def inode(file: Path) -> int:
    """Return the number of a file that identifies it; 0 if there is none."""
    try:
        return file.lstat().st_ino
    except FileNotFoundError:
        return 0


def main() -> None:
    """Run until the container is killed."""
    kind, kept = sys.argv[1], 0
    file = PIPE / ("control" if kind == "silent" else "nvidia-cuda-mps-control.pid")
    while True:
        try:
            if kept and inode(file) == kept:
                print(f"held {kind}", flush=True)
                time.sleep(1)
            else:
                replace(kind, file)
                kept = inode(file)
        except OSError as error:
            print(f"rejected {error}", flush=True)
            time.sleep(1)


if __name__ == "__main__":
    main()
