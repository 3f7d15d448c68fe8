"""The nodes of the local cluster behind the interface that tests and tools use."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from localcluster import access, containers, preflight, state
from localcluster.access import NodeAccess
from localcluster.containers import Process
from localcluster.errors import ClusterError
from localcluster.localnodes import LocalNodes
from localcluster.settings import Paths
from localcluster.state import Record
from showcase.install import Installed
from showcase.kubectl import Kubectl

POD = "11111111-2222-3333-4444-555555555555"
CONTAINER = "c" * 64


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeAccess:
    monkeypatch.setattr(preflight, "require_root", lambda: None)
    paths = Paths(cache=tmp_path / "cache", state=tmp_path)
    state.write(paths, Record("clone", "binaries", {"n1": "none", "n2": "none"}, {}, []))
    return LocalNodes(paths)


def test_files_of_a_node_are_found_by_their_place_on_the_node(
    nodes: NodeAccess, tmp_path: Path
) -> None:
    found = nodes.file("n2", "/var/lib/kubelet/device-plugins/kubelet.sock")
    assert found == tmp_path / "nodes/n2/kubelet/device-plugins/kubelet.sock"
    assert nodes.file("n1", "/etc/cni/net.d") == tmp_path / "nodes/n1/config/cni"


def test_file_that_all_nodes_share_is_rejected(nodes: NodeAccess) -> None:
    with pytest.raises(ClusterError, match="/etc/hosts: is on no disk of node n1"):
        nodes.file("n1", "/etc/hosts")


def test_unknown_node_is_rejected_with_the_names_of_the_nodes(nodes: NodeAccess) -> None:
    with pytest.raises(ClusterError, match="node 'n3': not one of n1, n2"):
        nodes.cgroup("n3")


def test_command_on_a_node_that_is_off_is_rejected(nodes: NodeAccess) -> None:
    with pytest.raises(ClusterError, match="node n1 is not running"):
        nodes.run("n1", "true")


@pytest.fixture
def sleeping() -> Iterator[Process]:
    with subprocess.Popen(["sleep", "600"]) as child:
        for _ in range(1000):  # a program that has just been started has no command line yet
            if Path(f"/proc/{child.pid}/cmdline").read_bytes():
                break
            time.sleep(0.01)
        yield Process(child.pid, "n1", POD, CONTAINER)
        child.kill()


def _access(*found: Process) -> NodeAccess:
    return cast("NodeAccess", SimpleNamespace(processes=lambda: iter(found)))


def test_processes_are_found_by_program_and_node_and_get_signals(sleeping: Process) -> None:
    nodes = _access(sleeping)
    assert access.nodes_of(nodes, "sleep") == {"n1"}
    assert access.of_program(nodes, "sleep", "n2") == access.of_program(nodes, "train.py") == []
    assert sleeping.cpus() == frozenset(os.sched_getaffinity(0))
    assert sleeping.device_minors(195) is not None
    assert access.kill(nodes, "sleep", "n1") == 1
    assert os.waitpid(sleeping.pid, 0)[1] == signal.SIGKILL


def test_process_that_has_ended_has_nothing() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    ended = Process(child.pid, "n1", POD, CONTAINER)
    found: list[Any] = [ended.read("cmdline"), ended.cpus(), ended.device_minors(195)]
    assert found == ["", frozenset(), None]
    assert not ended.send(signal.SIGTERM)


def test_pod_and_container_are_in_the_path_of_a_cgroup_of_any_node() -> None:
    path = f"/docker/1f/kubelet/kubepods/burstable/pod{POD}/{CONTAINER}"
    assert access.parse_pod_cgroup(path) == (POD, CONTAINER)
    assert containers.parse_cgroup(f"5:cpu:{path}\n") is None
    assert access.parse_pod_cgroup("/kubepods") is None


def test_cluster_without_access_to_its_nodes_says_so() -> None:
    given = Installed(Kubectl(Path("kubectl"), Path("kubeconfig")), "busybox")
    assert given.platform is None
    with pytest.raises(ClusterError, match="gives no access to its nodes"):
        assert given.nodes
