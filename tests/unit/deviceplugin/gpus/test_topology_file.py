from pathlib import Path

import pytest

from gputopo_deviceplugin.gpus.topology_file import TopologyFile
from support.builders.topologies import node

TOPOLOGY = node(0, 1)


def test_the_topology_survives_the_agent(tmp_path: Path) -> None:
    assert TopologyFile(tmp_path / "new").load() is None
    TopologyFile(tmp_path / "new").save(TOPOLOGY)
    again = TopologyFile(tmp_path / "new").load()
    assert again is not None
    assert again.fingerprint == TOPOLOGY.fingerprint


def test_an_invalid_file_is_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "topology.json").write_text('{"gpus": [{"uuid": 3}]}')
    assert TopologyFile(tmp_path).load() is None
    assert "state file ignored" in caplog.text


def test_a_folder_that_cannot_be_written_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").write_text("a file, not a folder")
    known = TopologyFile(tmp_path / "state")
    known.save(TOPOLOGY)
    known.save(TOPOLOGY)
    assert caplog.text.count("topology not written") == 1
