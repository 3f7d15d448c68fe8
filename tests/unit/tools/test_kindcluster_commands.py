"""The commands of `tools/kind` with stand-ins for the programs docker and kind."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kindcluster import programs, settings
from kindcluster.__main__ import main
from kindcluster.cluster import KindCluster
from kindcluster.docker import Docker
from localcluster import devicefiles, hostchanges, images, preflight
from localcluster.errors import ClusterError
from localcluster.images import Image
from localcluster.progress import Progress
from localcluster.settings import KIND_STATE_VARIABLE, Paths

# Containers are lines `NAME STATE` in a file; `docker exec` answers for kubectl and ctr.
DOCKER = """\
#!/bin/sh
echo "docker $*" >> calls
case "$1 $2" in
  "version ") exit 0 ;;
  "ps --all") cat containers ;;
  "run --rm") echo '{"mounts": []}' ;;
  "start "*) sed -i 's/exited/running/' containers ;;
  "exec gputopo-control-plane") cat nodes.json ;;
  "exec --interactive") cat > /dev/null ;;
  "exec "*) echo localhost/old:1 ;;
esac
"""
KIND = """\
#!/bin/sh
echo "kind $1" >> calls
[ ! -e fails ] || { echo "ERROR: no such image" >&2; exit 1; }
case $1 in
  create) for name in control-plane worker worker2 worker3; do
    echo gputopo-$name running; done > containers ;;
  delete) : > containers ;;
