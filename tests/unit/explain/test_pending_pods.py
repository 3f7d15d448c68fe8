"""A pending pod is explained: each node's reason, what would have to end, and how long it takes."""

from typing import Any

import pytest

from gputopo.api.names import CLAIMS_ANNOTATION
from gputopo_cluster.claims import Claim, format_claims
from gputopo_explain.objects import LiveKind
from gputopo_explain.pending.model import PendingState, PodExplanation
from gputopo_explain.pending.pods import explain_pod
from gputopo_kube.podmodel import PodError
from support.builders.live import (
    cluster,
    dgx,
    gpu_user,
    kube_node,
    owned,
    with_cpu,
)
from support.builders.objects import (
    Document,
    condition,
    container,
    container_states,
    pod,
    topology_object,
)

TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
FULL = [gpu_user("a", "n1", 0, 8), gpu_user("b", "n2", 0, 4), gpu_user("c", "n2", 4, 4)]


def waiting(gpus: int = 2, **fields: Any) -> Document:
    document = pod("waiting", gpus)
    document["spec"] |= fields
    return document


def reasons(found: PodExplanation) -> dict[str, list[str]]:
    return {group.reason: [*group.nodes] for group in found.groups}


def named_releases(found: PodExplanation) -> list[tuple[str, list[str]]]:
    return [(each.node, [it.pod for it in each.pods]) for each in found.releases]


def test_pod_that_fits_now_names_the_nodes() -> None:
    found = explain_pod(waiting(), cluster([gpu_user("a", "n1", 0, 7)]))
    assert (found.state, found.fitting) == (PendingState.FITS, ["n2"])
    assert reasons(found) == {"too few free GPUs": ["n1"]}
    assert (found.summary, found.remedy) == ("the pod fits 1 node now", None)
    tried = waiting()
    tried["status"]["conditions"] = [condition("PodScheduled", "False", "Unschedulable")]
    again = explain_pod(tried, cluster())
    assert again.summary == "the pod fits 2 nodes now"
    assert again.remedy is not None
    assert again.remedy.startswith("wait: kube-scheduler tries the pod again")


def test_pod_without_gpus_or_of_another_scheduler_is_not_placed_by_gputopo() -> None:
    without = explain_pod(pod("web", containers=[container("main")]), cluster())
    assert without.state is PendingState.NO_GPUS
    assert "no container requests gputopo.io/gpu" in without.summary
    other = explain_pod(waiting(schedulerName="volcano"), cluster())
    assert other.state is PendingState.OTHER_SCHEDULER
    assert "'volcano'" in other.summary
    assert other.remedy == "create the pod again with schedulerName: gputopo"
    default = explain_pod(waiting(schedulerName=None), cluster())
    assert "'default-scheduler'" in default.summary


def test_rejected_pod_names_the_field_and_where_to_correct_it() -> None:
    wrong = pod("waiting", 2, annotations={"gputopo.io/pattern": "Rng"})
    found = explain_pod(wrong, cluster())
    assert found.state is PendingState.REJECTED
    assert "gputopo.io/pattern" in found.summary
    assert "'Rng'" in found.summary
    assert found.remedy is not None
    assert "manifest of pod waiting" in found.remedy
    of_owner = explain_pod(owned(wrong, "ReplicaSet", "web"), cluster()).remedy
    assert of_owner is not None
    assert "pod template of the ReplicaSet web;" in of_owner
    wrong["metadata"]["labels"] = {"pod-template-hash": "5b9"}
    of_deployment = explain_pod(owned(wrong, "ReplicaSet", "web-5b9"), cluster()).remedy
    assert of_deployment is not None
    assert "pod template of the Deployment web;" in of_deployment


def test_gated_pod_names_its_gates() -> None:
    found = explain_pod(waiting(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]), cluster())
    assert found.state is PendingState.GATED
    assert "kueue.x-k8s.io/admission" in found.summary


def test_pod_with_a_claim_is_being_bound() -> None:
    claim = Claim("uid-waiting", "default", "waiting", "1", "n2", (dgx("n2").gpus[0].uuid,))
    metadata = {"name": "gputopo-claims", "annotations": format_claims([claim])}
    found = explain_pod(waiting(), cluster([waiting()], leases=[{"metadata": metadata}]))
    assert (found.state, found.summary) == (
        PendingState.BINDING,
        "the extender is binding the pod to n2 now",
    )


