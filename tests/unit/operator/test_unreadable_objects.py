"""One object with impossible values never stops the others, and it is reported."""

from typing import Any

import pytest

from gputopo.queueing.model import QueueOrder, QueueRules
from gputopo_kube.document import ObjectKey
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.job_queue_api import JobQueueApi
from gputopo_operator.controller.job_queue_starter import JobQueueStarter
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.reconciler import Reconciler
from gputopo_operator.metrics import OperatorMetrics
from gputopo_operator.model.jobs import PodDefaults
from support.api.server import ApiServer
from support.builders.gpujobs import Document, gpu_job
from support.operator.nodes import stored_nodes
from support.operator.queue import QueuedCluster, node, plain_node

NOW = "2026-01-01T01:00:00Z"
IMPOSSIBLE = "2026-99-99T99:99:99Z"
GPU = "gputopo.io/gpu"
MOST = 2**63 - 1

STATUSES: dict[str, Document] = {
    "waitingSince": {"queue": {"waitingSince": IMPOSSIBLE, "position": 1}},
    "waitingSince in year 0": {"queue": {"waitingSince": "0000-01-01T00:00:00Z"}},
    "runningSince": {"queue": {"runningSince": IMPOSSIBLE}},
    "largest numbers": {
        "queue": {"ranSeconds": MOST, "waitedSeconds": MOST, "waitingSince": NOW, "position": MOST}
    },
    "conditions": {"conditions": [{"type": "Complete", "status": "Maybe"}]},
    "no list": {"conditions": {"type": "Complete"}},
    "text for an object": {"queue": "waiting", "placements": "n1"},
}


def starter_of(connection: SyncApi, nodes: NodeStore) -> JobQueueStarter:
    rules = QueueRules(QueueOrder.FIFO, 600)
    lists = JobQueueApi(connection, (), "gputopo")
    writer, metrics = JobApi(connection), OperatorMetrics()
    return JobQueueStarter(lists, writer, nodes, metrics, rules, GPU, lambda: NOW)


def put(api: ApiServer, cluster: QueuedCluster) -> None:
    for plural, found in (
        ("gpujobs", cluster.jobs.values()),
        ("jobs", cluster.children.values()),
        ("pods", cluster.pods),
        ("priorityclasses", cluster.classes),
    ):
        for document in found:
            api.put(plural, document)


def nodes_of(*topologies: Document, objects: tuple[Document, ...] = ()) -> NodeStore:
    return stored_nodes([node("n1", 4), *topologies], [plain_node("n1"), *objects])


def started(api: ApiServer, name: str) -> bool:
    child = api.get("jobs", name)
    assert child is not None
    return not child["spec"]["suspend"]


@pytest.mark.parametrize("kind", STATUSES)
@pytest.mark.parametrize("role", ["waiting", "started"])
def test_queue_goes_on_beside_a_job_with_an_impossible_status(
    api: ApiServer, connection: SyncApi, kind: str, role: str
) -> None:
    cluster = QueuedCluster()
    cluster.job("bad", 1)
    if role == "started":
        cluster.start("bad", "n1")
    cluster.jobs["bad"]["status"] = STATUSES[kind]
    cluster.job("good", 1, created="2026-01-01T00:00:01Z")
    put(api, cluster)
    starter_of(connection, nodes_of()).advance("queue")
    assert started(api, "good")
    assert started(api, "bad") or kind == "no list"


@pytest.mark.parametrize("kind", STATUSES)
def test_impossible_status_is_reported_once_and_replaced(
    api: ApiServer, job_api: JobApi, metrics: OperatorMetrics, kind: str
) -> None:
    api.create("gpujobs", gpu_job("train"))
    api.change("gpujobs", "train", lambda job: job.update(status=STATUSES[kind]))
    reconciler = Reconciler(job_api, NodeStore(), PodDefaults(), metrics, queued=True)
    for _ in range(3):
        reconciler.reconcile(ObjectKey("default", "train"))
    job = api.get("gpujobs", "train")
    assert job is not None
    assert job["status"]["phase"] == "Queued"
    assert {each["type"] for each in job["status"]["conditions"]} >= {"Accepted", "Complete"}
    reasons = [each["reason"] for each in api.all("events")]
    valid = kind == "largest numbers"
    assert reasons.count("StatusInvalid") == (0 if valid else 1)


