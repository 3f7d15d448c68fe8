"""CPU time and throttling of the training processes of a node, from their cgroups."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster import access
from localcluster.access import NodeAccess

_CGROUPS = Path("/sys/fs/cgroup")
_STAT = Path("/proc/stat")
_PROGRAM = "train.py"


@dataclass(frozen=True, slots=True)
class CpuTime:
    """What a container has received up to a time.

    Attributes:
        at: by the monotonic clock.
        seconds: of CPU.
        periods: periods of the quota in which it ran.
        throttled: periods in which it was throttled.
    """

    at: float
    seconds: float
    periods: int
    throttled: int

    def milli_cpu_since(self, before: "CpuTime") -> float:
        """Return the mean CPU since then, in thousandths of a CPU."""
        return 1000 * (self.seconds - before.seconds) / (self.at - before.at)

    def throttled_since(self, before: "CpuTime") -> float:
        """Return the fraction of the periods since then in which it was throttled."""
        periods = self.periods - before.periods
        return (self.throttled - before.throttled) / periods if periods else 0.0


def of_pods(nodes: NodeAccess, node: str) -> dict[str, CpuTime]:
    """Return what the training process of each pod of a node has received, by UID of the pod."""
    found: dict[str, CpuTime] = {}
    for one in access.of_program(nodes, _PROGRAM, node):
        if one.pod_uid not in found:
            found[one.pod_uid] = read(one.read("cgroup"))
    return found


def read(cgroup: str, root: Path = _CGROUPS) -> CpuTime:
    """Return the CPU time of a cgroup.

    Args:
        cgroup: content of ``/proc/PID/cgroup`` of one of its processes.
        root: where the file systems of the cgroups are mounted.
    """
    paths = controllers(cgroup)
    if "cpuacct" in paths:
        stat = _numbers(root / "cpu" / paths["cpu"] / "cpu.stat")
        usage = int((root / "cpuacct" / paths["cpuacct"] / "cpuacct.usage").read_text())
        seconds = usage / 1e9
    else:
        stat = _numbers(root / paths[""] / "cpu.stat")
        seconds = stat["usage_usec"] / 1e6
    return CpuTime(time.monotonic(), seconds, stat["nr_periods"], stat["nr_throttled"])


def controllers(cgroup: str) -> dict[str, str]:
    """Return the path by controller of version 1; version 2 has the controller ''."""
    lines = [line.split(":", 2) for line in cgroup.splitlines()]
    return {each: path.lstrip("/") for _, names, path in lines for each in names.split(",")}


def idle_of_machine(before: str, after: str) -> float:
    """Return the idle fraction of all CPUs between two contents of ``/proc/stat``.

    >>> idle_of_machine("cpu 100 0 0 300 0 0 0 0 0 0", "cpu 150 0 0 350 0 0 0 0 0 0")
    0.5
    """
    ticks = [later - earlier for earlier, later in zip(_ticks(before), _ticks(after), strict=True)]
    return ticks[3] / sum(ticks)


def machine() -> str:
    """Return the content of ``/proc/stat``."""
    return _STAT.read_text()


def _ticks(stat: str) -> list[int]:
    """Return user, nice, system, idle, iowait, irq, softirq and steal of all CPUs."""
    return [int(each) for each in stat.splitlines()[0].split()[1:9]]


def _numbers(file: Path) -> Mapping[str, int]:
    return {name: int(value) for name, value in map(str.split, file.read_text().splitlines())}
