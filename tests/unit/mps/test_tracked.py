"""Which processes are those of MPS, with real processes and real cgroups."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from gputopo_kube.json_file import write_json
from gputopo_mps import tracked
from gputopo_mps.cgroups import DaemonCgroup
from gputopo_mps.folders import GpuFolders
from gputopo_mps.processes import (
    ProcessHandle,
    ProcessId,
    cgroup_of,
    children_of,
    executable_of,
    has_variable,
    process_id,
)
from gputopo_mps.tracked import MpsProcesses, kill_others

HIERARCHY = next(
    (each for each in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")) if each.exists()), None
)
WAIT = "import time; print('up', flush=True); time.sleep(600)"
PARENT = f"""
import subprocess
child = subprocess.Popen([{sys.executable!r}, "-c", "import time; time.sleep(600)"])
{WAIT}
"""
NO_PROCESS = 2**22 + 1

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start processes, and kill them and their children at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def run(script: str = WAIT, **options: object) -> "subprocess.Popen[bytes]":
        given = {"executable": sys.executable, "args": ["python", "-c", script], **options}
        process = subprocess.Popen(**given, stdout=subprocess.PIPE)  # type: ignore[call-overload]
        started.append(process)
        assert process.stdout.readline() == b"up\n"
        return process  # type: ignore[no-any-return]

    yield run
    for process in started:
        for child in children_of(process.pid):
            os.kill(child.pid, 9)
        process.kill()
        process.communicate()


@pytest.fixture
def folders(tmp_path: Path) -> GpuFolders:
    found = GpuFolders("GPU-1", tmp_path / "gpus/GPU-1")
    found.create()
    return found


def runs(found: MpsProcesses | ProcessHandle) -> bool:
    return found.is_running


def without_cgroup(folders: GpuFolders) -> MpsProcesses:
    return MpsProcesses(folders, DaemonCgroup(None, folders.root))


def end(found: MpsProcesses) -> set[int]:
    """Kill all processes; return their PIDs."""
    pids = set()
    while running := found.running():
        for each in running:
            pids.add(each.identity.pid)
            each.kill()
            each.close()
        time.sleep(0.01)
    return pids


def test_a_process_that_has_ended_has_no_identity(start: Start) -> None:
    process = start()
    known = process_id(process.pid)
    assert known is not None
    handle = ProcessHandle.open(known)
    assert handle is not None
    assert runs(handle)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process_id(process.pid) is None, "its parent has not collected it"
    assert not runs(handle)
    handle.kill()
    process.wait()
    handle.kill()
    handle.close()
    assert ProcessHandle.open(known) is None
    assert process_id(NO_PROCESS) is None
    assert (executable_of(NO_PROCESS), cgroup_of(NO_PROCESS)) == ("", "")
    assert not has_variable(NO_PROCESS, "A", "1")


def test_another_process_with_the_same_pid_is_not_taken(start: Start) -> None:
    process = start()
    assert ProcessHandle.open(ProcessId(pid=process.pid, started=1)) is None


def test_a_program_may_have_any_name(tmp_path: Path) -> None:
    program = tmp_path / ") R 1 (x y"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "600"]) as process:
        while executable_of(process.pid) != str(program):
            time.sleep(0.01)
        expected = process_id(os.getpid())
        found = process_id(process.pid)
        assert found is not None
        assert expected is not None
        assert found.started >= expected.started
        process.kill()


def test_a_restarted_component_finds_daemon_and_server(folders: GpuFolders, start: Start) -> None:
    daemon = start(PARENT)
    first = without_cgroup(folders)
    assert not runs(first)
    assert first.record(daemon.pid)
    first.update()
    (server,) = children_of(daemon.pid)
    again = without_cgroup(folders)
    again.restore()
    assert runs(again)
    daemon.kill()
    daemon.wait()
    assert not runs(again)
    again.update()
    assert end(again) == {server.pid}, "the server survived its parent"
    again.forget()
    assert not folders.daemon.exists()
    once_more = without_cgroup(folders)
    once_more.restore()
    assert not runs(once_more)


@pytest.mark.parametrize("changed", ["boot", "executable", "started", "invalid"])
def test_a_record_of_another_process_is_not_used(
    folders: GpuFolders, start: Start, changed: str
) -> None:
    process = start()
    without_cgroup(folders).record(process.pid)
    document = json.loads(folders.daemon.read_text())
    if changed == "started":
        document["daemon"]["started"] += 1
    elif changed == "invalid":
        del document["boot"]
    else:
        document[changed] = "other"
    write_json(folders.daemon, document)
    found = without_cgroup(folders)
    found.restore()
    assert not runs(found)
    if changed != "executable":
        assert end(found) == set()
        assert process.poll() is None


def test_a_process_that_has_ended_is_not_recorded(folders: GpuFolders) -> None:
    assert not without_cgroup(folders).record(NO_PROCESS)


# With real cgroups.

needs_cgroups = pytest.mark.skipif(
    os.geteuid() != 0 or HIERARCHY is None, reason="only root may create cgroups"
)


class Node:
    """A folder of the cgroups of this machine, as if a node had only it."""

    def __init__(self, folder: Path, tmp_path: Path) -> None:
        self.pod = folder / "kubepods/pod1"
        self.pod.mkdir(parents=True)
        path = f"/{self.pod.relative_to(folder.parent)}"
        line = f"0::{path}" if folder.parent.name != "pids" else f"1:pids:{path}"
        (tmp_path / "own").write_text(f"{line}\n")
        root = folder.parent.parent if folder.parent.name == "pids" else folder.parent
        self.cgroup = DaemonCgroup(root, tmp_path / "own")
        self.group = folder / "gputopo-mps"

    def put(self, pid: int, group: Path) -> None:
        (group / "cgroup.procs").write_text(f"{pid}\n")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    assert HIERARCHY is not None
    folder = HIERARCHY / f"gputopo-test-{uuid4()}"
    yield Node(folder, tmp_path)
    for each in sorted(folder.rglob("*"), reverse=True):
        if each.is_dir():
            each.rmdir()
    folder.rmdir()


@needs_cgroups
def test_the_members_of_the_group_are_the_processes_of_mps(
    folders: GpuFolders, start: Start, node: Node
) -> None:
    found = MpsProcesses(folders, node.cgroup)
    (file,) = found.prepare()
    daemon, unknown = start(), start()
    for process in (daemon, unknown):
        file.write_text(f"{process.pid}\n")
    found.record(daemon.pid)
    assert end(found) == {daemon.pid, unknown.pid}
    daemon.wait()
    unknown.wait()
    found.forget()
    assert not file.parent.exists()


@needs_cgroups
@pytest.mark.parametrize("name", ["nvidia-cuda-mps-server", "nvidia-cuda-mps-control"])
def test_a_process_of_a_pod_is_neither_moved_nor_killed(
    folders: GpuFolders, node: Node, name: str
) -> None:
    """Its command line, its environment, its program's name and the PID file are forged."""
    program = folders.root / name
    shutil.copy("/bin/sleep", program)
    environment = {"CUDA_MPS_PIPE_DIRECTORY": str(folders.pipe)}
    with subprocess.Popen([name, "600"], executable=program, env=environment) as process:
        node.put(process.pid, node.pod)
        before = cgroup_of(process.pid)
        (folders.pipe / "nvidia-cuda-mps-control.pid").write_text(f"{process.pid}\n")
        known = process_id(process.pid)
        while executable_of(process.pid) != str(program):
            time.sleep(0.01)
        found = MpsProcesses(folders, node.cgroup)
        found.restore()
        assert not runs(found)
        assert end(found) == set()
        # Not even a record with its PID makes it a process of MPS: it is in the cgroup of a pod.
        assert known is not None
        found.record(process.pid)
        again = MpsProcesses(folders, node.cgroup)
        again.restore()
        assert not runs(again)
        assert end(again) == set()
        kill_others(node.cgroup)
        assert process.poll() is None
        assert cgroup_of(process.pid) == before
        process.kill()


