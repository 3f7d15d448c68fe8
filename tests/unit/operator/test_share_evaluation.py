"""Which shared GPUs the queue lets a job join: those that the extender would choose."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from gputopo.api.names import AVOID_ANNOTATION, GPUS_ANNOTATION, RESOURCE
from gputopo.api.shares import share_id
from gputopo.sharing.policy import SharingPolicy, Unknown
from gputopo.topology.model import GpuUuid
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.job_queue_api import JobQueueApi
from gputopo_operator.controller.job_queue_starter import JobQueueStarter
from gputopo_operator.controller.share_evaluation import ShareEvaluation
from gputopo_operator.metrics import OperatorMetrics
from support.api.server import ApiServer
from support.builders.objects import Document
from support.builders.shares import sharing_pod, sharing_topology
from support.builders.sharing_facts import pairs
from support.builders.topologies import node as small_node
from support.operator.nodes import stored_nodes
from support.operator.queue import NOW, RULES, QueuedCluster, plain_node

TOPOLOGY = small_node(0, 1, name="n1")
FIRST, SECOND = (gpu.uuid for gpu in TOPOLOGY.gpus)
SHARING: dict[str, Any] = {"sharing": {"mode": "Allowed"}}


def job(cluster: QueuedCluster, name: str, workload: str, **spec: Any) -> None:
    """Add a waiting GPUJob that may share its GPU."""
    cluster.job(name, 1, **{**SHARING, "workload": {"profile": workload}, **spec})


def running(name: str, workload: str, uuid: GpuUuid, number: int = 0, **fields: Any) -> Document:
    share = share_id(uuid, number)
    return sharing_pod(name, workload, share=share, node="n1", phase="Running", **fields)


def evaluation(policy: SharingPolicy | None = None) -> ShareEvaluation:
    found = ShareEvaluation(policy or SharingPolicy.of(), RESOURCE)
    found.profiles.replace_all(pairs(model=TOPOLOGY.gpus[0].model))
    return found


def joins(
    cluster: QueuedCluster,
    pods: Iterable[Document],
    found: ShareEvaluation | None = None,
    node: Document | None = None,
) -> Mapping[str, set[str]]:
    """Return the UUIDs of the GPUs that each job may join, by name of the job."""
    cluster.nodes, cluster.pods = [node or sharing_topology("n1", TOPOLOGY)], [*pods]
    state = cluster.found()
    by_key = (found or evaluation()).joins(state.jobs, state.pods, state.cluster)
    return {key.name: {each.gpu for each in gpus} for key, gpus in by_key.items()}


def test_job_may_join_pods_beside_which_it_gains() -> None:
    cluster = QueuedCluster()
    for name in "abcd":
        job(cluster, f"new-{name}", name)
    pods = [running("x", "b", FIRST), running("y", "c", SECOND)]
    nothing: set[str] = set()
    expected = {"new-a": {FIRST}, "new-b": nothing, "new-c": nothing, "new-d": nothing}
    assert joins(cluster, pods) == expected
    policy = SharingPolicy.of(unknown=Unknown.TRY)
    assert joins(cluster, pods, evaluation(policy))["new-d"] == {FIRST, SECOND}


def test_only_sharing_jobs_without_a_bound_pod_are_evaluated() -> None:
    cluster = QueuedCluster()
    cluster.job("whole", 1, workload={"profile": "a"})
    job(cluster, "suspended", "a", suspend=True)
    job(cluster, "invalid", "a")
    cluster.children["invalid"]["spec"]["template"]["spec"]["containers"] = "none"
    job(cluster, "childless", "a")
    del cluster.children["childless"]
    job(cluster, "started", "a")
    cluster.start("started")
    job(cluster, "runs", "a")
    pod = cluster.start("runs", "n1")
    unbound = sharing_pod("unbound", "a")
    pods = [running("x", "b", FIRST), pod, unbound, {"metadata": {}}]
    assert joins(cluster, pods) == {"started": {FIRST}}
    job(cluster, "equal", "a")
    assert joins(cluster, pods) == {"started": {FIRST}, "equal": {FIRST}}
    ended = running("x", "b", FIRST)
    ended["status"]["phase"] = "Succeeded"
    assert joins(cluster, [ended, pod]) == {"started": set(), "equal": set()}


@pytest.mark.parametrize(
    "fields",
    [
        {"most_pods": 0},
        {"most_pods": 1},
        {"faults": {0: "MPS is in state Fault"}},
        {"unhealthy": [0]},
    ],
    ids=["no shares", "most pods", "not ready", "unhealthy"],
)
def test_gpu_that_takes_no_sharing_pods_is_left_out(fields: dict[str, Any]) -> None:
    cluster = QueuedCluster()
    job(cluster, "new", "a")
    node = sharing_topology("n1", TOPOLOGY, **fields)
    assert joins(cluster, [running("x", "b", FIRST)], node=node) == {"new": set()}


def test_node_with_an_unreadable_object_is_left_out() -> None:
    cluster = QueuedCluster()
    job(cluster, "new", "a")
    pods = [running("x", "b", FIRST)]
    unreadable = {"metadata": {"name": "n1"}, "spec": {"gpus": 3}}
    assert joins(cluster, pods, node=unreadable) == {"new": set()}
    broken = running("y", "b", SECOND)
    broken["metadata"]["annotations"][GPUS_ANNOTATION] = "{}"
    assert joins(cluster, [*pods, broken]) == {"new": set()}


def test_gpu_beside_pods_to_avoid_is_left_out() -> None:
    cluster = QueuedCluster()
    job(cluster, "new", "a")
    template = cluster.children["new"]["spec"]["template"]
    template["metadata"]["labels"]["app"] = "new"
    rule = '[{"matchLabels": {"app": "new"}}]'
    for annotations, expected in (({}, {FIRST}), ({AVOID_ANNOTATION: rule}, set[str]())):
        pods = [running("x", "b", FIRST, annotations=annotations)]
        assert joins(cluster, pods) == {"new": expected}


def test_facts_are_evaluated_again_only_if_they_have_changed() -> None:
    found = evaluation()
    before = found._known()
    assert found._known() is before
    found.profiles.drop(pairs()[0])
    assert found._known() is not before
    assert "default/a" not in found._known().profiles


def test_starter_starts_a_job_that_may_join(
    api: ApiServer, connection: SyncApi, metrics: OperatorMetrics
) -> None:
    cluster = QueuedCluster()
    job(cluster, "new", "a")
    job(cluster, "loses", "c")
    pods = [running("x", "b", FIRST), running("y", "c", SECOND)]
    for plural, documents in (
        ("gpujobs", cluster.jobs.values()),
        ("jobs", cluster.children.values()),
        ("pods", pods),
    ):
        for document in documents:
            api.put(plural, document)
    nodes = stored_nodes([sharing_topology("n1", TOPOLOGY)], [plain_node("n1")])
    starter = JobQueueStarter(
        *(JobQueueApi(connection, (), "gputopo"), JobApi(connection), nodes, metrics, RULES),
        *(RESOURCE, lambda: NOW),
        joins=evaluation().joins,
    )
    starter.advance("queue")
    suspended = {each["metadata"]["name"]: each["spec"]["suspend"] for each in api.all("jobs")}
    assert suspended == {"new": False, "loses": True}
    assert joins(cluster, pods)["new"] == {FIRST}
