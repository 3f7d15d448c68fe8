"""Starts a control daemon: ``python -m gputopo_mps.launcher PLAN``.

The control program goes to the background, and its daemon writes its PID to a file that containers
can replace. So this process is the parent of the daemon (a child subreaper), and gets its PID from
the kernel. It waits until the component has recorded the PID: if the component ends before, it
kills the daemon. It also gives the daemon its cgroup and its ``/dev/shm``.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gputopo_mps.mounts import DEV_SHM, replace_mount

KEEP: Final = b"keep\n"
"""The component's line after it has recorded the daemon."""

_SUBREAPER: Final = 36
_NULL: Final = subprocess.DEVNULL


def launch(plan: dict[str, Any], component: int, reports: int) -> None:
    """Start a daemon and report its PID.

    Args:
        plan: ``command`` of the control program, ``cgroups`` (the files ``cgroup.procs``) and
            ``shm`` (the folder that is ``/dev/shm`` of the daemon; None for that of the component).
        component: descriptor that has an end when the component has ended.
        reports: descriptor for one line of JSON, with the ``status`` of the control program and the
            PIDs of the ``daemons``, or with an ``error``.
    """
    for path in plan["cgroups"]:
        with suppress(OSError):  # the daemon stays in the cgroup of the container
            Path(path).write_text("0\n")
    former = _children()
    try:
        if plan["shm"]:
            replace_mount(Path(plan["shm"]), DEV_SHM)
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        command = plan["command"]
        process = subprocess.Popen(command, stdin=_NULL, stdout=_NULL, stderr=_NULL)  # noqa: S603
    except OSError as error:
        _report(reports, {"error": f"{error.filename}: {error.strerror}"})
        return
    ended = os.pidfd_open(process.pid)
    ready, _, _ = select.select([ended, component], [], [])
    os.close(ended)
    if component not in ready:
        _report(reports, {"status": process.wait(), "daemons": sorted(_children() - former)})
        if os.read(component, len(KEEP)) == KEEP:
            return
    _kill(former)
    process.poll()


def _report(reports: int, document: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):
        os.write(reports, f"{json.dumps(document)}\n".encode())


def _children() -> set[int]:
    """Return the PIDs of the children, those of processes that have ended before included."""
    files = Path("/proc/self/task").glob("*/children")
    return {int(pid) for file in files for pid in file.read_text().split()}


def _kill(former: set[int]) -> None:
    """Kill all new children; the children of each become children of this process."""
    while pids := _children() - former:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def main() -> None:
    """Start a daemon. The standard input and output are those of the component."""
    launch(json.loads(sys.argv[1]), sys.stdin.fileno(), sys.stdout.fileno())


if __name__ == "__main__":
    main()
