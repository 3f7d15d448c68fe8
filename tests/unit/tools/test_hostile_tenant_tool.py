"""The parts of the hostile tenant that need no cluster."""

import importlib
import stat
import types
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from gputopo.api.names import PROFILING_STATE_ANNOTATION, RESOURCE
from gputopo.api.profiling import parse_profiling_state
from gputopo.api.shares import share_resource
from hostiletest import manifests
from hostiletest.neighbours import Neighbours
from hostiletest.tenant import Replies
from soaktest import __main__ as soak
from soaktest.client import Client, RejectedError
from soaktest.journal import Journal
from soaktest.report import Report, table

UID = "11111111-2222-3333-4444-555555555555"
FIELD = "gputopo.io/profile"


def reject(status: int, message: str) -> None:
    raise RejectedError(status, message)


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([], False),
        ([(409, FIELD)], False),
        ([(404, FIELD)], False),
        ([(403, "pods is forbidden")], False),
        ([(422, f"metadata.annotations[{FIELD}]: may not change")], True),
    ],
)
def test_attack_without_a_reply_about_its_field_was_not_attempted(
    replies: list[tuple[int, str]], *, expected: bool
) -> None:
    found = Replies()
    for status, message in replies:
        assert not found.send(partial(reject, status, message))
    assert found.is_attempted(FIELD) is expected


def test_accepted_write_is_an_attempt() -> None:
    found = Replies()
    assert found.send(dict)
    assert found.is_attempted(FIELD)
    assert str(found) == "1 writes accepted, 0 rejected"


def test_forged_record_is_valid_for_its_pod() -> None:
    text = manifests.profiling_state(UID, datetime.now(UTC))
    state = parse_profiling_state({PROFILING_STATE_ANNOTATION: text}, UID)
    assert state is not None
    assert state.original.request == manifests.MOST_MILLI_CPU
    assert not state.restored


@pytest.mark.parametrize("program", ["hold", "forge"])
def test_programs_are_given_to_python_as_text(program: str) -> None:
    pod = manifests.sharing_pod("a", "image", "n1", program, "fifo")
    (container,) = pod["spec"]["containers"]
    python, unbuffered, option, text, argument = container["command"]
    assert (python, unbuffered, option, argument) == ("python3", "-u", "-c", "fifo")
    compile(text, program, "exec")
    assert container["resources"]["limits"] == {share_resource(RESOURCE): "1"}


@pytest.fixture
def hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The program that replaces files, in a pipe folder of its own."""
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    return importlib.reload(importlib.import_module("hostiletest.programs.hold"))


@pytest.mark.parametrize(
    ("kind", "type_of"),
    [
        ("fifo", stat.S_IFIFO),
        ("zero", stat.S_IFLNK),
        ("folder", stat.S_IFDIR),
        ("large", stat.S_IFREG),
        ("silent", stat.S_IFSOCK),
    ],
)
def test_each_replacement_takes_the_place_of_the_file(
    hold: types.ModuleType, tmp_path: Path, kind: str, type_of: int
) -> None:
    file = tmp_path / "file"
    file.write_text("1\n")
    before = hold.inode(file)
    hold.replace(kind, file)
    assert stat.S_IFMT(file.lstat().st_mode) == type_of
    assert hold.inode(file) != before
    assert kind in manifests.HELD_FILES
    for listener in hold.LISTENERS:
        listener.close()


def test_members_of_an_ensemble_may_be_limited_to_a_node() -> None:
    made = manifests.ensemble("a", "image", 1, "n3")
    (member,) = made["spec"]["members"]
    spec = member["jobTemplate"]["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"kubernetes.io/hostname": "n3"}


class OneSizedPod:
    """An API server with one sized pod and one profile."""

    def __init__(self) -> None:
        self.samples = ["2026-01-01T00:00:00Z"]

    def get(self, path: str, **_: str) -> dict[str, Any]:
        if "gpuprofiles" in path:
            return {"status": {"samples": [{"time": time} for time in self.samples]}}
        resources = {"limits": {"cpu": "476m", "memory": "64Mi"}}
        status = {
            "phase": "Running",
            "containerStatuses": [{"name": "main"} | {"resources": resources}],
        }
        spec = {"containers": [{"name": "main", "resources": resources}]}
        return {
            "items": [{"metadata": {"namespace": "a", "name": "b"}, "spec": spec, "status": status}]
        }


def test_samples_of_the_neighbours_are_counted_once_and_sizes_each_time(tmp_path: Path) -> None:
    server, journal = OneSizedPod(), Journal(tmp_path / "log")
    neighbours = Neighbours(cast("Client", server), journal, ["n1", "n2"], "image")
    for _ in range(2):
        neighbours.count()
    server.samples.append("2026-01-01T00:01:00Z")
    neighbours.count()
    assert journal.counts["neighbours: samples of a measured job"] == 2
    assert journal.counts["neighbours: checks with a limit of 480m CPU"] == 3
    journal.close()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], (False, False)), (["--neighbours"], (True, False)), (["--adversary"], (True, True))],
)
def test_adversary_has_neighbours(arguments: list[str], expected: tuple[bool, bool]) -> None:
    options = soak.wanted(soak.parser().parse_args(arguments))
    assert (options.neighbours, options.adversary) == expected


def test_kind_of_errors_that_did_not_occur_is_shown_and_is_no_error(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "log")
    journal.expect_none("escaped")
    found = Report(seed=1, seconds=1.0, figures={}, findings=journal.findings, log="log")
    assert found.is_clean
    assert [line.split() for line in table(found) if "escaped" in line] == [["escaped", "0"]]
    journal.close()


def test_highest_number_is_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "log")
    for number in (3, 7, 5):
        journal.highest("longest", number)
    assert journal.counts["longest"] == 7
    journal.close()
