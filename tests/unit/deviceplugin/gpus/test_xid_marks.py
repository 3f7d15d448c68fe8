"""XID marks across restarts of the agent, changes of the wall clock, and resets of the GPU."""

import json
import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.gpus.snapshot import NvmlGpu, NvmlSnapshot, XidEvent
from gputopo_deviceplugin.gpus.xid_mark_store import XidMarkStore
from gputopo_deviceplugin.statefile import StateFile
from support.agent.hardware import Clocks

GPU = GpuUuid("GPU-1")
UNSUPPORTED = NvmlSnapshot("550", (NvmlGpu(0, GPU, 0, "0", "V100", 1, 0, 3, 16, ()),))
QUIET = 300.0
DAY = 86_400.0


def recovery(action: int) -> NvmlSnapshot:
    return NvmlSnapshot("580", (replace(UNSUPPORTED.gpus[0], recovery_action=action),))


class Node:
    """A node whose agent can be restarted."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state" / "xids.json"
        self.clocks = Clocks()
        self.restart()

    def restart(self) -> None:
        self.marks = XidMarkStore(
            StateFile(self.path),
            quiet_seconds=QUIET,
            monotonic=lambda: self.clocks.monotonic_seconds,
            wall=lambda: self.clocks.wall_seconds,
        )

    def codes(self, snapshot: NvmlSnapshot = UNSUPPORTED) -> list[int]:
        return [mark.code for mark in self.marks.update(snapshot).values()]

    def wall_time(self, plus_seconds: float = 0.0) -> str:
        return datetime.fromtimestamp(self.clocks.wall_seconds + plus_seconds, UTC).isoformat()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_fatal_xid_counts_after_a_restart_of_the_agent_and_six_minutes(node: Node) -> None:
    assert node.marks.add(XidEvent(GPU, 95))
    node.restart()
    node.clocks.wait(360)
    assert node.codes() == [95]
    node.clocks.wait(365 * DAY)
    assert node.codes() == [95]


def test_a_transient_xid_counts_for_the_quiet_time_across_a_restart(node: Node) -> None:
    node.marks.add(XidEvent(GPU, 74))
    node.clocks.wait(200)
    node.restart()
    node.clocks.wait(QUIET - 200.1)
    assert node.codes() == [74]
    node.clocks.wait(0.1)
    assert node.codes() == []
    node.restart()
    assert node.codes() == []


def test_a_repeated_transient_xid_counts_from_its_last_time(node: Node) -> None:
    node.marks.add(XidEvent(GPU, 74))
    node.clocks.wait(QUIET - 1)
    node.marks.add(XidEvent(GPU, 74))
    node.clocks.wait(QUIET - 1)
    assert node.codes() == [74]


@pytest.mark.parametrize("jump_seconds", [-20 * 365 * DAY, 20 * 365 * DAY])
def test_a_jump_of_the_wall_clock_neither_clears_nor_keeps_a_mark(
    node: Node, jump_seconds: float
) -> None:
    node.marks.add(XidEvent(GPU, 95))
    node.marks.add(XidEvent(GPU, 74))
    node.clocks.wall_seconds += jump_seconds
    assert node.codes() == [95, 74]
    node.restart()
    assert node.codes() == [95, 74]
    node.clocks.wait(QUIET)
    assert node.codes() == [95]


def test_an_application_xid_leaves_no_mark(node: Node) -> None:
    assert not node.marks.add(XidEvent(GPU, 31))
    assert node.codes() == []
    assert not node.path.exists()


def test_a_transient_xid_does_not_replace_a_fatal_one(node: Node) -> None:
    node.marks.add(XidEvent(GPU, 119))
    node.marks.add(XidEvent(GPU, 74))
    node.clocks.wait(QUIET)
    assert node.codes() == [119]


def test_marks_from_before_a_reboot_are_removed(node: Node) -> None:
    node.marks.add(XidEvent(GPU, 95))
    node.clocks.monotonic_seconds = 10.0  # the state folder is on a disk, not on a tmpfs
    node.restart()
    assert node.codes() == []


def test_a_recovery_action_that_ends_clears_the_fatal_mark(node: Node) -> None:
    node.marks.add(XidEvent(GPU, 95))
    assert node.codes(recovery(1)) == [95]
    node.restart()
    assert node.codes(UNSUPPORTED) == [95]
    assert node.codes(NvmlSnapshot("580", ())) == [95]
    assert node.codes(recovery(0)) == []


def test_a_driver_that_never_reports_a_recovery_action_keeps_the_mark(node: Node) -> None:
    node.marks.add(XidEvent(GPU, 95))
    assert node.codes(recovery(0)) == [95]
    assert node.codes(recovery(0)) == [95]


def test_a_recovery_action_that_ends_leaves_transient_marks(node: Node) -> None:
    node.marks.add(XidEvent(GPU, 74))
    assert node.codes(recovery(3)) == [74]
    assert node.codes(recovery(0)) == [74]


def test_an_administrator_removes_the_marks_from_before_a_time(node: Node) -> None:
    node.marks.add(XidEvent(GPU, 95))
    node.marks.add(XidEvent(GPU, 74))
    node.clocks.wait(60)
    node.marks.add(XidEvent(GPU, 79))
    node.marks.apply_reset(node.wall_time(-30))
    assert node.codes() == [79]
    node.restart()
    assert node.codes() == [79]


def test_an_annotation_is_applied_once(node: Node) -> None:
    node.marks.apply_reset(node.wall_time(DAY))
    node.marks.add(XidEvent(GPU, 95))
    for _ in range(2):
        node.marks.apply_reset(node.wall_time(DAY))
        assert node.codes() == [95]
        node.restart()


def test_the_annotation_is_compared_by_the_current_clock(node: Node) -> None:
    node.clocks.wall_seconds += 10 * 365 * DAY
    node.marks.add(XidEvent(GPU, 95))
    node.clocks.wall_seconds -= 10 * 365 * DAY
    node.clocks.wait(60)
    node.marks.apply_reset(node.wall_time(-61))
    assert node.codes() == [95]
    node.marks.apply_reset(node.wall_time(-59))
    assert node.codes() == []


@pytest.mark.parametrize("value", ["", "yesterday", "2026-01-31T12:00:00"])
def test_an_annotation_that_is_not_a_time_is_ignored(
    node: Node, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    node.marks.add(XidEvent(GPU, 95))
    node.marks.apply_reset(value)
    node.marks.apply_reset(value)
    assert node.codes() == [95]
    warnings = [one for one in caplog.messages if "ignored an annotation" in one]
    assert len(warnings) == 1


def test_the_file_shows_the_time_of_each_xid(node: Node) -> None:
    node.marks.add(XidEvent(GPU, 95))
    [mark] = json.loads(node.path.read_text())["marks"]
    assert mark["gpu"] == GPU
    assert mark["xid"] == 95
    assert mark["time"] == "2023-11-14T22:13:20Z"


@pytest.mark.parametrize("text", ["{", "[]", '{"marks": [{"gpu": "GPU-1"}]}'])
def test_a_file_that_cannot_be_read_is_reported_and_replaced(
    node: Node, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    node.marks.add(XidEvent(GPU, 95))
    node.path.write_text(text)
    node.restart()
    assert node.codes() == []
    assert any(one.levelno == logging.ERROR for one in caplog.records)
    node.marks.add(XidEvent(GPU, 79))
    node.restart()
    assert node.codes() == [79]


def test_a_folder_that_cannot_be_written_affects_only_a_restart(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.path.parent.write_text("a file where the folder belongs")
    node.marks.add(XidEvent(GPU, 95))
    assert node.codes() == [95]
    assert "XIDs not written" in caplog.text
    node.path.parent.unlink()
    assert node.codes() == [95]
    node.restart()
    assert node.codes() == [95]
