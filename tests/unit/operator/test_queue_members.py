"""Which GPUJobs and which nodes take part in gputopo's queue."""

from collections.abc import Callable
from typing import Any

import pytest

from gputopo_kube.document import Document
from gputopo_operator.decision.node_affinity import without_nodes
from gputopo_operator.decision.queue import role_of
from gputopo_operator.model.queued import QueueRole
from gputopo_operator.parse.jobs import QUEUE_LABEL
from support.operator.queue import (
    NOW,
    QueuedCluster,
    change_of,
    node,
    plain_node,
    plan,
    started,
)

LONG_AGO = "2026-01-01T00:50:00Z"


def _without_child(cluster: QueuedCluster) -> None:
    cluster.children.clear()


def _with_other_child(cluster: QueuedCluster) -> None:
    cluster.children["train"]["metadata"]["ownerReferences"] = []


def _deleting(objects: str) -> Callable[[QueuedCluster], None]:
    def change(cluster: QueuedCluster) -> None:
        getattr(cluster, objects)["train"]["metadata"]["deletionTimestamp"] = NOW

    return change


def _ended(type_: str) -> Callable[[QueuedCluster], None]:
    def change(cluster: QueuedCluster) -> None:
        cluster.children["train"]["status"] = {"conditions": [{"type": type_, "status": "True"}]}

    return change


def _finished(type_: str) -> Callable[[QueuedCluster], None]:
    def change(cluster: QueuedCluster) -> None:
        condition = {"type": type_, "status": "True", "reason": "Done", "message": ""}
        conditions = [{**condition, "lastTransitionTime": NOW}]
        cluster.jobs["train"]["status"] = {"conditions": conditions}

    return change


def _in_kueue(objects: str) -> Callable[[QueuedCluster], None]:
    def change(cluster: QueuedCluster) -> None:
        getattr(cluster, objects)["train"]["metadata"]["labels"] = {QUEUE_LABEL: "research"}

    return change


def _spec(**fields: Any) -> Callable[[QueuedCluster], None]:
    def change(cluster: QueuedCluster) -> None:
        cluster.jobs["train"]["spec"] |= fields

    return change


@pytest.mark.parametrize(
    "change",
    [
        _without_child,
        _with_other_child,
        _deleting("jobs"),
        _deleting("children"),
        _ended("Complete"),
        _finished("Complete"),
        _finished("Failed"),
        _in_kueue("jobs"),
        _in_kueue("children"),
        _spec(suspend=True),
        _spec(gpusPerReplica=0),
    ],
)
def test_job_outside_the_queue_is_left_alone(change: Callable[[QueuedCluster], None]) -> None:
    cluster = QueuedCluster(node("n1", 4))
    cluster.job("train")
    assert role_of(cluster.found().jobs[0]) is QueueRole.WAITING
    change(cluster)
    assert all(role_of(each) is QueueRole.OUTSIDE for each in cluster.found().jobs)
    found = plan(cluster)
    assert (found.starts, found.changes, found.waiting) == ((), (), 0)
    assert found.waiting_since is None


@pytest.mark.parametrize("type_", ["Complete", "Failed"])
def test_job_that_has_ended_leaves_the_queue_and_is_not_parsed_again(type_: str) -> None:
    cluster = QueuedCluster(node("n1", 4))
    cluster.job("train")
    _finished(type_)(cluster)
    _ended(type_)(cluster)
    cluster.jobs["train"]["status"]["queue"] = {"runningSince": LONG_AGO, "waitedSeconds": 3}
    (left,) = cluster.found().jobs
    assert left.child is None
    change = change_of("train", plan(cluster))
    assert change is not None
    assert change.after is not None
    queue = change.after.to_json()
    assert queue == {"waitedSeconds": 3, "ranSeconds": 600}
    cluster.jobs["train"]["status"]["queue"] = queue
    assert cluster.found().jobs == ()


def test_pods_of_jobs_under_kueue_count_as_used() -> None:
    cluster = QueuedCluster(node("n1", 1))
    cluster.start("kueue", "n1")
    cluster.children["kueue"]["metadata"]["labels"] = {QUEUE_LABEL: "research"}
    cluster.job("train")
    assert started(cluster) == []


