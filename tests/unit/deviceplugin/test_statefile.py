"""Files that survive a restart of the agent."""

from pathlib import Path

import pytest

from gputopo_deviceplugin.statefile import StateFile


def test_a_new_process_loads_the_document(tmp_path: Path) -> None:
    StateFile(tmp_path / "run" / "a.json").save({"b": [1, 2]})
    assert StateFile(tmp_path / "run" / "a.json").load(dict) == {"b": [1, 2]}
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["a.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff"])
def test_an_unreadable_file_counts_as_missing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    assert StateFile(tmp_path / "a.json").load(dict) is None
    assert StateFile(tmp_path / "none.json").load(dict) is None


def test_an_equal_document_is_not_written_again(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "a.json")
    file.save({"b": 1})
    (tmp_path / "a.json").unlink()
    file.save({"b": 1})
    assert file.load(dict) is None
    file.save({"b": 2})
    assert file.load(dict) == {"b": 2}


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        StateFile(tmp_path / "file" / "a.json").save({})
