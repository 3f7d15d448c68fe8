"""The command line and a cluster, as fixtures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.api import static
from support.api.kubeconfig import write_kubeconfig
from support.api.static import StaticApi
from support.cli import healthy_cluster
from support.cli.command_line import Command, command_line


@pytest.fixture
def gputopo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return command_line(capsys, monkeypatch)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gputopo: Command) -> Iterator[StaticApi]:
    """A healthy cluster, and a kubeconfig for it."""
    del gputopo  # it hides the machine's kubeconfig, which this fixture replaces
    with static.serving(healthy_cluster.installation()) as api:
        config = write_kubeconfig(tmp_path / "kubeconfig", api.url)
        monkeypatch.setenv("KUBECONFIG", str(config))
        yield api
