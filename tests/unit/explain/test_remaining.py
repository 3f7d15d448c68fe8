"""The GPUs in use are known with the time until they become free, stated or assumed."""

from math import inf

from gputopo.topology.model import indices_of
from gputopo_explain.objects import ClusterObjects
from gputopo_explain.remaining import ASSUMED, FOREVER, UNHEALTHY, RemainingUses, remaining_uses
from support.builders.live import cluster, dgx, gpu_user, kube_node
from support.builders.objects import pod, topology_object

Use = tuple[tuple[int, ...], str, float, str]


def uses(objects: ClusterObjects, assumed: float | None = None) -> list[Use]:
    found = remaining_uses(objects, assumed)
    return [
        (tuple(indices_of(each.gpus)), each.pod, each.seconds, each.source) for each in found.uses
    ]


def test_stated_ends_are_used_and_other_pods_stay_or_end_as_assumed() -> None:
    users = [
        gpu_user("deadline", "n1", 0, 2, activeDeadlineSeconds=3700),
        gpu_user("due", "n1", 2, 1, activeDeadlineSeconds=60),
        gpu_user("service", "n1", 4, 3),
    ]
    by = "spec.activeDeadlineSeconds"
    objects = cluster(users, nodes=["n1"])
    assert uses(objects) == [
        ((4, 5, 6), "default/service", inf, FOREVER),
        ((0, 1), "default/deadline", 100.0, by),
        ((2,), "default/due", 0.0, by),
    ]
    assert ((4, 5, 6), "default/service", 30.0, ASSUMED) in uses(objects, 30)


def test_expected_end_that_has_passed_is_not_used() -> None:
    deleting = gpu_user("a", "n1", 0, 1)
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T11:59:00Z"
    assert uses(cluster([deleting], nodes=["n1"]), 5) == [((0,), "default/a", 5, ASSUMED)]


def test_unhealthy_gpus_and_processes_of_deleted_pods_are_in_use() -> None:
    used_by = {1: "gone", 2: "gone"}
    topology = topology_object("n1", dgx("n1"), used_by=used_by, deleted=[1, 2], unhealthy=[0, 1])
    found = uses(cluster(topologies=[topology], nodes=["n1"]), 9)
    assert found == [((0, 1), "", inf, UNHEALTHY), ((2,), "default/gone", 9, ASSUMED)]


def test_gpu_of_two_users_is_with_the_user_that_stays_longer() -> None:
    users = [
        gpu_user("short", "n1", 0, 2, activeDeadlineSeconds=3700),
        gpu_user("long", "n1", 1, 2, activeDeadlineSeconds=7200),
        gpu_user("within", "n1", 1, 1, activeDeadlineSeconds=60),
    ]
    found = uses(cluster(users, nodes=["n1"]))
    assert [(gpus, name) for gpus, name, *_ in found] == [
        ((1, 2), "default/long"),
        ((0,), "default/short"),
    ]


def reasons(found: RemainingUses) -> dict[str, str]:
    return {node: reason.partition(":")[0] for node, reason in found.left_out.items()}


def test_nodes_on_which_no_job_can_start_are_left_out_with_the_reason() -> None:
    unmanaged = pod("unmanaged", 2, node="n2", phase="Running")
    invalid = pod("odd", 1, node="n3", phase="Running", annotations={"gputopo.io/gpus": "{"})
    names = ["n1", "n2", "n3", "n4", "n5", "n6"]
    topologies = [topology_object(name, dgx(name)) for name in names]
    topologies[3] = topology_object("n4", dgx("n4"), not_ready="Stopped")
    topologies[4] = {**topologies[4], "spec": {"gpus": 3}}
    nodes = [kube_node(name, unschedulable=name == "n1") for name in names]
    objects = cluster(
        [unmanaged, invalid, pod("waiting", 1)],
        nodes=names,
        topologies=topologies,
        kube_nodes=nodes,
    )
    found = remaining_uses(objects, None)
    assert [*found.nodes] == ["n6"]
    assert reasons(found) == {
        "n1": "the node is cordoned",
        "n2": "the agent does not yet report which GPUs other schedulers' pods use",
        "n3": "pod default/odd",
        "n4": "the node's agent is not ready",
        "n5": "its GPUTopology is unreadable",
    }
    assert found.waiting == 1