def test_message_of_the_scheduler_is_kept_until_the_pod_is_scheduled() -> None:
    document = waiting()
    when = "2026-01-01T00:00:00Z"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    document["status"]["conditions"] = [
        {**condition, "message": "0/2 nodes", "lastTransitionTime": when}
    ]
    message = explain_pod(document, cluster()).message
    assert message is not None
    assert (message.reason, message.message, message.since) == ("Unschedulable", "0/2 nodes", when)
    document["status"]["conditions"] = [{**condition, "status": "True"}]
    assert explain_pod(document, cluster()).message is None


def test_object_that_is_no_pod_is_rejected() -> None:
    with pytest.raises(PodError, match="metadata"):
        explain_pod({"spec": {}}, cluster())


def test_thousand_nodes_stay_readable() -> None:
    names = [f"n{number}" for number in range(1000)]
    topology = dgx("any")
    users = [gpu_user(f"u{name}", name, 0, 7, of=topology) for name in names]
    objects = cluster(
        users,
        topologies=[topology_object(name, topology) for name in names],
        kube_nodes=[kube_node(name, taints=[TAINT] if name < "n2" else ()) for name in names],
    )
    found = explain_pod(waiting(), objects)
    assert {group.reason: len(group.nodes) for group in found.groups} == {
        "too few free GPUs": 888,
        "the pod does not tolerate the taint team=a:NoSchedule": 112,
    }
    assert [group.free for group in found.groups] == [(1, 1), (1, 1)]
    assert named_releases(found) == [
        ("n2", ["default/un2"]),
        ("n20", ["default/un20"]),
        ("n200", ["default/un200"]),
    ]


def test_nodes_that_the_scheduler_excludes_have_the_reason_of_its_filter() -> None:
    objects = cluster(
        nodes=["a", "b", "c", "d", "e", "f"],
        kube_nodes=[
            kube_node("a", taints=[TAINT]),
            kube_node("b", taints=[{"key": "gpu", "effect": "NoExecute"}]),
            kube_node("c", unschedulable=True),
            kube_node("d", cpu="2"),
            kube_node("e", gpus="1"),
            kube_node("g", gpus="0"),
        ],
    )
    found = explain_pod(with_cpu(waiting(), "3"), objects)
    assert reasons(found) == {
        "the pod does not tolerate the taint team=a:NoSchedule": ["a"],
        "the pod does not tolerate the taint gpu:NoExecute": ["b"],
        "the node is cordoned (kubectl uncordon)": ["c"],
        "cpu: the pod needs 3, the node has 2 in total": ["d"],
        "gputopo.io/gpu: the pod needs 2, the node has 1 in total": ["e"],
        "the Node object does not exist": ["f"],
        "no GPUTopology": ["g"],
    }
    assert found.state is PendingState.IMPOSSIBLE
    assert found.remedy is not None
    assert "labels and taints of a node" in found.remedy


def test_node_selector_that_matches_no_node_is_named() -> None:
    found = explain_pod(waiting(nodeSelector={"zone": "a"}), cluster())
    assert reasons(found) == {
        "nodeSelector or required node affinity of the pod does not match the node": ["n1", "n2"]
    }


def test_without_nodes_only_the_gpus_are_considered() -> None:
    objects = cluster(unread={LiveKind.NODES: "no permission"})
    found = explain_pod(waiting(nodeSelector={"zone": "a"}), objects)
    assert found.fitting == ["n1", "n2"]
    assert objects.notes == [
        "nodes: no permission: kube-scheduler's own filters are not considered"
    ]


def test_permanent_misfit_names_the_largest_node_and_a_remedy() -> None:
    found = explain_pod(waiting(16), cluster())
    assert found.state is PendingState.IMPOSSIBLE
    assert found.summary == "the pod needs 16 GPUs, the largest node has 8"
    assert found.remedy == "request at most 8 GPUs in one pod, or add a larger node"
    unhealthy = [topology_object("n1", dgx("n1"), unhealthy=[0, 1])]
    found = explain_pod(waiting(8), cluster(nodes=["n1"], topologies=unhealthy))
    assert found.summary == "the pod needs 8 GPUs, no node has more than 6 healthy GPUs"
    elsewhere = waiting(8, nodeSelector={"kubernetes.io/hostname": "n1"})
    found = explain_pod(
        elsewhere, cluster(topologies=[*unhealthy, topology_object("n2", dgx("n2"))])
    )
    assert found.remedy is not None
    assert found.remedy.endswith("; `gputopo doctor` shows how to repair unhealthy GPUs")
    found = explain_pod(waiting(), cluster(topologies=()))
    assert found.summary == "the cluster has no node with a readable GPUTopology"
    assert explain_pod(waiting(), cluster(nodes=())).state is PendingState.IMPOSSIBLE


