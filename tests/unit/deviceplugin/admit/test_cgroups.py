"""Processes of pods, on fake trees of every cgroup version, driver and root."""

import errno
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputopo_deviceplugin.admit.cgroups import Cgroups

UID = "0f5b2c1e-77aa-4c3d-9d1e-1234567890ab"
SLICE = UID.replace("-", "_")
CGROUPFS = ["kubepods/{}", "kubepods/burstable/{}", "kubepods/besteffort/{}"]
SYSTEMD = [
    "kubepods.slice/kubepods-{}",
    "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{}",
    "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-{}",
]
NESTED = "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice"
KIND = f"{NESTED}/kubelet-kubepods-burstable-{{}}"
FOLDERS = [
    *(path.format(f"pod{UID}") for path in CGROUPFS),
    *(f"{root}/{path}".format(f"pod{UID}") for root in ("kubelet", "a/b") for path in CGROUPFS),
    *(path.format(f"pod{SLICE}.slice") for path in [*SYSTEMD, KIND]),
]


class Tree:
    """A cgroup file system of one version."""

    def __init__(self, directory: Path, version: int) -> None:
        self.directory = directory
        self.version = version
        self.base = directory if version == 2 else directory / "pids"
        self.base.mkdir(parents=True, exist_ok=True)
        if version == 2:
            (directory / "cgroup.controllers").write_text("cpu pids\n")
        for other in ("system.slice/sshd.service", "user.slice/user-0.slice", "init.scope"):
            (self.base / other).mkdir(parents=True)

    def add(self, path: str, processes: int) -> Path:
        folder = self.base / path
        folder.mkdir(parents=True, exist_ok=True)
        if self.version == 1:
            (folder / "pids.current").write_text(f"{processes}\n")
        else:
            events = f"populated {int(processes > 0)}\nfrozen 0\n"
            (folder / "cgroup.events").write_text(events)
        return folder


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return Tree(tmp_path, request.param)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_pod_runs_until_its_cgroup_is_empty_or_removed(tree: Tree, folder: str) -> None:
    cgroups = Cgroups(tree.directory)
    pod = tree.add(folder, 3)
    assert cgroups.running({UID, "another"}) == {UID}
    tree.add(folder, 0)
    assert cgroups.running({UID}) == set()
    for file in pod.iterdir():
        file.unlink()
    pod.rmdir()
    assert cgroups.running({UID}) == set()
    assert cgroups.available


def test_without_pods_to_check_nothing_is_read(tmp_path: Path) -> None:
    cgroups = Cgroups(tmp_path / "absent")
    assert not cgroups.available
    tree = Tree(tmp_path / "absent", 2)
    tree.add(f"kubepods/pod{UID}", 1)
    assert cgroups.running(set()) == set()
    assert not cgroups.available


def test_kubelets_cgroups_may_appear_and_move(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    cgroups = Cgroups(tree.directory)
    for _ in range(3):
        assert cgroups.running({UID}) == set()
    assert [cgroups.available] == [False]
    assert len(caplog.messages) == 1
    assert 'state="not found' in caplog.messages[0]
    tree.add("kubepods", 5)
    tree.add(f"kubelet/kubepods/pod{UID}", 1)
    assert cgroups.running({UID}) == {UID}
    assert cgroups.available
    assert "state=found" in caplog.messages[1]


def test_a_pod_runs_where_any_of_its_cgroups_has_processes(tree: Tree) -> None:
    tree.add(f"kubepods/pod{UID}", 0)
    tree.add(f"kubepods.slice/kubepods-pod{SLICE}.slice", 1)
    assert Cgroups(tree.directory).running({UID}) == {UID}


def test_cgroups_of_services_and_of_other_controllers_are_not_searched(tree: Tree) -> None:
    tree.add(f"system.slice/sshd.service/kubepods/pod{UID}", 1)
    tree.add(f"a/b/c/d/kubepods/pod{UID}", 1)
    assert Cgroups(tree.directory).running({UID}) == set()


def test_the_search_does_not_descend_into_pods(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.add(f"kubepods/burstable/pod{UID}/container", 1)
    listed: list[str] = []
    iterdir = Path.iterdir

    def noted(path: Path) -> Iterator[Path]:
        listed.append(path.name)
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", noted)
    Cgroups(tree.directory)
    assert listed
    assert not {"kubepods", "burstable", f"pod{UID}"} & {*listed}


def failing(error: Exception) -> Callable[[Path], str]:
    def read(path: Path) -> str:  # noqa: ARG001
        raise error

    return read


@pytest.mark.parametrize(
    ("error", "runs"),
    [
        (OSError(errno.ENODEV, "removed while it was read"), False),
        (OSError(errno.EACCES, "permission denied"), True),
        (ValueError("not a number"), True),
    ],
)
def test_a_cgroup_that_cannot_be_read_counts_as_running_unless_it_was_removed(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, error: Exception, *, runs: bool
) -> None:
    tree.add(f"kubepods/pod{UID}", 1)
    monkeypatch.setattr(Path, "read_text", failing(error))
    assert Cgroups(tree.directory).running({UID}) == ({UID} if runs else set())
