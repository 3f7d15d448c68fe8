"""The command line and a cluster, as fixtures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.api.static import StaticApi
from support.cli import healthy_cluster
from support.cli.command_line import Command, command_line
from support.cli.reachable import Serve, serving_clusters


@pytest.fixture
def gputopo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return command_line(capsys, monkeypatch)


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gputopo: Command) -> Iterator[Serve]:
    del gputopo  # it hides the machine's kubeconfig, which this fixture replaces
    with serving_clusters(tmp_path, monkeypatch) as serve:
        yield serve


@pytest.fixture
def api(serve: Serve) -> StaticApi:
    """A healthy cluster, and a kubeconfig for it."""
    return serve(healthy_cluster.installation())
