"""The processes in the containers of the nodes, from this machine's process table."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_CGROUP = re.compile(
    r"/gputopo-(n\d)/\S*?pod([0-9a-f_-]{36})\S*?/(?:cri-containerd-)?([0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a container.

    Attributes:
        node: where it runs.
        pod_uid: of the pod that it belongs to.
        container_id: containerd's.
    """

    pid: int
    node: str
    pod_uid: str
    container_id: str


def processes() -> Iterator[Process]:
    """Every process in a container of a node, without those that end meanwhile."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (found := parse_cgroup(read(int(entry.name), "cgroup"))):
            yield Process(int(entry.name), *found)


def parse_cgroup(text: str) -> tuple[str, str, str] | None:
    """Node, pod UID and container ID of /proc/PID/cgroup; None outside of the nodes' pods."""
    found = _CGROUP.search(text)
    return (found[1], found[2].replace("_", "-"), found[3]) if found else None


def read(pid: int, name: str) -> str:
    """A file of /proc/PID; empty when the process has ended."""
    try:
        return (_PROC / str(pid) / name).read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def nodes_of(program: str) -> set[str]:
    """Return the nodes with containers' processes whose command line names the program."""
    return {one.node for one in processes() if program in read(one.pid, "cmdline")}


def kill(program: str, node: str | None = None) -> int:
    """SIGKILL the containers' processes whose command line names the program; return how many."""
    victims = [
        process
        for process in processes()
        if node in {None, process.node} and program in read(process.pid, "cmdline")
    ]
    killed = 0
    for process in victims:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
    return killed
