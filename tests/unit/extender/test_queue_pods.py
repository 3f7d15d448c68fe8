"""Pods and nodes as kube-scheduler counts them."""

from typing import Any

import pytest

from gputopo_extender.state.cluster_queue import ClusterQueue
from gputopo_extender.state.queue_pod import parse_queue_node
from support.builders.objects import Document, avoiding, container, pod
from support.extender.nominating import node_object, queue_pod, queued

AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


def test_waiting_pod_has_its_amounts_and_its_place_in_the_queue() -> None:
    document = queued("a", 2, cpu="1500m", priority=7)
    found = queue_pod(document)
    assert found.amounts == {
        "cpu": 1500,
        "memory": 1000 * 2**30,
        "gputopo.io/gpu": 2000,
        "pods": 1000,
    }
    assert (found.priority, found.node) == (7, None)
    assert found.queued
    assert found.simple
    assert not found.tried


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {"podAffinity": {AFFINITY: [{"topologyKey": "zone"}]}}},
        {"affinity": {"podAntiAffinity": {AFFINITY: [{"topologyKey": "zone"}]}}},
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}},
        {"topologySpreadConstraints": [{"maxSkew": 1}]},
        {"resourceClaims": [{"name": "nic"}]},
        {"schedulingGroup": {"podGroupName": "g"}},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"volumes": [{"name": "v", "ephemeral": {}}]},
        {"containers": [{**container("main", 1), "ports": [{"hostPort": 80}]}]},
        {"containers": [container("main")]},
    ],
    ids=lambda spec: "-".join(str(spec).split("'")[1:4:2]),
)
def test_pod_that_more_than_amounts_and_selectors_decide_about_is_not_simple(
    spec: dict[str, Any],
) -> None:
    document = pod("a", 1)
    document["spec"].update(spec)
    assert not queue_pod(document).simple


def test_pod_with_other_volumes_and_ports_is_simple() -> None:
    volumes = [{"name": "v", "emptyDir": {}}]
    containers = [{**container("main", 1), "ports": [{"containerPort": 80}]}]
    assert queue_pod(queued("a", volumes=volumes)).simple
    document = pod("a", 1)
    document["spec"]["containers"] = containers
    assert queue_pod(document).simple
    assert not queue_pod(queued("a", annotations=avoiding(app="b"))).simple


def with_deletion(document: Document) -> Document:
    document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return document


def test_pods_that_no_scheduler_tries_now_are_not_in_the_queue() -> None:
    for document in (
        queued("a", schedulerName="default-scheduler"),
        queued("a", schedulingGates=[{"name": "g"}]),
        with_deletion(queued("a")),
        queued("a", node="n1"),
    ):
        assert not queue_pod(document).queued
    assert queue_pod(queued("a", tried=True)).tried


def test_pod_whose_gates_were_removed_waits_for_its_first_try() -> None:
    gate = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    pod_without_gates = queued("a")  # the API server keeps the condition
    pod_without_gates["status"]["conditions"] = [{"type": "Ready", "status": "False"}, gate]
    found = queue_pod(pod_without_gates)
    assert (found.queued, found.tried) == (True, False)


def test_nomination_is_ours_if_the_nominator_wrote_it_last() -> None:
    assert queue_pod(queued("a", nominated="n1")).ours
    other = queue_pod(queued("a", nominated="n1", manager="kube-scheduler"))
    assert (other.nominated, other.ours) == ("n1", False)
    assert not queue_pod(queued("a")).ours


def test_ended_pod_counts_nothing_and_an_invalid_one_what_can_be_read() -> None:
    assert queue_pod(pod("a", 1, phase="Succeeded")).amounts == {}
    document = queued("a", 0, cpu="2", affinity="none")
    del document["spec"]["affinity"]
    document["spec"]["initContainers"] = [{"image": "without a name"}]
    document["status"]["conditions"] = [{"type": "PodScheduled", "status": "False"}]
    assert (queue_pod(document).amounts["cpu"], queue_pod(document).tried) == (2000, True)