BAD_TEMPLATES: dict[str, Document] = {
    "affinity": {"affinity": {"nodeAffinity": {}}},
    "class": {"priorityClassName": "unknown"},
    "selector": {"nodeSelector": {"a": "b" * 63}},
    "no containers": {"containers": []},
}


@pytest.mark.parametrize("part", ["status", "metadata", "template", *BAD_TEMPLATES])
def test_queue_goes_on_beside_an_unreadable_child_job(
    api: ApiServer, connection: SyncApi, part: str
) -> None:
    cluster = QueuedCluster()
    cluster.job("bad", 1)
    child = cluster.children["bad"]
    if part == "status":
        child["status"] = {"startTime": "0000-01-01T00:00:00Z", "conditions": [{"type": "Failed"}]}
        child["spec"]["suspend"] = False
    elif part == "metadata":
        del child["spec"]["backoffLimit"]
    elif part == "template":
        del child["spec"]["template"]
    else:
        child["spec"]["template"]["spec"] |= BAD_TEMPLATES[part]
    cluster.job("good", 1, created="2026-01-01T00:00:01Z")
    put(api, cluster)
    starter_of(connection, nodes_of()).advance("queue")
    assert started(api, "good")


def bad_pods() -> dict[str, Document]:
    def pod(name: str, **parts: Any) -> Document:
        cluster = QueuedCluster()
        made = cluster.start(name, "n1")
        return {
            key: {**made.get(key, {}), **value}
            for key, value in {**made, **parts}.items()
            if isinstance(value, dict)
        }

    return {
        "year 0": pod("a", status={"startTime": "0000-01-01T00:00:00Z", "phase": "Running"}),
        "no containers": pod("b", spec={"containers": None}),
        "annotations": pod("c", metadata={"annotations": {"gputopo.io/gpus": "x" * 9000}}),
        "labels": pod("d", metadata={"labels": {"gputopo.io/gpujob": ""}}),
    }


@pytest.mark.parametrize("kind", bad_pods())
def test_queue_goes_on_beside_an_unreadable_pod(
    api: ApiServer, connection: SyncApi, kind: str
) -> None:
    cluster = QueuedCluster()
    cluster.pods.append(bad_pods()[kind])
    cluster.job("good", 1)
    put(api, cluster)
    # n1 offers no GPU while it is unknown which of them the pod uses.
    nodes = nodes_of(node("n2", 4), objects=(plain_node("n2"),))
    starter_of(connection, nodes).advance("queue")
    assert started(api, "good")


BAD_NODES: dict[str, tuple[Document, Document]] = {
    "topology": (
        {"metadata": {"name": "n2"}, "status": {"gpus": [{"uuid": 7}], "conditions": "x"}},
        plain_node("n2"),
    ),
    "status": ({"metadata": {"name": "n2"}, "status": ["gpus"]}, plain_node("n2")),
    "node spec": (node("n2", 4), {"metadata": {"name": "n2"}, "spec": "none"}),
}


@pytest.mark.parametrize("kind", BAD_NODES)
def test_queue_goes_on_beside_an_unreadable_node(
    api: ApiServer, connection: SyncApi, kind: str
) -> None:
    cluster = QueuedCluster()
    cluster.job("good", 1)
    put(api, cluster)
    topology, bad = BAD_NODES[kind]
    starter_of(connection, nodes_of(topology, objects=(bad,))).advance("queue")
    assert started(api, "good")


@pytest.mark.parametrize(
    "bad", [{"metadata": {"name": "bad"}}, {"metadata": {"name": "b"}, "value": "x"}]
)
def test_queue_goes_on_beside_an_unreadable_priority_class(
    api: ApiServer, connection: SyncApi, bad: Document
) -> None:
    cluster = QueuedCluster()
    cluster.classes = [bad, {"metadata": {"name": "high"}, "value": 9}]
    cluster.job("low", 4)
    cluster.job("good", 4, created="2026-01-01T00:00:01Z", priorityClassName="high")
    put(api, cluster)
    starter_of(connection, nodes_of()).advance("queue")
    assert (started(api, "good"), started(api, "low")) == (True, False)
