"""The program for a real GPU, as far as it runs without one."""

import json
import sys
from pathlib import Path

import pytest

from gputopo.sharing.loadlaw import LoadCapacity, LoadShare
from hardwaretest import speeds
from hardwaretest.calibration import SharedLoads, calibrate_capacity
from hardwaretest.client import Container, GpuProgram
from hardwaretest.report import Report
from hardwaretest.speeds import Alone, Jobs

ECHO = (
    "import os, sys\n"
    'for line in sys.stdin: print(\'{"pid": %d, "x": "%s"}\' % (os.getpid(), os.environ[\'X\']))\n'
)


async def test_a_program_runs_in_a_pid_namespace_with_its_mounts(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "here" / "file").write_text("text")
    container = Container({str(tmp_path / "there"): str(tmp_path / "here")}, {"X": "y"})
    program = await GpuProgram.start(container, [sys.executable, "-u", "-c", ECHO])
    assert await program.request("any") == {"pid": 1, "x": "y"}
    inside = Path(f"/proc/{program.pid}/root{tmp_path}/there/file")
    assert inside.read_text() == "text"  # noqa: ASYNC240 - nothing else runs
    assert not (tmp_path / "there" / "file").exists()
    await program.end()
    assert await program.reply() == {"ended": True}


async def test_a_program_that_does_not_respond_is_killed() -> None:
    program = await GpuProgram.start(Container({}, {}), ["sleep", "600"])
    assert await program.request("any", 0.2) == {"no response within s": 0.2}
    await program.kill()
    assert await program.reply() == {"ended": True}


def test_a_report_names_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(tmp_path)
    report.show("seen", value=1)
    report.check("good", holds=True)
    report.check("bad", holds=False, reason="x")
    assert report.failed == ["bad"]
    assert "DIFFERS bad" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "hardware.json").read_text())) == 3


def test_a_set_is_predicted_from_the_sets_with_other_jobs() -> None:
    alone = {"a": Alone(1.0, LoadShare(0.5, 0.0)), "b": Alone(1.0, LoadShare(0.2, 0.0))}
    measured: dict[Jobs, list[float]] = {("a", "a"): [0.5, 0.5]}
    for kinds in (("a", "b"), ("b", "b"), ("b", "b", "b"), ("a", "b", "b"), ("b", "a")):
        occupancy = sum(alone[kind].share.occupancy for kind in kinds)
        measured[kinds] = [min(1.0, 0.5 / occupancy)] * len(kinds)
    capacity = speeds.capacity_without(alone, measured, ("a", "a"))
    assert capacity is not None
    assert capacity.occupancy == 0.5
    assert capacity.speed([alone["a"].share] * 2) == 0.5


def test_capacity_is_calibrated_by_measured_sets() -> None:
    truth = LoadCapacity(0.6)
    shares = [(LoadShare(0.1 * step, 0.1), LoadShare(0.4, 0.1)) for step in range(1, 8)]
    seen = [SharedLoads(each, (truth.speed(each),) * 2) for each in shares]
    assert calibrate_capacity(seen) == truth
    assert calibrate_capacity(seen[:4]) is None