@needs_cgroups
def test_the_daemon_of_an_earlier_release_is_taken_and_others_are_ended(
    folders: GpuFolders, node: Node, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracked, "_PROGRAM", Path(executable_of(os.getpid())).name)
    assert node.cgroup.prepare("GPU-2")
    environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(folders.pipe)}
    other, daemon = start(), start(PARENT, env=environment)
    (server,) = children_of(daemon.pid)
    for pid in (daemon.pid, server.pid, other.pid):
        node.put(pid, node.group)
    found = MpsProcesses(folders, node.cgroup)
    found.restore()
    assert runs(found)
    assert node.cgroup.members("GPU-1") == {daemon.pid, server.pid}
    kill_others(node.cgroup)
    other.wait()
    assert runs(found)
    restarted = MpsProcesses(folders, node.cgroup)
    restarted.restore()
    assert runs(restarted)
    assert end(restarted) == {daemon.pid, server.pid}


@needs_cgroups
def test_a_process_that_changes_its_group_or_ends_meanwhile_is_left(
    folders: GpuFolders, node: Node, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracked, "_PROGRAM", Path(executable_of(os.getpid())).name)
    node.cgroup.prepare("GPU-1")
    environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(folders.pipe)}
    process = start(env=environment)
    node.put(process.pid, node.group)
    members = iter([{process.pid, NO_PROCESS}, set[int]()])
    monkeypatch.setattr(node.cgroup, "members", lambda *_: next(members))
    kill_others(node.cgroup)
    assert process.poll() is None
    monkeypatch.undo()
    monkeypatch.setattr(tracked, "_PROGRAM", Path(executable_of(os.getpid())).name)
    monkeypatch.setattr(os, "pidfd_open", lambda _: (_ for _ in ()).throw(OSError))
    found = MpsProcesses(folders, node.cgroup)
    found.restore()
    assert not runs(found)
