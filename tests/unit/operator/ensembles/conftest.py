"""An ensemble on a fake API server."""

from collections.abc import Callable
from typing import Any

import pytest

from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.ensemble_api import EnsembleApi
from gputopo_operator.controller.ensemble_reconciler import EnsembleReconciler
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.metrics import OperatorMetrics
from support.api.server import ApiServer
from support.operator.ensembles import ensemble, member
from support.operator.nodes import listed_nodes
from support.operator.queue import node, plain_node
from support.operator.served_ensemble import Served

NOW = "2026-01-01T01:00:00Z"


@pytest.fixture
def nodes(job_api: JobApi) -> NodeStore:
    return listed_nodes(job_api)


@pytest.fixture
def clock() -> Callable[[], str]:
    return lambda: NOW


@pytest.fixture
def served(
    api: ApiServer,
    connection: SyncApi,
    job_api: JobApi,
    metrics: OperatorMetrics,
    nodes: NodeStore,
    clock: Callable[[], str],
) -> Served:
    lists = EnsembleApi(connection, (), "gputopo")
    made = EnsembleReconciler(lists, job_api, nodes, metrics.ensembles, "gputopo.io/gpu", clock)
    api.create("gputopologies", node("n1", 4))
    api.create("nodes", plain_node("n1"))
    members: list[dict[str, Any]] = [
        member("a", {1: 100, 2: 190}, profile="resnet"),
        member("b", {1: 50, 2: 95}, profile="vgg"),
    ]
    api.create("gpuensembles", ensemble(*members))
    return Served(api, made, metrics)
