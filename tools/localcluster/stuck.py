"""Processes that SIGKILL does not end, like in an uninterruptible driver call.

A frozen process of cgroup version 1 stays in state D with the signal pending, and ends when it is
thawed. It is moved within the freezer hierarchy alone, so that it stays in its container's cgroup
in all others, and the container runtime cannot thaw it.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from localcluster import access
from localcluster.access import NodeAccess, PodProcess
from localcluster.errors import ClusterError

_FREEZER = Path("/sys/fs/cgroup/freezer")
_FREEZE_SECONDS = 5.0
_END_SECONDS = 10.0


def gpu_processes(nodes: NodeAccess, pod_uid: str) -> list[PodProcess]:
    """Return the processes of a pod's containers, without the one that only keeps its sandbox."""
    return [
        process
        for process in nodes.processes()
        if process.pod_uid == pod_uid and process.read("comm").strip() != "pause"
    ]


@contextmanager
def stuck(nodes: NodeAccess, pod_uid: str) -> Iterator[None]:
    """Make the pod's processes unkillable for the time of the block, then kill them.

    Raises:
        ClusterError: this machine has no freezer of cgroup version 1, or they did not freeze.
    """
    group = freeze(nodes, pod_uid)
    try:
        yield
    finally:
        kill(nodes, pod_uid)
        thaw(group)


def freeze(nodes: NodeAccess, pod_uid: str) -> Path:
    """Freeze the pod's processes and return the cgroup that holds them.

    Raises:
        ClusterError: this machine has no freezer of cgroup version 1, or they did not freeze.
    """
    if not (_FREEZER / "cgroup.procs").exists():
        raise ClusterError(f"{_FREEZER}: not found; stuck processes need cgroup version 1")
    group = _FREEZER / f"gputopo-stuck-{pod_uid}"
    group.mkdir(exist_ok=True)
    for process in gpu_processes(nodes, pod_uid):
        with suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(process.pid))
    (group / "freezer.state").write_text("FROZEN")
    deadline = time.monotonic() + _FREEZE_SECONDS
    while (group / "freezer.state").read_text().strip() != "FROZEN":
        if time.monotonic() > deadline:
            thaw(group)
            raise ClusterError(f"pod {pod_uid}: its processes do not freeze")
        time.sleep(0.01)
    return group


def thaw(group: Path) -> None:
    """Let the processes go on and remove the cgroup once none is left in it.

    Raises:
        ClusterError: processes are left in it after ten seconds.
    """
    (group / "freezer.state").write_text("THAWED")
    deadline = time.monotonic() + _END_SECONDS
    while True:
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                _release(group)
                raise ClusterError(f"{group}: processes are left in it") from None
            time.sleep(0.05)
        else:
            return


def kill(nodes: NodeAccess, pod_uid: str) -> int:
    """SIGKILL the pod's processes from outside; return how many there were."""
    return access.send(gpu_processes(nodes, pod_uid), signal.SIGKILL)


def remove_leftovers() -> None:
    """Thaw processes that an interrupted run left frozen."""
    for group in _FREEZER.glob("gputopo-stuck-*"):
        with suppress(ClusterError):
            thaw(group)


def _release(group: Path) -> None:
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(OSError):
            (_FREEZER / "cgroup.procs").write_text(pid)
    with suppress(OSError):
        group.rmdir()
