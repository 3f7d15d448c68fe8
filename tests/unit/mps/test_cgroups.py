"""Daemons leave the cgroup of the container, in all hierarchies."""

from pathlib import Path

import pytest

from gputopo_mps.cgroups import DaemonCgroup

CONTAINER = "/node/kubepods/burstable/pod1/abc"


def own(folder: Path, *lines: str) -> Path:
    file = folder / "own"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


@pytest.mark.parametrize(
    "unified", [pytest.param("", id="version-2-only"), pytest.param("unified", id="both-versions")]
)
def test_they_move_beside_the_pods_in_each_hierarchy(tmp_path: Path, unified: str) -> None:
    lines = (f"9:name=systemd:{CONTAINER}", f"3:cpuset:{CONTAINER}", f"0::{CONTAINER}", "2:cpu:/")
    for hierarchy in ("systemd", "cpuset", unified):
        (tmp_path / hierarchy / "node").mkdir(parents=True)
    (tmp_path / unified / "cgroup.controllers").touch()
    new = tmp_path / "cpuset/node/gputopo-mps"
    new.mkdir()
    for name, text in (("cpuset.cpus", "0-3"), ("cpuset.mems", "0")):
        (new.parent / name).write_text(f"{text}\n")
        (new / name).write_text("\n")
    DaemonCgroup(tmp_path, own(tmp_path, *lines)).move(77)
    for hierarchy in ("systemd", "cpuset", unified):
        assert (tmp_path / hierarchy / "node/gputopo-mps/cgroup.procs").read_text() == "77\n"
    assert (new / "cpuset.cpus").read_text() == "0-3\n"
    (new / "cpuset.cpus").write_text("1\n")
    DaemonCgroup(tmp_path, own(tmp_path, *lines)).move(78)
    assert (new / "cpuset.cpus").read_text() == "1\n"


@pytest.mark.parametrize("line", ["0::/", f"0::{CONTAINER}"])
def test_they_stay_where_they_are_if_that_is_not_possible(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str
) -> None:
    DaemonCgroup(tmp_path, own(tmp_path, line)).move(77)
    assert "daemon not moved" in caplog.text


def test_they_stay_where_they_are_without_the_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    DaemonCgroup(None, tmp_path).move(77)
    assert not caplog.text
