"""The launcher reports the daemon to the component, and kills one that was not recorded."""

import ctypes
import json
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gputopo_mps import launcher
from gputopo_mps.launcher import KEEP, launch
from gputopo_mps.mounts import mount_tmpfs, unmount

DAEMON = 'sleep 600 & echo $! > "$0.pid"; exit 0'
SUBREAPER = 36


@pytest.fixture(autouse=True)
def no_subreaper() -> Iterator[None]:
    """Let this process adopt children only in these tests."""
    yield
    ctypes.CDLL(None).prctl(SUBREAPER, 0, 0, 0, 0)


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    def write(script: str) -> Path:
        path = tmp_path / "control"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return write


class Component:
    """The other end of the launcher, which runs in a thread of this process."""

    def __init__(self, plan: dict[str, Any]) -> None:
        component, self.lifeline = os.pipe()
        self.reports, reports = os.pipe()

        def run() -> None:
            launch({"cgroups": [], "shm": None} | plan, component, reports)
            os.close(component)
            os.close(reports)

        self.thread = Thread(target=run)
        self.thread.start()

    def report(self) -> dict[str, Any]:
        with os.fdopen(os.dup(self.reports)) as file:
            return dict(json.loads(file.readline()))

    def keep(self) -> None:
        os.write(self.lifeline, KEEP)
        self.end()

    def end(self) -> None:
        os.close(self.lifeline)
        self.thread.join()
        os.close(self.reports)


def is_alive(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return Path(f"/proc/{pid}").exists()


def test_a_daemon_that_was_recorded_goes_on(program: Callable[[str], Path], tmp_path: Path) -> None:
    path = program(DAEMON)
    component = Component({"command": [str(path)], "cgroups": [tmp_path / "procs", "/none/procs"]})
    report = component.report()
    pid = int(Path(f"{path}.pid").read_text())
    assert report == {"status": 0, "daemons": [pid]}
    assert (tmp_path / "procs").read_text() == "0\n"
    component.keep()
    assert is_alive(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_daemon_that_was_not_recorded_is_killed(program: Callable[[str], Path]) -> None:
    component = Component({"command": [str(program(DAEMON))]})
    (pid,) = component.report()["daemons"]
    component.end()
    assert not is_alive(pid)


def test_a_program_that_hangs_ends_with_the_component(
    program: Callable[[str], Path], tmp_path: Path
) -> None:
    path = program(f'sleep 600 & echo $! > "{tmp_path}/child"; exec sleep 600')
    component = Component({"command": [str(path)]})
    child = tmp_path / "child"
    while not (child.exists() and child.read_text()):
        pass
    component.end()
    assert not is_alive(int(child.read_text()))


def test_errors_are_reported(program: Callable[[str], Path]) -> None:
    component = Component({"command": ["/none/control"]})
    assert component.report() == {"error": "/none/control: No such file or directory"}
    component.end()
    component = Component({"command": [str(program("exit 3"))]})
    assert component.report() == {"status": 3, "daemons": []}
    component.end()


def test_a_component_that_reads_no_report_has_ended(program: Callable[[str], Path]) -> None:
    """The launcher then kills the daemon, although it cannot report it."""
    path = program(f"while [ ! -e $0.go ]; do sleep 0.01; done; {DAEMON}")
    component = Component({"command": [str(path)]})
    os.close(component.reports)
    Path(f"{path}.go").touch()
    file = Path(f"{path}.pid")
    while not (file.exists() and file.read_text()):
        pass
    os.close(component.lifeline)
    component.thread.join()
    assert not is_alive(int(file.read_text()))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_the_daemon_has_the_shared_memory_of_its_gpu(
    program: Callable[[str], Path], tmp_path: Path
) -> None:
    shm = tmp_path / "shm"
    mount_tmpfs(shm, mode="1777", size="1m", files=9)
    component = Component({"command": [str(program(DAEMON))], "shm": str(shm)})
    (pid,) = component.report()["daemons"]
    assert Path(f"/proc/{pid}/root/dev/shm").samefile(shm)
    assert not Path("/dev/shm").samefile(shm)  # noqa: S108
    component.end()
    unmount(shm)


def test_its_argument_is_the_plan(
    program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"command": [str(program("exit 3"))], "cgroups": [], "shm": None}
    monkeypatch.setattr(sys, "argv", ["launcher", json.dumps(plan)])
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        with Path(os.devnull).open("w") as nowhere:
            monkeypatch.setattr(sys, "stdout", nowhere)
            monkeypatch.delitem(sys.modules, launcher.__name__)
            runpy.run_module(launcher.__name__, run_name="__main__")
