"""Daemons are outside of the cgroup of the container, in all hierarchies."""

import os
from pathlib import Path

import pytest

from gputopo_mps.cgroups import DaemonCgroup

CONTAINER = "/node/kubepods/burstable/pod1/abc"
GPU = "GPU-1"


def own(folder: Path, *lines: str) -> Path:
    file = folder / "own"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


@pytest.mark.parametrize(
    "unified", [pytest.param("", id="version-2-only"), pytest.param("unified", id="both-versions")]
)
def test_each_gpu_has_a_group_beside_the_pods_in_each_hierarchy(
    tmp_path: Path, unified: str
) -> None:
    lines = (f"9:name=systemd:{CONTAINER}", f"3:cpuset:{CONTAINER}", f"0::{CONTAINER}", "2:cpu:/")
    for hierarchy in ("systemd", "cpuset", unified):
        (tmp_path / hierarchy / "node").mkdir(parents=True)
    (tmp_path / unified / "cgroup.controllers").touch()
    new = tmp_path / "cpuset/node/gputopo-mps"
    (new / GPU).mkdir(parents=True)
    for name, text in (("cpuset.cpus", "0-3"), ("cpuset.mems", "0")):
        (new.parent / name).write_text(f"{text}\n")
        (new / name).write_text("\n")
        (new / GPU / name).write_text("\n")
    cgroup = DaemonCgroup(tmp_path, own(tmp_path, *lines))
    files = cgroup.prepare(GPU)
    folders = [tmp_path / each / "node/gputopo-mps" / GPU for each in ("systemd", "cpuset")]
    folders.append(tmp_path / unified / "node/gputopo-mps" / GPU)
    assert files == [folder / "cgroup.procs" for folder in folders]
    assert (new / GPU / "cpuset.cpus").read_text() == "0-3\n"
    (new / GPU / "cpuset.cpus").write_text("1\n")
    cgroup.prepare(GPU)
    assert (new / GPU / "cpuset.cpus").read_text() == "1\n"
    for file in files:
        file.write_text("77\n78\n")
        (file.parents[1] / "cgroup.procs").write_text("5\n")
    assert cgroup.members(GPU) == {77, 78}
    assert cgroup.members() == {5}


def test_the_root_of_version_2_has_no_cpus_to_copy(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    new = tmp_path / "gputopo-mps"
    new.mkdir()
    (new / "cpuset.cpus").write_text("\n")
    cgroup = DaemonCgroup(tmp_path, own(tmp_path, "0::/kubepods.slice/pod1/abc"))
    assert cgroup.prepare(GPU) == [new / GPU / "cgroup.procs"]


@pytest.mark.parametrize("line", ["0::/", f"0::{CONTAINER}"])
def test_daemons_stay_where_they_are_if_that_is_not_possible(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str
) -> None:
    cgroup = DaemonCgroup(tmp_path, own(tmp_path, line))
    assert cgroup.prepare(GPU) == []
    assert "daemon not moved" in caplog.text
    assert cgroup.members(GPU) == set()
    cgroup.remove(GPU)


def test_daemons_stay_where_they_are_without_the_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cgroup = DaemonCgroup(None, tmp_path)
    assert cgroup.prepare(GPU) == []
    assert cgroup.members(GPU) == set()
    cgroup.remove(GPU)
    assert not caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may create cgroups")
def test_an_empty_group_is_removed(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "cgroup.controllers").touch()
    cgroup = DaemonCgroup(tmp_path, own(tmp_path, f"0::{CONTAINER}"))
    cgroup.prepare(GPU)
    cgroup.remove(GPU)
    assert not (tmp_path / "node/gputopo-mps" / GPU).exists()
