"""A fake API server, and the operator's connection to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gputopo_kube.credentials import connected
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.metrics import OperatorMetrics
from support.api.kubeconfig import write_kubeconfig
from support.api.server import ApiServer, serving_in_thread


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """The server to which the environment of this process refers."""
    with serving_in_thread(ApiServer()) as server:
        path = write_kubeconfig(tmp_path / "kubeconfig", server.url, {"token": "secret"})
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield server


@pytest.fixture
def connection(api: ApiServer) -> Iterator[SyncApi]:  # noqa: ARG001 - sets the environment
    with connected(5.0, "test") as opened:
        yield opened


@pytest.fixture
def job_api(connection: SyncApi) -> JobApi:
    return JobApi(connection)


@pytest.fixture
def metrics() -> OperatorMetrics:
    return OperatorMetrics()
