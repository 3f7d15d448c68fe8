"""Limit or stop the processor time of containers."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from localcluster import access
from localcluster.access import NodeAccess, PodProcess
from localcluster.errors import ClusterError

_CGROUPS = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000


@contextmanager
def limited(nodes: NodeAccess, program: str, share: float) -> Iterator[None]:
    """Give the containers of a program this share of one processor for a block.

    A container that is restarted meanwhile gets a new cgroup without the limit.

    Raises:
        ClusterError: no container runs the program.
    """
    groups = sorted({_cpu_cgroup(process) for process in access.of_program(nodes, program)})
    if not groups:
        raise ClusterError(f"{program}: no container runs it")
    try:
        for group in groups:
            _write(group, max(1000, int(share * _PERIOD_US)))
        yield
    finally:
        for group in groups:
            with suppress(FileNotFoundError):
                _write(group, None)


@contextmanager
def frozen(processes: Sequence[PodProcess]) -> Iterator[None]:
    """Stop processes by SIGSTOP for the duration of a block."""
    access.send(processes, signal.SIGSTOP)
    try:
        yield
    finally:
        access.send(processes, signal.SIGCONT)


def _cpu_cgroup(process: PodProcess) -> Path:
    for line in process.read("cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(",") or not controllers:
            hierarchy = _CGROUPS / controllers if controllers else _CGROUPS
            return hierarchy / path.lstrip("/")
    raise ClusterError(f"process {process.pid}: has no cgroup with processor time")


def _write(group: Path, quota_us: int | None) -> None:
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{quota_us or 'max'} {_PERIOD_US}")
        return
    (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
    (group / "cpu.cfs_quota_us").write_text(str(quota_us or -1))
