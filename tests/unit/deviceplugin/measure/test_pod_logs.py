import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gputopo.api.measuring import MeasuringRequest
from gputopo_deviceplugin.measure.containers import MeasuredContainer
from gputopo_deviceplugin.measure.pod_logs import MAX_LOG_BYTES, PodLogs
from gputopo_kube.document import ObjectKey
from gputopo_kube.podruntime import ContainerRuntime, PodRuntime
from gputopo_kube.pods import PodView

STARTED = PodRuntime(containers={"main": ContainerRuntime(image_digest="sha256:1")})
POD = PodView("uid-a", ObjectKey("default", "a"), started=True, runtime=STARTED)
CONTAINER = MeasuredContainer(POD, "main", frozenset(), MeasuringRequest(source="Log"))


def entry(steps: int | str) -> bytes:
    return f"2026-01-01T00:00:00Z stdout F gputopo-steps {steps}\n".encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "default_a_uid-a/main"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[PodLogs]:
    logs = PodLogs(tmp_path)
    yield logs
    logs.close()


def write(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def read(logs: PodLogs) -> list[tuple[str, int]]:
    found = logs.read([CONTAINER])
    assert all(each.key == CONTAINER.key for each in found)
    return [(each.message.run, each.message.steps) for each in found]


def test_counts_are_read_from_the_first_call_on(folder: Path, logs: PodLogs) -> None:
    write(folder / "0.log", entry(1))
    assert read(logs) == []
    write(folder / "0.log", entry(2) + entry(3))
    assert read(logs) == [("log-0", 2), ("log-0", 3)]
    assert read(logs) == []


def test_a_rotated_log_is_read_to_its_end_and_then_the_new_one(folder: Path, logs: PodLogs) -> None:
    write(folder / "0.log", entry(1))
    read(logs)
    write(folder / "0.log", entry(2))
    (folder / "0.log").rename(folder / "0.log.20260101-000000")
    write(folder / "0.log", entry(3))
    assert read(logs) == [("log-0", 2)]
    assert read(logs) == [("log-0", 3)]


def test_a_restarted_container_is_another_run(folder: Path, logs: PodLogs) -> None:
    write(folder / "9.log", b"")
    read(logs)
    write(folder / "10.log", entry(1))
    assert read(logs) == []
    assert read(logs) == [("log-10", 1)]


def test_a_log_that_grows_too_fast_is_read_from_its_end(folder: Path, logs: PodLogs) -> None:
    write(folder / "0.log", b"")
    read(logs)
    size = len(entry("00001"))
    written = 10 * MAX_LOG_BYTES // size
    write(folder / "0.log", b"".join(entry(f"{number:05}") for number in range(written)))
    found = [steps for _, steps in read(logs)]
    assert found == [*range(written - MAX_LOG_BYTES // size, written)]


def test_files_that_are_no_logs_are_not_read(folder: Path, logs: PodLogs, tmp_path: Path) -> None:
    os.mkfifo(folder / "0.log")
    assert read(logs) == []
    assert read(logs) == []
    assert logs.errors == {CONTAINER.key: f"{folder}/0.log is not a regular file"}
    (folder / "0.log").unlink()
    write(tmp_path / "secret", entry(1))
    (folder / "0.log").symlink_to(tmp_path / "secret")
    assert read(logs) == []
    write(tmp_path / "secret", entry(2))
    assert read(logs) == []
    assert logs.errors == {CONTAINER.key: f"{folder}/0.log: is a symbolic link"}
    write(folder / "last.log", entry(3))
    assert read(logs) == []


def test_a_container_without_a_log_has_no_counts(logs: PodLogs, folder: Path) -> None:
    assert read(logs) == []
    assert logs.errors == {CONTAINER.key: f"{folder}: has no log"}
    folder.rmdir()
    assert read(logs) == []
    assert logs.errors == {CONTAINER.key: f"{folder}: No such file or directory"}
    write_to = folder / "0.log"
    folder.mkdir()
    write(write_to, b"")
    assert read(logs) == []
    assert logs.errors == {}


def test_a_container_that_has_not_started_may_have_no_log(logs: PodLogs) -> None:
    initializing = PodRuntime(containers={"main": ContainerRuntime()})  # its init container runs
    for runtime in (initializing, PodRuntime()):
        assert logs.read([replace(CONTAINER, pod=replace(POD, runtime=runtime))]) == []
    assert logs.errors == {}


def test_a_log_that_disappears_is_opened_again(folder: Path, logs: PodLogs) -> None:
    write(folder / "0.log", entry(1))
    read(logs)
    (folder / "0.log").unlink()
    assert read(logs) == []
    write(folder / "0.log", entry(2))
    assert read(logs) == []
    write(folder / "0.log", entry(3))
    assert read(logs) == [("log-0", 3)]


def test_files_of_ended_containers_are_closed(folder: Path, logs: PodLogs) -> None:
    write(folder / "0.log", entry(1))
    before = len([*Path("/proc/self/fd").iterdir()])
    read(logs)
    assert len([*Path("/proc/self/fd").iterdir()]) == before + 1
    assert logs.read([]) == []
    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_folder_or_endless_file_instead_of_a_log_is_not_read(folder: Path, logs: PodLogs) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    (folder / "0.log").mkdir()
    assert read(logs) == []
    assert logs.errors == {CONTAINER.key: f"{folder}/0.log is not a regular file"}
    (folder / "0.log").rmdir()
    (folder / "0.log").symlink_to("/dev/zero")
    assert read(logs) == []
    assert logs.errors == {CONTAINER.key: f"{folder}/0.log: is a symbolic link"}
    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_of_a_log_with_a_gigabyte_only_the_end_is_read(
    folder: Path, logs: PodLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    read_some = os.read

    def counted(descriptor: int, size: int) -> bytes:
        sizes.append(size)
        return read_some(descriptor, size)

    monkeypatch.setattr(os, "read", counted)
    write(folder / "0.log", entry(1))
    read(logs)
    with (folder / "0.log").open("r+b") as file:
        file.truncate(2**30)  # one line without an end
    write(folder / "0.log", b"\n" + entry(2))
    assert read(logs) == [("log-0", 2)]
    assert sum(sizes) <= MAX_LOG_BYTES


def test_log_that_is_replaced_or_cut_while_it_is_read_ends_no_later_counts(
    folder: Path, logs: PodLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "0.log", entry(1))
    read(logs)
    read_some = os.read

    def replace_first(descriptor: int, size: int) -> bytes:
        monkeypatch.setattr(os, "read", read_some)
        (folder / "0.log").unlink()
        os.mkfifo(folder / "0.log")
        return read_some(descriptor, size)

    monkeypatch.setattr(os, "read", replace_first)
    write(folder / "0.log", entry(2))
    assert read(logs) == []
    assert logs.errors == {CONTAINER.key: f"{folder}/0.log is not a regular file"}
    (folder / "0.log").unlink()
    write(folder / "0.log", entry(3))
    read(logs)
    os.truncate(folder / "0.log", 0)
    write(folder / "0.log", entry(4))
    read(logs)
    write(folder / "0.log", entry(5) * 3)
    assert read(logs)[-1:] == [("log-0", 5)]
