"""The command line and a cluster, as fixtures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import canned_api
import healthy_cluster
from canned_api import CannedApi
from command_line import Command, command_line


@pytest.fixture
def gputopo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return command_line(capsys, monkeypatch)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gputopo: Command) -> Iterator[CannedApi]:
    """A healthy cluster, and a kubeconfig for it."""
    del gputopo  # it hides the machine's kubeconfig, which this fixture replaces
    with canned_api.serving(healthy_cluster.everything()) as api:
        config = canned_api.write_kubeconfig(tmp_path / "kubeconfig", api.url)
        monkeypatch.setenv("KUBECONFIG", str(config))
        yield api
