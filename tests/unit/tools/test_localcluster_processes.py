"""Processes are known again by more than their number, and only the right ones are ended."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster import processes
from localcluster.api import wait_until
from localcluster.processes import ProcessFiles, ProcessIdentity
from localcluster.settings import CLONE


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[ProcessIdentity]:
    identity = processes.start(["sleep", "600"], tmp_path / "log", os.environ)
    yield identity
    processes.end(identity, patience_seconds=0)
    os.waitpid(identity.pid, 0)


def test_start_time_is_read_after_the_last_bracket_of_the_name() -> None:
    rest = " ".join(str(field) for field in range(3, 53))
    state, start_ticks = processes.parse_stat(f"17 (a ) S 1 (b)) {rest}".replace(") 3 ", ") S "))
    assert (state, start_ticks) == ("S", 22)


def test_a_started_process_is_recognised(sleeper: ProcessIdentity) -> None:
    assert processes.is_running(sleeper)


def test_a_later_process_with_the_same_number_is_not_taken_for_it(
    sleeper: ProcessIdentity,
) -> None:
    assert not processes.is_running(replace(sleeper, start_ticks=sleeper.start_ticks - 1))
    assert not processes.is_running(replace(sleeper, boot_id="another boot"))


def test_another_process_with_the_same_number_is_not_ended(
    sleeper: ProcessIdentity,
) -> None:
    processes.end(replace(sleeper, start_ticks=sleeper.start_ticks - 1), patience_seconds=1)
    assert processes.is_running(sleeper)


def test_a_process_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    stubborn = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]
    identity = processes.start(stubborn, tmp_path / "log", os.environ)
    deadline = time.monotonic() + 60
    while not (tmp_path / "log").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (tmp_path / "log").read_text(), "it ignores the request from here on"
    processes.end(identity, patience_seconds=0.2)
    _, status = os.waitpid(identity.pid, 0)
    assert not processes.is_running(identity)
    assert os.waitstatus_to_exitcode(status) == -9


def test_a_process_file_is_worthless_once_the_process_has_ended(
    tmp_path: Path, sleeper: ProcessIdentity
) -> None:
    kept = ProcessFiles(tmp_path / "processes")
    kept.remember("part", sleeper)
    assert kept.recall("part") == sleeper
    processes.end(sleeper, patience_seconds=5)
    assert kept.recall("part") is None
    kept.end("part", patience_seconds=0)
    assert list((tmp_path / "processes").iterdir()) == []


def test_a_part_that_was_never_started_is_not_recalled(tmp_path: Path) -> None:
    assert ProcessFiles(tmp_path).recall("part") is None


def test_a_process_that_is_gone_has_no_first_child() -> None:
    assert processes.first_child(2**22 + 1) is None


def test_program_does_not_continue_after_the_death_of_its_caller() -> None:
    script = """
import subprocess, time
from localcluster.commands import tied_to_this
child = subprocess.Popen(tied_to_this(["sleep", "600"]))
print(child.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(CLONE / "tools")},
        stdout=subprocess.PIPE,
        text=True,
    ) as caller:
        assert caller.stdout is not None
        child = int(caller.stdout.readline())
        wait_until(lambda: (Path("/proc") / str(child) / "comm").read_text() == "sleep\n", "it", 60)
        identity = processes.identify(child)
        assert identity is not None
        caller.kill()
    wait_until(lambda: not processes.is_running(identity), "its end", 60)
