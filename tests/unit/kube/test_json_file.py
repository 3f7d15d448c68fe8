"""Files that survive a restart of a component."""

from pathlib import Path

import pytest

from gputopo_kube.json_file import read_json, write_json


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'["a"]'])
def test_a_file_that_is_not_valid_counts_as_missing(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.json"
    assert read_json(path, dict) is None
    assert caplog.text == ""
    path.write_bytes(content)
    assert read_json(path, dict) is None
    assert "state file ignored" in caplog.text


def test_a_document_does_not_follow_a_link(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_json(path, [1])
    assert read_json(path, list) == [1]
    (tmp_path / ".state.json.new").symlink_to("/dev/null")
    with pytest.raises(OSError, match="symbolic links"):
        write_json(path, [2])
    assert read_json(path, list) == [1]