def test_smallest_set_of_pods_is_named_and_low_priority_is_preferred() -> None:
    users = [
        gpu_user("high", "n1", 0, 4, priority=100),
        gpu_user("low", "n1", 4, 4, priority=1),
        gpu_user("x", "n2", 0, 1),
        gpu_user("y", "n2", 1, 1),
        gpu_user("z", "n2", 2, 6, priority=200),
    ]
    found = explain_pod(waiting(4), cluster(users))
    assert named_releases(found) == [("n1", ["default/low"]), ("n2", ["default/z"])]
    assert found.summary == "the pod waits for 4 GPUs on one node: it fits n1 when 1 pod ends"
    two = explain_pod(waiting(8), cluster(users))
    assert named_releases(two)[0] == ("n1", ["default/high", "default/low"])
    assert two.summary.endswith("it fits n1 when 2 pods end")
    (low,) = found.releases[0].pods
    assert (low.priority, low.gpus, low.stopping, low.owner) == (1, 4, False, None)


def test_processes_of_deleted_pods_and_pods_that_stop_come_before_running_pods() -> None:
    topology = topology_object("n1", dgx("n1"), used_by={0: "gone", 1: "gone"}, deleted=[0, 1])
    deleting = gpu_user("deleting", "n1", 2, 2)
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:30Z"
    users = [deleting, gpu_user("running", "n1", 4, 4)]
    objects = cluster(users, nodes=["n1"], topologies=[topology])
    found = explain_pod(waiting(4), objects)
    (release,) = found.releases
    assert {(it.pod, it.stopping, it.priority) for it in release.pods} == {
        ("default/gone", True, None),
        ("default/deleting", True, 0),
    }
    assert found.summary == "the pod gets 4 GPUs on n1 when pods that are being deleted have ended"
    assert found.preemption is not None
    assert found.preemption.reason == "these pods are being deleted already"


@pytest.mark.parametrize("scope", [{"namespace": "default"}, {"unread": {LiveKind.PODS: "denied"}}])
def test_pods_that_were_not_read_are_not_being_deleted(scope: dict[str, Any]) -> None:
    topology = topology_object("n1", dgx("n1"), used_by={0: "other", 1: "ended"}, deleted=[1])
    for seen in topology["status"]["gpus"][:2]:
        seen["namespace"] = "team-b"
    found = explain_pod(waiting(7), cluster(nodes=["n1"], topologies=[topology], **scope))
    assert [(it.pod, it.stopping) for it in found.releases[0].pods] == [("team-b/ended", True)]
    found = explain_pod(waiting(8), cluster(nodes=["n1"], topologies=[topology], **scope))
    assert {(it.pod, it.stopping, it.priority) for it in found.releases[0].pods} == {
        ("team-b/ended", True, None),
        ("team-b/other", False, None),
    }
    assert found.summary == "the pod waits for 8 GPUs on one node: it fits n1 when 1 pod ends"
    everything = cluster(nodes=["n1"], topologies=[topology])
    assert all(it.stopping for it in explain_pod(waiting(8), everything).releases[0].pods)


def test_gpus_that_kubelet_does_not_offer_for_a_moment_count_as_gpus_of_the_node() -> None:
    users = [gpu_user("a", "n1", 0, 1), gpu_user("b", "n2", 0, 8)]
    objects = cluster(users, kube_nodes=[kube_node("n1", gpus="7"), kube_node("n2")])
    found = explain_pod(waiting(8), objects)
    assert named_releases(found) == [("n1", ["default/a"]), ("n2", ["default/b"])]


def test_gpus_that_no_agent_has_identified_become_free_when_their_pod_ends() -> None:
    unmanaged = pod("unmanaged", 8, node="n1", phase="Running")
    found = explain_pod(waiting(), cluster([unmanaged], nodes=["n1"]))
    assert named_releases(found) == [("n1", ["default/unmanaged"])]
    assert found.releases[0].pods[0].gpus == 8


def test_pod_that_has_ended_and_whose_processes_are_gone_is_not_named() -> None:
    ended = pod("ended", 2, node="n1", phase="Failed")
    ended["status"]["containerStatuses"] = container_states("terminated")
    users = [gpu_user("running", "n1", 0, 8), ended]
    assert named_releases(explain_pod(waiting(), cluster(users, nodes=["n1"]))) == [
        ("n1", ["default/running"])
    ]


