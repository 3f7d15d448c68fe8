"""Helm, and a real API server with the chart on it: built once, cached outside the clone.

``GPUTOPO_KUBERNETES`` chooses the version of Kubernetes, as `tools/cluster up --kubernetes` does.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster import binaries, releases
from localcluster.progress import Progress
from localcluster.settings import current_paths
from support.chart_values import EVERYTHING
from support.control_plane import api_server
from support.control_plane.api_server import PODS, ApiServer
from support.control_plane.scheduler_pairs import put_nodes
from support.features import MUTATING_POLICIES, why_skipped
from support.helm_chart import Helm, Object


@pytest.fixture(scope="session")
def kubernetes_binaries() -> Path:
    requested = os.environ.get("GPUTOPO_KUBERNETES")
    release = releases.choose(requested, None, releases.supported())
    return binaries.ensure(release, current_paths(), Progress())


@pytest.fixture(scope="session")
def helm(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(kubernetes_binaries / "helm", tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def bare_server(
    kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    with api_server.running(kubernetes_binaries, tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="session")
def server(bare_server: ApiServer, helm: Helm) -> ApiServer:
    """The API server with the chart, the page included, installed and its policies at work."""
    helm.install(bare_server.kubeconfig, {"web": {"enabled": True}})
    api_server.wait_for_policies(bare_server)
    return bare_server


@pytest.fixture(scope="session")
def mutating_policies(server: ApiServer) -> ApiServer:
    """The server with the chart; tests are skipped if it has no MutatingAdmissionPolicies."""
    if not server.serves(MUTATING_POLICIES):
        version = server.get("/version").body["gitVersion"]
        pytest.skip(why_skipped(version, MUTATING_POLICIES, served=False))
    return server


@pytest.fixture(scope="session")
def server_with_nodes(
    kubernetes_binaries: Path, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """Another API server with the chart, and with six nodes that schedulers can bind pods to."""
    folder = tmp_path_factory.mktemp("nodes")
    with api_server.running(kubernetes_binaries, folder) as server:
        helm.install(server.kubeconfig)
        api_server.wait_for_policies(server)
        put_nodes(server, 6)
        yield server


@pytest.fixture
def nodes(server_with_nodes: ApiServer) -> ApiServer:
    """The server with six nodes, all GPUs free: no pod of an earlier test is left."""
    for pod in server_with_nodes.get(PODS).body["items"]:
        server_with_nodes.delete(f"{PODS}/{pod['metadata']['name']}")
    assert not server_with_nodes.get(PODS).body["items"]
    return server_with_nodes


@pytest.fixture(scope="module")
def objects(helm: Helm) -> list[Object]:
    """The chart with default values."""
    return helm.render()


@pytest.fixture(scope="module")
def everything(helm: Helm) -> list[Object]:
    """The chart with all optional objects."""
    return helm.render(EVERYTHING)
