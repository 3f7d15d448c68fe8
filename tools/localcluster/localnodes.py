"""The nodes of the local cluster as machines."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from localcluster import commands, containers, files, node, state
from localcluster.containers import Process
from localcluster.errors import ClusterError
from localcluster.hostchanges import MOUNT_POINTS
from localcluster.processes import ProcessFiles
from localcluster.settings import Node, Paths
from localcluster.state import Record


class LocalNodes:
    """See :class:`localcluster.access.NodeAccess`.

    Every method with the name of a node raises a ClusterError if the cluster has no such node.
    """

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._files = ProcessFiles(paths.state / "processes")

    def run(self, name: str, *command: str, stdin: str | None = None) -> str:
        """Run a command on a node and return its output."""
        return commands.run(self.inside(name, command), stdin=stdin)

    def inside(self, name: str, command: Sequence[str]) -> list[str]:
        """The command line that runs a command in a node."""
        return [str(word) for word in node.inside(self._node(name), self._files, command)]

    def set_power(self, name: str, *, on: bool) -> None:
        """Switch a node off without a shutdown, or on again with the same disks."""
        target = self._node(name)
        with files.locked(self._paths.lock):
            if on:
                self.start(target, state.running(self._paths))
            else:
                node.switch_off(target, self._files)

    def start(self, target: Node, record: Record) -> None:
        """Switch on a node of the cluster of a record."""
        others = [other for other in record.nodes if other != target]
        node.switch_on(target, others, self._paths, Path(record.binaries), self._files)

    def set_kubelet(self, name: str, *, on: bool) -> None:
        """Stop or start a node's kubelet; its containers continue."""
        node.set_kubelet(self._node(name), self._paths, self._files, on=on)

    def configure_kubelet(self, name: str, changes: Mapping[str, Any]) -> None:
        """Restart a node's kubelet with other values of fields of its KubeletConfiguration."""
        node.configure_kubelet(self._node(name), self._paths, self._files, changes)

    def file(self, name: str, path: str) -> Path:
        """Where this machine's programs find a file of a node's disks, also while it is off."""
        folder = self._paths.node(self._node(name).name)
        for disk, mounted in MOUNT_POINTS.items():
            if Path(path).is_relative_to(mounted):
                return folder / disk / Path(path).relative_to(mounted)
        raise ClusterError(f"{path}: is on no disk of node {name}")

    def cgroup(self, name: str) -> str:
        """A node's cgroup, as path below the root of every hierarchy of this machine."""
        return self._node(name).cgroup

    def processes(self) -> Iterator[Process]:
        """Every process of a container of all nodes, without those that end meanwhile."""
        return containers.processes(containers.parse_cgroup)

    def _node(self, name: str) -> Node:
        record = state.running(self._paths)
        for target in record.nodes:
            if target.name == name:
                return target
        raise ClusterError(f"node {name!r}: not one of {', '.join(sorted(record.servers))}")