def test_claimed_gpus_become_free_when_the_pod_of_the_claim_ends() -> None:
    uuids = tuple(gpu.uuid for gpu in dgx("n1").gpus)
    claims = format_claims([Claim("uid-other", "default", "other", "1", "n1", uuids)])
    lease = {"metadata": {"name": "gputopo-claims", "annotations": claims}}
    objects = cluster([pod("other", 8)], nodes=["n1"], leases=[lease])
    assert CLAIMS_ANNOTATION in claims
    assert named_releases(explain_pod(waiting(), objects)) == [("n1", ["default/other"])]


def test_pods_without_gpus_end_too_if_the_pod_needs_their_cpus() -> None:
    web = [
        with_cpu(pod(f"web-{number}", node="n1", phase="Running", containers=[container("c")]), cpu)
        for number, cpu in enumerate(("1", "20", "30"))
    ]
    odd = {"metadata": {"name": "odd", "uid": "odd"}, "spec": {"nodeName": "n1", "containers": 3}}
    users = [gpu_user("gpus", "n1", 0, 8, cpu="4"), *web, odd]
    found = explain_pod(with_cpu(waiting(), "33"), cluster(users, nodes=["n1"]))
    assert reasons(found) == {
        "too few free GPUs; cpu: the pod needs 33, less is free": ["n1"],
    }
    assert named_releases(found) == [("n1", ["default/gpus", "default/web-2"])]
    more = explain_pod(with_cpu(waiting(), "44"), cluster(users, nodes=["n1"]))
    assert named_releases(more) == [("n1", ["default/gpus", "default/web-2", "default/web-1"])]
    low = with_cpu(gpu_user("low", "n1", 0, 8, cpu="4", priority=-5), "4")
    tiny = with_cpu(pod("tiny", node="n1", phase="Running", containers=[container("c")]), "1")
    tiny["spec"]["priority"] = -7
    pruned = explain_pod(with_cpu(waiting(), "33"), cluster([low, *web, tiny], nodes=["n1"]))
    assert named_releases(pruned) == [("n1", ["default/low", "default/web-2"])]
    assert pruned.preemption is not None
    assert not pruned.preemption.helps


def test_only_pods_of_lower_priority_can_be_preempted() -> None:
    users = [gpu_user("same", "n1", 0, 4, priority=5), gpu_user("low", "n1", 4, 4, priority=4)]
    objects = cluster(users, nodes=["n1"])
    found = explain_pod(waiting(4, priority=5), objects).preemption
    assert found is not None
    assert found.helps
    assert found.release is not None
    assert [it.pod for it in found.release.pods] == ["default/low"]
    too_many = explain_pod(waiting(5, priority=5), objects).preemption
    assert too_many is not None
    assert not too_many.helps
    assert too_many.reason == "no node fits even without all pods of a priority below 5"
    never = explain_pod(waiting(4, priority=5, preemptionPolicy="Never"), objects).preemption
    assert never is not None
    assert never.reason == "spec.preemptionPolicy of the pod is Never"


def test_longest_wait_is_known_if_all_pods_have_a_deadline() -> None:
    users = [
        gpu_user("a", "n1", 0, 4, activeDeadlineSeconds=3700),
        gpu_user("b", "n1", 4, 4, activeDeadlineSeconds=7200),
    ]
    (release,) = explain_pod(waiting(8), cluster(users, nodes=["n1"])).releases
    assert (release.at_most_seconds, release.expected_seconds) == (3600, 3600)
    users[0] = gpu_user("a", "n1", 0, 4)
    (release,) = explain_pod(waiting(8), cluster(users, nodes=["n1"])).releases
    assert (release.at_most_seconds, release.expected_seconds) == (None, None)


def test_blocked_and_disconnected_nodes_have_no_pods_to_end() -> None:
    invalid = pod("odd", 1, node="n1", phase="Running", annotations={"gputopo.io/gpus": "{"})
    topologies = [
        topology_object("n1", dgx("n1")),
        topology_object("n2", dgx("n2"), not_ready="Stopped"),
        {**topology_object("n3", dgx("n3")), "spec": {}},
    ]
    objects = cluster([invalid, *FULL[1:]], nodes=["n1", "n2", "n3"], topologies=topologies)
    found = explain_pod(waiting(), objects)
    assert found.state is PendingState.WAITING
    assert not found.releases
    assert found.summary.startswith("no node has 2 GPUs for the pod now: too few free GPUs")
    assert any("its GPU annotation cannot be parsed" in text for text in reasons(found))


def test_rules_that_are_not_considered_are_named() -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]
    found = explain_pod(waiting(volumes=volumes, resourceClaims=[{"name": "c"}]), cluster())
    assert found.unchecked == ["nodes of its volumes", "resource claims"]