def test_names_are_added_to_every_term_of_the_users_affinity() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}]}
    own: dict[str, Any] = {
        "podAffinity": {"kept": True},
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": ["kept"],
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [zone, name]},
        },
    }
    changed = without_nodes(own, ["n2", "n3"])
    excluded = [
        {"key": "metadata.name", "operator": "NotIn", "values": [each]} for each in ("n2", "n3")
    ]
    assert changed["podAffinity"] == {"kept": True}
    assert changed["nodeAffinity"] == {
        "preferredDuringSchedulingIgnoredDuringExecution": ["kept"],
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {**zone, "matchFields": excluded},
                {"matchFields": [*name["matchFields"], *excluded]},
            ]
        },
    }
    assert own["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": [zone, name]
    }


@pytest.mark.parametrize("empty", [{}, {"matchExpressions": [], "matchFields": None}])
@pytest.mark.parametrize("others", [[], [{"matchExpressions": [{"key": "a"}]}]])
def test_empty_term_of_the_users_affinity_still_matches_no_node(
    empty: Document, others: list[Document]
) -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    own: Document = {"nodeAffinity": {required: {"nodeSelectorTerms": [empty, *others]}}}
    (first, *rest) = without_nodes(own, ["n2"])["nodeAffinity"][required]["nodeSelectorTerms"]
    assert first == empty
    excluded = [{"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}]
    assert rest == [{**term, "matchFields": excluded} for term in others]


def queue_with_two_pools(**template: Any) -> QueuedCluster:
    """Two nodes with 4 free GPUs, of which n2 has the label pool=b, and one job with 2 GPUs."""
    cluster = QueuedCluster(node("n1", 4), node("n2", 4))
    cluster.objects = [plain_node("n1", pool="a"), plain_node("n2", pool="b")]
    cluster.job("train", 2)
    cluster.children["train"]["spec"]["template"]["spec"] |= template
    return cluster


def test_job_waits_for_a_node_that_its_node_selector_permits() -> None:
    cluster = queue_with_two_pools(nodeSelector={"pool": "b"})
    cluster.start("running", "n2", gpus=4)
    found = plan(cluster)
    assert found.starts == ()
    change = change_of("train", found)
    assert change is not None
    assert change.after is not None
    assert change.after.reason == (
        "waiting for 2 free GPUs on one node; "
        "node selector, affinity and taints permit 1 of 2 nodes"
    )
    cluster.pods.clear()
    cluster.children["running"]["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert started(cluster) == ["train"]


def test_cordoned_and_tainted_nodes_take_only_jobs_that_tolerate_the_taint() -> None:
    taint = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    tolerations = [{"key": "team", "operator": "Exists"}]
    cluster = queue_with_two_pools(nodeSelector={"pool": "b"})
    cluster.objects[1]["spec"] = {"unschedulable": True}
    assert started(cluster) == []
    cluster.objects[1]["spec"] = {"taints": [taint]}
    assert started(cluster) == []
    cluster.children["train"]["spec"]["template"]["spec"]["tolerations"] = tolerations
    assert started(cluster) == ["train"]


def test_starting_job_with_a_node_selector_uses_gpus_of_its_pool() -> None:
    cluster = queue_with_two_pools(nodeSelector={"pool": "b"})
    cluster.start("starting", gpus=4)
    cluster.children["starting"]["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a"}
    assert started(cluster) == ["train"]
    cluster.children["starting"]["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "b"}
    assert started(cluster) == []


def test_node_whose_node_object_is_unknown_takes_no_job() -> None:
    cluster = queue_with_two_pools()
    cluster.objects.clear()
    assert started(cluster) == []


def test_job_of_another_pool_is_not_kept_off_a_reserved_node_by_name() -> None:
    cluster = queue_with_two_pools(nodeSelector={"pool": "b"})
    cluster.start("running", "n1")
    cluster.job("large", 4, status={"waitingSince": LONG_AGO})
    cluster.children["large"]["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a"}
    (start,) = plan(cluster).starts
    assert (start.key.name, start.patch["spec"]) == ("train", {"suspend": False})
