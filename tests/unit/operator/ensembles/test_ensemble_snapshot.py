"""Decisions about many ensembles share what was read, until an object of an ensemble changes."""

import copy

import pytest

from gputopo_kube.document import ObjectKey
from gputopo_kube.errors import DeniedError
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.ensemble_api import EnsembleApi
from gputopo_operator.controller.ensemble_reconciler import EnsembleReconciler
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.metrics import OperatorMetrics
from support.api.faults import Hook
from support.api.server import ApiServer
from support.operator.ensembles import ensemble, member
from support.operator.nodes import listed_nodes
from support.operator.queue import node, plain_node

NUMBER = 10
LISTS = ("pods", "jobs", "gpujobs", "gpuensembles")


@pytest.fixture
def reconciler(
    api: ApiServer, connection: SyncApi, job_api: JobApi, metrics: OperatorMetrics
) -> EnsembleReconciler:
    lists = EnsembleApi(connection, (), "gputopo")
    api.put("gputopologies", node("n1", 4))
    api.put("nodes", plain_node("n1"))
    for index in range(NUMBER):
        raw = copy.deepcopy(ensemble(member("a", {4: 100})))
        raw["metadata"] |= {"name": f"search-{index}", "uid": f"uid-{index}"}
        api.put("gpuensembles", raw)
    return EnsembleReconciler(
        *(lists, job_api, listed_nodes(job_api), metrics.ensembles, "gputopo.io/gpu"),
        shared_seconds=3600,
    )


def reconcile_all(reconciler: EnsembleReconciler) -> None:
    for index in range(NUMBER):
        reconciler.reconcile(ObjectKey("default", f"search-{index}"))


def lists_of(api: ApiServer) -> list[int]:
    return [api.lists(plural) for plural in LISTS]


def test_decisions_without_changes_share_the_lists(
    api: ApiServer, reconciler: EnsembleReconciler
) -> None:
    reconcile_all(reconciler)
    assert lists_of(api) == [2] * 4, "the first decision writes, so the next one reads again"
    reconcile_all(reconciler)
    assert lists_of(api) == [2] * 4
    reconciler.expire()
    reconcile_all(reconciler)
    assert lists_of(api) == [3] * 4


def test_no_two_ensembles_get_the_same_gpus(api: ApiServer, reconciler: EnsembleReconciler) -> None:
    reconcile_all(reconciler)
    reconcile_all(reconciler)
    assert len(api.all("gpujobs")) == 1


def test_lists_that_were_read_during_a_change_are_not_shared(
    api: ApiServer, reconciler: EnsembleReconciler
) -> None:
    reconcile_all(reconciler)
    reconciler.expire()
    api.hooks.append(Hook("GET", "/gpujobs", reconciler.expire))
    before = api.lists("gpujobs")
    for index in range(2):
        reconciler.reconcile(ObjectKey("default", f"search-{index}"))
    assert api.lists("gpujobs") == before + 2


def test_no_ensemble_is_planned_before_the_nodes_were_read(
    api: ApiServer, connection: SyncApi, job_api: JobApi, metrics: OperatorMetrics
) -> None:
    nodes = NodeStore()
    nodes.reports.replace_all([node("n1", 4)])
    lists = EnsembleApi(connection, (), "gputopo")
    found = EnsembleReconciler(lists, job_api, nodes, metrics.ensembles, "gputopo.io/gpu")
    api.put("gpuensembles", ensemble(member("a", {4: 100})))
    with pytest.raises(DeniedError, match="the Nodes were not read"):
        found.reconcile(ObjectKey("default", "search"))
    assert not api.writes
