"""Switch a node on and off, and run commands in it."""

import os
import resource
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from localcluster import hostchanges, network, nodeconfig, processes, settings
from localcluster.api import wait_until
from localcluster.errors import ClusterError
from localcluster.processes import ProcessFiles
from localcluster.releases import Release
from localcluster.settings import Node, Paths

_NAMESPACES = ("--mount", "--propagation=private", "--net", "--uts", "--ipc")
_START_SECONDS = 60.0


def install(node: Node, release: Release, paths: Paths, base_spec: Mapping[str, Any]) -> None:
    """Create the node's disks and configuration. All containers are made from ``base_spec``."""
    folder = paths.node(node.name)
    for disk in hostchanges.MOUNT_POINTS:
        (folder / disk).mkdir(parents=True, exist_ok=True)
    open_files_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    config = folder / "config"
    nodeconfig.write(node, release, config, paths.pki, open_files_limit, base_spec)


def switch_on(
    node: Node, others: Iterable[Node], paths: Paths, binaries: Path, files: ProcessFiles
) -> None:
    """Start the node's first process, connect its network, and wait until containerd runs.

    Raises:
        ClusterError: the node did not come up.
    """
    if files.recall(node.name) is not None:
        return
    folder, log = paths.node(node.name), paths.logs / f"{node.name}.log"
    (folder / "running").unlink(missing_ok=True)
    (folder / "kubelet-off").unlink(missing_ok=True)
    hostchanges.create_cgroups(node.cgroup)
    init = _start_init(folder, binaries, log)
    files.remember(node.name, init)
    network.connect(node, init.pid, others, serves_services=node.number == 1)

    def containerd_runs() -> bool:
        if not processes.is_running(init):
            raise ClusterError(f"node {node.name} has ended:\n{processes.end_of(log)}")
        return "containerd" in running_services(node, paths)

    wait_until(containerd_runs, f"containerd of node {node.name}", _START_SECONDS)


def switch_off(node: Node, files: ProcessFiles) -> None:
    """Kill all processes of the node without a shutdown. Its disks stay."""
    files.end(node.name, patience_seconds=0)
    network.disconnect(node)
    hostchanges.remove_cgroups(node.cgroup)


def set_kubelet(node: Node, paths: Paths, files: ProcessFiles, *, on: bool) -> None:
    """Stop or start the node's kubelet, and wait until that is done."""
    require_running(node, files)
    switch = paths.node(node.name) / "kubelet-off"
    if on:
        switch.unlink(missing_ok=True)
    else:
        switch.touch()
    wait_until(
        lambda: ("kubelet" in running_services(node, paths)) is on,
        f"the kubelet of {node.name} to {'start' if on else 'stop'}",
        _START_SECONDS,
    )


def configure_kubelet(
    node: Node, paths: Paths, files: ProcessFiles, changes: Mapping[str, Any]
) -> None:
    """Restart the node's kubelet with its own configuration and these changes.

    A kubelet with another CPU manager policy rejects the state file of the former one, so this file
    is removed.
    """
    folder = paths.node(node.name)
    set_kubelet(node, paths, files, on=False)
    nodeconfig.change_kubelet(folder / "config", changes)
    (folder / "kubelet" / "cpu_manager_state").unlink(missing_ok=True)
    set_kubelet(node, paths, files, on=True)


def running_services(node: Node, paths: Paths) -> list[str]:
    """Names of the node's programs that run."""
    try:
        return (paths.node(node.name) / "running").read_text().split()
    except FileNotFoundError:
        return []


def inside(node: Node, files: ProcessFiles, command: Sequence[str | Path]) -> list[str | Path]:
    """The command line that runs a command in the node's namespaces.

    Raises:
        ClusterError: the node is off.
    """
    init = require_running(node, files)
    return ["nsenter", "-t", str(init), "-m", "-n", "-u", "-i", "-p", "--", *command]


def require_running(node: Node, files: ProcessFiles) -> int:
    """Process number of the node's first process.

    Raises:
        ClusterError: the node is off.
    """
    identity = files.recall(node.name)
    if identity is None:
        raise ClusterError(f"node {node.name} is not running")
    return identity.pid


def _start_init(folder: Path, binaries: Path, log: Path) -> processes.ProcessIdentity:
    program: list[str | Path] = [sys.executable, "-m", "localcluster.nodeinit", folder, binaries]
    environment = {
        # containerd looks for its shim there.
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "PYTHONPATH": str(settings.CLONE / "tools"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return processes.start_namespace(_NAMESPACES, program, log, environment)
