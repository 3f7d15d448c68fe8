"""The nodes of the cluster of kind as machines."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from kindcluster import creation
from kindcluster.cluster import KindCluster
from kindcluster.docker import Docker
from localcluster import commands, containers
from localcluster.access import parse_pod_cgroup
from localcluster.api import wait_until
from localcluster.containers import Process
from localcluster.errors import ClusterError

_KUBELET_CONFIG: Final = "/var/lib/kubelet/config.yaml"
_OWN_CONFIG: Final = "/var/lib/kubelet/config-own.yaml"
_CPU_MANAGER_STATE: Final = "/var/lib/kubelet/cpu_manager_state"
_START_SECONDS: Final = 120.0


class KindNodes:
    """See :class:`localcluster.access.NodeAccess`; nodes have the names of their containers.

    Every method with the name of a node raises a ClusterError if the cluster has no such node.
    """

    def __init__(self, cluster: KindCluster) -> None:
        self._cluster = cluster
        self._ids: Mapping[str, str] = {}

    def run(self, name: str, *command: str, stdin: str | None = None) -> str:
        """Run a command on a node and return its output."""
        docker = self._docker(name)
        words = docker.inside(name, command, terminal=False)
        return commands.run(words, env=docker.environment, stdin=stdin or "")

    def set_power(self, name: str, *, on: bool) -> None:
        """Switch a node off without a shutdown, or on again with the same disks."""
        docker = self._docker(name)
        if docker.nodes()[name] is not on:
            docker.run("start" if on else "kill", name)
        if on:
            creation.wait_until_ready(docker, [name])

    def set_kubelet(self, name: str, *, on: bool) -> None:
        """Stop or start a node's kubelet; its containers continue."""
        self.run(name, "systemctl", "start" if on else "stop", "kubelet")

    def configure_kubelet(self, name: str, changes: Mapping[str, Any]) -> None:
        """Restart a node's kubelet with other values of fields of its KubeletConfiguration.

        A kubelet with another CPU manager policy rejects the state file of the former one, so this
        file is removed.
        """
        self.run(name, "sh", "-c", f"[ -e {_OWN_CONFIG} ] || cp {_KUBELET_CONFIG} {_OWN_CONFIG}")
        own = yaml.safe_load(self.run(name, "cat", _OWN_CONFIG))
        self.set_kubelet(name, on=False)
        self.run(name, "tee", _KUBELET_CONFIG, stdin=json.dumps({**own, **changes}))
        self.run(name, "rm", "-f", _CPU_MANAGER_STATE)
        self.set_kubelet(name, on=True)

        def serves() -> bool:
            active = self.run(name, "sh", "-c", "systemctl is-active kubelet || true")
            return active.strip() == "active"

        wait_until(serves, f"the kubelet of {name} to start", _START_SECONDS)

    def file(self, name: str, path: str) -> Path:
        """Where this machine's programs find a file of a node's disks, also while it is off."""
        mounts = json.loads(self._docker(name).run("inspect", "--format={{json .Mounts}}", name))
        found = on_volume(Path(path), mounts)
        if found is None:
            raise ClusterError(f"{path}: is on no disk of node {name}")
        return found

    def cgroup(self, name: str) -> str:
        """A node's cgroup, as path below the root of every hierarchy of this machine."""
        identity = self._identities()[self._known(name)]
        for text in containers.cgroups():
            if found := cgroup_of(identity, text):
                return found
        raise ClusterError(f"node {name} is not running")

    def processes(self) -> Iterator[Process]:
        """Every process of a container of all nodes, without those that end meanwhile."""
        names = {identity: name for name, identity in self._identities().items()}
        return containers.processes(lambda text: parse_cgroup(text, names))

    def _known(self, name: str) -> str:
        if name not in self._identities():
            listed = ", ".join(sorted(self._identities()))
            raise ClusterError(f"node {name!r}: not one of {listed}")
        return name

    def _docker(self, name: str) -> Docker:
        self._known(name)
        return self._cluster.docker(self._cluster.record())

    def _identities(self) -> Mapping[str, str]:
        """Docker's ID of each node, which stays while the cluster does."""
        if not self._ids:
            self._ids = self._cluster.docker(self._cluster.record()).identities()
        return self._ids


def on_volume(path: Path, mounts: Sequence[Mapping[str, Any]]) -> Path | None:
    """Where this machine has a file that a container has on a volume; None on no volume.

    Args:
        path: in the container.
        mounts: of the container, as Docker describes them.
    """
    for mount in mounts:
        if mount["Type"] == "volume" and path.is_relative_to(mount["Destination"]):
            return Path(mount["Source"]) / path.relative_to(mount["Destination"])
    return None


def cgroup_of(identity: str, text: str) -> str:
    """The cgroup of a container, from /proc/PID/cgroup of one of its processes; "" from others."""
    found = re.search(rf":/(\S*?{identity}(?:\.scope)?)(?:/|$)", text, re.MULTILINE)
    return found[1] if found else ""


def parse_cgroup(text: str, names: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Node, pod UID and container ID of /proc/PID/cgroup; None outside of the nodes' pods.

    Args:
        text: the file.
        names: of the nodes, by the ID of their containers.
    """
    for line in text.splitlines():
        before, _, after = line.partition("kubelet")
        node = next((name for identity, name in names.items() if identity in before), None)
        if node and (found := parse_pod_cgroup(after)):
            return (node, *found)
    return None