esac
"""


def node(name: str) -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name}, "status": status}


class Machine:
    """A machine with Docker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = Paths(cache=folder / "cache", state=folder / "state")
        self.cluster = KindCluster(self.paths, Progress())
        self.servers = {"n1": "dgx1-v100", "n2": "dgx-a100", "n3": "none"}

    def up(self) -> list[str]:
        """Run `up`; return the commands of kind and those of Docker that change something."""
        self._write("calls", "")
        self.cluster.up(self.servers, image="node:1")
        return self.calls()

    def calls(self) -> list[str]:
        lines = (self.folder / "calls").read_text().splitlines()
        return [
            line for line in lines if line.startswith(("kind", "docker start", "docker exec -"))
        ]

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("docker", DOCKER), ("kind", KIND), ("kubectl", ""), ("helm", "")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setattr(programs, "ensure_kind", lambda *_: folder)
    names = ["control-plane", "worker", "worker2", "worker3"]
    listed = {"items": [node(f"gputopo-{name}") for name in names]}
    (tmp_path / "nodes.json").write_text(json.dumps(listed))
    (tmp_path / "containers").touch()
    (tmp_path / "sysctls" / "kernel").mkdir(parents=True)
    (tmp_path / "sysctls" / "kernel" / "panic").write_text("1")
    monkeypatch.setattr(settings, "LOCKS", tmp_path / "locks")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUTOPO_STATE", str(tmp_path / "no-local-cluster"))
    monkeypatch.setenv(KIND_STATE_VARIABLE, str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(hostchanges, "_SYSCTLS", tmp_path / "sysctls")
    monkeypatch.setattr(preflight, "require_root", lambda: None)
    monkeypatch.setattr(preflight, "require_programs", lambda _: None)
    monkeypatch.setattr(devicefiles, "create", lambda *_: None)
    monkeypatch.setattr(images, "ensure", lambda *_: [])
    return Machine(tmp_path)


def test_cluster_is_created_once_and_found_running_later(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert machine.up() == ["kind create"]
    found = machine.cluster.record()
    assert (found.own_docker, found.image, found.programs) == (
        False,
        "node:1",
        [str(machine.folder / "bin")],
    )
    assert found.sysctls == {"kernel/panic": "1"}
    capsys.readouterr()
    assert machine.up() == []
    assert "using the cluster that was started from" in capsys.readouterr().err


def test_interrupted_start_is_removed_and_made_again(machine: Machine) -> None:
    machine.up()
    (machine.paths.state / "complete").unlink()
    assert machine.up() == ["kind delete", "kind create"]


def test_failed_start_is_removed_and_made_again(machine: Machine) -> None:
    (machine.folder / "fails").touch()
    with pytest.raises(ClusterError, match="no such image"):
        machine.up()
    (machine.folder / "fails").unlink()
    assert machine.up() == ["kind delete", "kind create"]


def test_cluster_that_was_deleted_with_kind_is_made_again(machine: Machine) -> None:
    machine.up()
    (machine.folder / "containers").write_text("")
    assert machine.up() == ["kind delete", "kind create"]


def test_stopped_node_is_started(machine: Machine) -> None:
    machine.up()
    containers = machine.folder / "containers"
    containers.write_text(containers.read_text().replace("worker2 running", "worker2 exited"))
    assert machine.up() == ["docker start gputopo-worker2"]


def test_other_servers_than_those_of_the_running_cluster_are_an_error(machine: Machine) -> None:
    machine.up()
    machine.servers["n1"] = "summit"
    with pytest.raises(ClusterError, match="`tools/kind down` removes it"):
        machine.up()


def test_cluster_of_kind_that_tools_kind_did_not_start_stays(machine: Machine) -> None:
    (machine.folder / "containers").write_text("gputopo-control-plane running\n")
    with pytest.raises(ClusterError, match="kind delete cluster --name gputopo"):
        machine.up()
    machine.cluster.down()
    assert machine.calls() == []


def test_down_removes_the_cluster_and_restores_the_settings(machine: Machine) -> None:
    machine.up()
    panic = machine.folder / "sysctls" / "kernel" / "panic"
    panic.write_text("10")
    machine.cluster.down()
    assert machine.calls()[-1] == "kind delete"
    assert panic.read_text() == "1"
    assert not machine.paths.state.exists()
    machine.cluster.down()


def test_down_leaves_a_folder_with_other_files(machine: Machine) -> None:
    machine.paths.state.mkdir(mode=0o700)
    (machine.paths.state / "thesis.tex").touch()
    with pytest.raises(ClusterError, match="holds files, but no cluster's"):
        machine.cluster.down()
    assert (machine.paths.state / "thesis.tex").exists()


def test_workers_get_the_images_that_they_lack(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.up()
    folder = machine.folder
    built = [
        Image(name, f"localhost/{name}:1", folder / "Dockerfile", folder, "1")
        for name in ("old", "new")
    ]
    for image in built:
        image.archive(machine.paths).parent.mkdir(parents=True, exist_ok=True)
        image.archive(machine.paths).touch()
    monkeypatch.setattr(images, "ensure", lambda *_: built)
    (folder / "calls").write_text("")
    assert machine.cluster.images() == built
    assert sorted(machine.calls()) == [
        f"docker exec --interactive {worker} ctr --namespace=k8s.io images import -"
        for worker in ("gputopo-worker", "gputopo-worker2", "gputopo-worker3")
    ]


def test_status_of_a_running_cluster_and_of_one_without_docker(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.up()
    found = machine.cluster.status()
    assert found.containers["gputopo-worker"]
    assert [summary.ready for summary in found.nodes] == [True] * 4
    monkeypatch.setattr(Docker, "responds", lambda _: False)
    found = machine.cluster.status()
    assert (found.containers, found.nodes) == ({}, [])


def test_command_without_a_cluster_says_how_to_start_one(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUTOPO_KIND_STATE", str(machine.paths.state))
    assert main(["status"]) == 1
    assert "start one with `tools/kind up`" in capsys.readouterr().err


def test_settings_for_a_shell_are_printed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUTOPO_KIND_STATE", str(machine.paths.state))
    machine.up()
    capsys.readouterr()
    assert main(["env"]) == 0
    printed = capsys.readouterr().out
    assert f'export KUBECONFIG="{machine.paths.state}/kubeconfig"' in printed
    assert "DOCKER_HOST" not in printed


def test_full_disk_is_an_error_without_a_traceback(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/cache/files.tar")

    monkeypatch.setenv("GPUTOPO_KIND_STATE", str(machine.paths.state))
    monkeypatch.setattr(KindCluster, "up", fill)
    assert main(["up"]) == 1
    assert "/cache/files.tar: no space left on the disk" in capsys.readouterr().err
