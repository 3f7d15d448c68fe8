"""Faults are kept until they are acknowledged, old, or too many."""

from pathlib import Path

import pytest

from gputopo_mps.faults import FaultStore


def test_they_survive_a_restart_until_they_are_acknowledged_or_old(tmp_path: Path) -> None:
    path, now = tmp_path / "faults.json", 1_000_000.0
    store = FaultStore(path, 100, lambda: now)
    first = store.add("GPU-1", "b", ["a"], "text")
    assert (first.cause_pod_uid, first.pod_uids, first.at) == (
        "b",
        ("a", "b"),
        "1970-01-12T13:46:40Z",
    )
    second = store.add("GPU-1", None, ["a"], "text")
    store = FaultStore(path, 100, lambda: now)
    assert store.all() == [first, second]
    assert store.acknowledge(first.id)
    assert not store.acknowledge(first.id)
    now += 101
    assert FaultStore(path, 100, lambda: now).all() == []


def test_the_newest_are_kept(tmp_path: Path) -> None:
    store = FaultStore(tmp_path / "faults.json", 100)
    for number in range(101):
        store.add("GPU-1", None, [str(number)], "text")
    kept = store.all()
    assert (len(kept), kept[0].pod_uids) == (100, ("1",))


@pytest.mark.parametrize("text", ["[", "[1]", '{"a": 1}'])
def test_a_file_that_is_not_valid_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    path = tmp_path / "faults.json"
    path.write_text(text)
    assert FaultStore(path, 100).all() == []
    assert "file ignored" in caplog.text


def test_a_fault_that_cannot_be_written_is_kept_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FaultStore(tmp_path / "none" / "faults.json", 100)
    fault = store.add("GPU-1", None, ["a"], "text")
    assert store.all() == [fault]
    assert "faults not stored" in caplog.text