def queue_of(*nodes: Document) -> ClusterQueue:
    queue = ClusterQueue()
    queue.replace_nodes(map(parse_queue_node, nodes))
    return queue


def test_queue_is_ordered_by_priority_and_by_the_time_at_which_pods_were_first_seen() -> None:
    queue = queue_of()
    old, late = queued("old"), queued("late")
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z"
    late["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    for document in (old, queued("first", priority=5), late, queued("second", priority=5)):
        queue.put_pod(queue_pod(document))
    queue.put_pod(queue_pod(queued("bound", node="n1")))
    queue.put_pod(queue_pod(queued("first", priority=5, version=2)))
    assert [pod.key.name for pod in queue.waiting()] == ["first", "second", "old", "late"]
    listed = [queued("late"), queued("second"), queued("new"), queued("first")]
    queue.replace_pods(map(queue_pod, listed))
    names = [pod.key.name for pod in queue.waiting()]
    assert names == ["first", "late", "second", "new"], "known pods keep their place"


def test_node_has_left_what_bound_pods_do_not_use() -> None:
    queue = queue_of(node_object("n1", cpu="10"))
    waiting = queue_pod(queued("a", cpu="4"))
    queue.put_pod(queue_pod(queued("b", cpu="6", node="n1")))
    assert queue.fits(waiting, "n1", {})
    assert not queue.fits(waiting, "n1", {"cpu": 1})
    assert not queue.fits(waiting, "deleted", {})
    assert not queue.fits(queue_pod(queued("a", 0, cpu="1", memory="257Gi")), "n1", {})
    queue.put_pod(queue_pod(queued("b", cpu="7", node="n1")))
    assert not queue.fits(waiting, "n1", {})
    queue.put_pod(queue_pod({**queued("b", cpu="7", node="n1"), "status": {"phase": "Failed"}}))
    assert queue.fits(waiting, "n1", {"cpu": 6000})
    queue.put_pod(queue_pod(queued("c", cpu="10", node="n1")))
    assert not queue.fits(waiting, "n1", {})
    queue.drop_pod("uid-c")
    queue.drop_pod("uid-unknown")
    assert queue.fits(waiting, "n1", {})


def test_permitted_nodes_follow_labels_and_taints() -> None:
    hard = [{"key": "a", "effect": "NoSchedule"}]
    soft = [{"key": "a", "effect": "PreferNoSchedule"}]
    queue = queue_of(
        node_object("n1"), node_object("n2", taints=hard), node_object("n3", taints=soft)
    )
    anywhere = queue_pod(queued("a"))
    there = queue_pod(queued("a", nodeSelector={"kubernetes.io/hostname": "n4"}))
    assert queue.permitted(anywhere) == ["n1"], "kube-scheduler prefers other nodes than n3"
    assert queue.permitted(there) == []
    queue.put_node(parse_queue_node(node_object("n4")))
    queue.put_node(parse_queue_node(node_object("n1", cpu="1")))
    assert queue.permitted(there) == ["n4"]
    assert queue.permitted(anywhere) == ["n1", "n4"]
    queue.drop_node("n4")
    assert queue.permitted(there) == []


def test_lists_of_permitted_nodes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputopo_extender.state.cluster_queue._MOST_KINDS", 1)
    queue = queue_of(node_object("n1"))
    for cpu in ("1", "2", "1"):
        assert queue.permitted(queue_pod(queued("a", cpu=cpu))) == ["n1"]


def test_pods_that_are_left_on_a_node_still_count() -> None:
    queue = ClusterQueue()
    queue.put_node(parse_queue_node(node_object("n1", cpu="4")))
    for name, cpu in (("a", "3"), ("b", "1")):
        queue.put_pod(queue_pod(queued(name, 0, cpu=cpu, node="n1")))
    queue.drop_pod("uid-a")
    fits = {cpu: queue.fits(queue_pod(queued("c", 0, cpu=cpu)), "n1", {}) for cpu in "34"}
    assert fits == {"3": True, "4": False}
    queue.drop_pod("uid-b")
    assert queue.fits(queue_pod(queued("c", 0, cpu="4")), "n1", {})
