"""The processes in the containers of the nodes, from this machine's process table."""

import os
import re
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from localcluster.access import parse_pod_cgroup

_PROC = Path("/proc")
_GPU_DEVICE = re.compile(r"nvidia\d+")
_NODE_CGROUP = re.compile(r"/gputopo-(n\d)(/\S*)")


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a container; see :class:`localcluster.access.PodProcess`."""

    pid: int
    node: str
    pod_uid: str
    container_id: str

    def read(self, name: str) -> str:
        """A file of its folder in /proc; empty when it has ended."""
        return _read(self.pid, name)

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; return whether the process existed."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def cpus(self) -> frozenset[int]:
        """The CPUs that it may use; none when it has ended."""
        try:
            return frozenset(os.sched_getaffinity(self.pid))
        except ProcessLookupError:
            return frozenset()

    def device_minors(self, major: int) -> frozenset[int] | None:
        """Minor numbers of its ``/dev/nvidia*`` devices of a major; None when it has ended."""
        try:
            files = [*Path(_PROC, str(self.pid), "root/dev").iterdir()]
            gpus = [each for each in files if _GPU_DEVICE.fullmatch(each.name)]
            found = [each.stat() for each in gpus]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return None
        devices = [each.st_rdev for each in found if stat.S_ISCHR(each.st_mode)]
        return frozenset(os.minor(each) for each in devices if os.major(each) == major)

    def run_in_network(self, *command: str) -> None:
        """Run a program of this machine in its network; a failure is no error."""
        enter = ("nsenter", "-t", str(self.pid), "-n")
        subprocess.run([*enter, *command], capture_output=True, check=False)


def processes(parse: Callable[[str], tuple[str, str, str] | None]) -> Iterator[Process]:
    """Every process in a container of a node, without those that end meanwhile.

    Args:
        parse: returns node, pod UID and container ID of /proc/PID/cgroup; None outside of pods.
    """
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (found := parse(_read(int(entry.name), "cgroup"))):
            yield Process(int(entry.name), *found)


def cgroups() -> Iterator[str]:
    """The file /proc/PID/cgroup of every process of this machine."""
    numbers = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return (_read(number, "cgroup") for number in numbers)


def parse_cgroup(text: str) -> tuple[str, str, str] | None:
    """Node, pod UID and container ID of /proc/PID/cgroup; None outside of the nodes' pods."""
    for node, path in _NODE_CGROUP.findall(text):
        if found := parse_pod_cgroup(path):
            return (node, *found)
    return None


def _read(pid: int, name: str) -> str:
    try:
        return (_PROC / str(pid) / name).read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
