"""What tests and tools do to the nodes of a cluster, whatever its nodes are made of."""

import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

_POD_CGROUP = re.compile(r"pod([0-9a-f_-]{36})\S*?/(?:cri-containerd-)?([0-9a-f]{64})")


class PodProcess(Protocol):
    """One process of a container of a pod."""

    @property
    def pid(self) -> int:
        """Its number, which identifies it among the processes of all nodes while it lives."""
        ...

    @property
    def node(self) -> str:
        """Name of its node."""
        ...

    @property
    def pod_uid(self) -> str:
        """UID of its pod."""
        ...

    @property
    def container_id(self) -> str:
        """The container runtime's name of its container."""
        ...

    def read(self, name: str) -> str:
        """A file of its folder in /proc, such as ``cmdline``; empty when it has ended."""
        ...

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; return whether the process existed."""
        ...

    def cpus(self) -> frozenset[int]:
        """The CPUs that it may use; none when it has ended."""
        ...

    def device_minors(self, major: int) -> frozenset[int] | None:
        """Minor numbers of its ``/dev/nvidia*`` devices of a major; None when it has ended."""
        ...

    def run_in_network(self, *command: str) -> None:
        """Run a program of the node in its network; a failure is no error."""
        ...


class NodeAccess(Protocol):
    """The nodes of a cluster as machines, by name."""

    def run(self, name: str, *command: str, stdin: str | None = None) -> str:
        """Run a command on a node and return its output.

        Raises:
            ClusterError: the node is off, or the command failed.
        """
        ...

    def set_power(self, name: str, *, on: bool) -> None:
        """Switch a node off without a shutdown, or on again with the same disks."""
        ...

    def set_kubelet(self, name: str, *, on: bool) -> None:
        """Stop or start a node's kubelet; its containers continue."""
        ...

    def configure_kubelet(self, name: str, changes: Mapping[str, Any]) -> None:
        """Restart a node's kubelet with other values of fields of its KubeletConfiguration.

        Without changes, it gets its own configuration back. Its containers continue.
        """
        ...

    def file(self, name: str, path: str) -> Path:
        """Where this machine's programs find a file of a node's disks, also while it is off.

        Args:
            name: of the node.
            path: absolute, on the node; below ``/var/lib/kubelet``, for example.

        Raises:
            ClusterError: it is on none of the node's own disks.
        """
        ...

    def cgroup(self, name: str) -> str:
        """A node's cgroup, as path below the root of every hierarchy of this machine."""
        ...

    def processes(self) -> Iterator[PodProcess]:
        """Every process of a container of all nodes, without those that end meanwhile."""
        ...


def of_program(nodes: NodeAccess, program: str, node: str | None = None) -> list[PodProcess]:
    """The containers' processes, of one or all nodes, whose command line names the program."""
    return [
        process
        for process in nodes.processes()
        if node in {None, process.node} and program in process.read("cmdline")
    ]


def nodes_of(nodes: NodeAccess, program: str) -> set[str]:
    """Names of the nodes with containers' processes whose command line names the program."""
    return {process.node for process in of_program(nodes, program)}


def send(processes: Iterable[PodProcess], number: signal.Signals) -> int:
    """Send a signal to processes; return how many of them existed."""
    return sum([process.send(number) for process in processes])


def kill(nodes: NodeAccess, program: str, node: str | None = None) -> int:
    """SIGKILL the containers' processes whose command line names the program; return how many."""
    return send(of_program(nodes, program, node), signal.SIGKILL)


def parse_pod_cgroup(text: str) -> tuple[str, str] | None:
    """Pod UID and container ID in the path of a container's cgroup; None of other cgroups."""
    found = _POD_CGROUP.search(text)
    return (found[1].replace("_", "-"), found[2]) if found else None
