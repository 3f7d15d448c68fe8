"""The queue counts a GPU that several pods share once, and lets sharing jobs join it."""

import json
from typing import Any

from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from gputopo.api.shares import share_id, share_resource
from gputopo.queueing.model import JoinableGpu
from gputopo.topology.model import GpuUuid
from gputopo_kube.document import ObjectKey
from gputopo_operator.decision.queue import queue_plan
from gputopo_operator.model.queued import QueuePlan
from support.builders.objects import Document, pod
from support.operator.queue import RULES, QueuedCluster, change_of, node, started

SHARING: dict[str, Any] = {"sharing": {"mode": "Allowed"}}


def shared(document: Document, gpu: int, number: int, node_name: str = "n1") -> Document:
    """Give a pod a share of a GPU of its node."""
    device = share_id(GpuUuid(f"GPU-{node_name}-{gpu}"), number)
    annotation = {
        "uid": document["metadata"]["uid"],
        "node": node_name,
        "generation": 1,
        "containers": {"main": [device]},
    }
    document["metadata"].setdefault("annotations", {})[GPUS_ANNOTATION] = json.dumps(annotation)
    resources = {"limits": {share_resource(RESOURCE): "1"}}
    document["spec"]["containers"][0]["resources"] = resources
    return document


def start(cluster: QueuedCluster, name: str, gpu: int, number: int, **fields: Any) -> Document:
    """Add a GPUJob whose pod has a share of a GPU of n1."""
    return shared(cluster.start(name, "n1", gpus=1, **SHARING, **fields), gpu, number)


def plain(name: str, gpu: int, number: int) -> Document:
    """Return a pod without a GPUJob that has a share."""
    return shared(pod(name, 1, node="n1", phase="Running"), gpu, number)


def plan_with(cluster: QueuedCluster, **joins: list[JoinableGpu]) -> QueuePlan:
    found = cluster.found()
    keys = {ObjectKey("default", name): frozenset(gpus) for name, gpus in joins.items()}
    return queue_plan(type(found)(**{**vars_of(found), "joins": keys}), RULES)


def vars_of(found: Any) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__dataclass_fields__}


def test_jobs_on_one_gpu_count_as_one_gpu() -> None:
    cluster = QueuedCluster(node("n1", 3))
    for number in range(3):
        start(cluster, f"shares-{number}", 0, number)
    cluster.job("whole", 2)
    assert started(cluster) == ["whole"]


def test_gpu_is_used_until_the_last_pod_of_another_user_has_ended() -> None:
    cluster = QueuedCluster(node("n1", 2))
    start(cluster, "shares", 0, 0)
    cluster.pods += [plain("first", 0, 1), plain("second", 0, 2)]
    cluster.job("fits", 1)
    cluster.job("waits", 1)
    assert started(cluster) == ["fits"]
    plan = queue_plan(cluster.found(), RULES)
    change = change_of("waits", plan)
    assert change is not None
    assert change.after is not None
    assert change.after.reason == "waiting for a free GPU"
    cluster.jobs["waits"]["spec"]["gpusPerReplica"] = 2
    change = change_of("waits", queue_plan(cluster.found(), RULES))
    assert change is not None
    assert change.after is not None
    assert "no node has so many healthy GPUs" in (change.after.reason or "")


def test_share_of_a_deleted_pod_counts_until_its_process_has_ended() -> None:
    topology = node("n1", 2)
    topology["status"]["gpus"][1] |= {
        "podUID": "uid-gone",
        "shares": [{"id": "GPU-n1-1::0", "podUID": "uid-gone", "pod": "gone"}],
    }
    cluster = QueuedCluster(topology)
    cluster.job("large", 2)
    assert started(cluster) == []
    cluster.job("small", 1)
    assert started(cluster) == ["small"]


def test_node_with_a_wrong_share_offers_nothing_and_one_without_a_share_counts_a_gpu() -> None:
    cluster = QueuedCluster(node("n1", 3))
    cluster.job("two", 2)
    cluster.pods = [shared(pod("without", 1, node="n1"), 0, 0)]
    del cluster.pods[0]["metadata"]["annotations"][GPUS_ANNOTATION]
    assert started(cluster) == ["two"]
    cluster.job("three", 3, created="2025-01-01T00:00:00Z")
    assert started(cluster) == ["two"]
    cluster.pods = [shared(pod("wrong", 1, node="n1"), 0, 0)]
    cluster.pods[0]["metadata"]["annotations"][GPUS_ANNOTATION] = "{}"
    assert started(cluster) == []


def test_node_with_an_unreadable_choice_of_a_job_offers_nothing() -> None:
    cluster = QueuedCluster(node("n1", 2))
    wrong = start(cluster, "wrong", 0, 0)
    wrong["metadata"]["annotations"][GPUS_ANNOTATION] = "{}"
    cluster.job("next", 1)
    assert started(cluster) == []


def test_sharing_job_joins_a_shared_gpu_if_no_gpu_is_idle() -> None:
    cluster = QueuedCluster(node("n1", 1), node("n2", 1))
    start(cluster, "first", 0, 0)
    cluster.start("whole", "n2", gpus=1)
    for name in ("joins", "other"):
        cluster.job(name, 1, **SHARING)
    gpu = JoinableGpu("n1", "GPU-n1-0")
    plan = plan_with(cluster, joins=[gpu], other=[gpu])
    assert [each.key.name for each in plan.starts] == ["joins"]
    assert plan.starts[0].patch["spec"] == {"suspend": False}
    change = change_of("other", plan)
    assert change is not None
    assert change.after is not None
    assert change.after.reason == "waiting for a free GPU, or one that it may share"


def test_job_that_joins_is_kept_off_gpus_that_other_jobs_get() -> None:
    cluster = QueuedCluster(node("n1", 1), node("n2", 1))
    start(cluster, "first", 0, 0)
    cluster.start("unbound", gpus=1)
    cluster.job("joins", 1, **SHARING)
    (found,) = plan_with(cluster, joins=[JoinableGpu("n1", "GPU-n1-0")]).starts
    assert '"values": ["n2"]' in json.dumps(found.patch)
    assert plan_with(cluster, joins=[JoinableGpu("n3", "GPU-n3-0")]).starts == ()


def test_no_job_joins_a_gpu_of_a_reserved_node() -> None:
    cluster = QueuedCluster(node("n1", 2))
    start(cluster, "first", 0, 0)
    cluster.job("large", 2, status={"waitingSince": "2026-01-01T00:00:00Z"})
    cluster.job("joins", 1, **SHARING)
    plan = plan_with(cluster, joins=[JoinableGpu("n1", "GPU-n1-0")])
    assert plan.starts == ()
    change = change_of("joins", plan)
    assert change is not None
    assert change.after is not None
    assert "node n1 is reserved for default/large" in (change.after.reason or "")
