"""Which node cuts its pods for a pending pod."""

from typing import Any

import pytest

from gputopo.api.tuning import Amounts
from gputopo_kube.document import ObjectKey
from gputopo_kube.tuned_node import allocatable
from gputopo_operator.controller import waiting_pods
from gputopo_operator.controller.waiting_pods import AVOID_SECONDS, WAIT_SECONDS, WaitingPods
from gputopo_operator.decision.pending import choose_node
from gputopo_operator.model.workloads import NodeOffer, WaitingPod
from gputopo_operator.parse.pending import parse_offer, parse_waiting_pod
from support.builders.objects import pod
from support.tuning.api_cluster import node_object, unschedulable

GPU = "gputopo.io/gpu"


def waiting(name: str = "web", milli_cpu: int = 2000, **fields: Any) -> WaitingPod:
    values: dict[str, Any] = {
        "requests": {"cpu": milli_cpu},
        "gpus": 0,
        "spec": {},
        "priority": 0,
        "created": "2026-01-01T00:00:00Z",
    }
    return WaitingPod(f"uid-{name}", ObjectKey("default", name), **(values | fields))


def offer(name: str, free: int = 0, spare: int = 4000, memory: int = 0, **more: int) -> NodeOffer:
    node = {"metadata": {"name": name, "labels": {"zone": name}}}
    resources = {"cpu": free, "memory": 0, "pods": 10_000, **more}
    return NodeOffer(node, resources, Amounts(spare, memory))


def raw_pod(**spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "2"}}}
    document = pod("web", containers=[container])
    document["spec"] |= spec
    document["status"]["conditions"] = [unschedulable()]
    return document


class TestParsing:
    def test_pod_that_lacks_only_cpu_or_memory_is_waiting(self) -> None:
        document = raw_pod(priority=5, nodeSelector={"zone": "a"})
        document["spec"]["containers"][0]["resources"]["requests"][GPU] = "2"
        found = parse_waiting_pod(document, GPU)
        assert found is not None
        assert found.requests == {"cpu": 2000, GPU: 2000}
        assert (found.gpus, found.priority) == (2, 5)
        assert found.spec == {"nodeSelector": {"zone": "a"}}
        memory = unschedulable("0/1 nodes are available: 1 Insufficient memory.")
        document["status"]["conditions"] = [memory]
        assert parse_waiting_pod(document, GPU) is not None

    @pytest.mark.parametrize(
        "change",
        [
            {"conditions": []},
            {"conditions": [unschedulable("0/1 nodes: 1 Insufficient gputopo.io/gpu.")]},
            {"conditions": [{**unschedulable(), "message": None}]},
            {"conditions": [{**unschedulable(), "reason": "SchedulingGated"}]},
            {"nominatedNodeName": "n1"},
        ],
    )
    def test_pod_with_another_problem_is_not_waiting(self, change: dict[str, Any]) -> None:
        document = raw_pod()
        document["status"] |= change
        assert parse_waiting_pod(document, GPU) is None

    def test_pod_that_is_bound_or_deleted_or_invalid_is_not_waiting(self) -> None:
        deleted = raw_pod()
        deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert parse_waiting_pod(deleted, GPU) is None
        assert parse_waiting_pod(raw_pod(nodeName="n1"), GPU) is None
        assert parse_waiting_pod(raw_pod(containers="none"), GPU) is None

    @pytest.mark.parametrize(
        "spec",
        [
            {"resourceClaims": [{"name": "gpu"}]},
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
        ],
    )
    def test_pod_whose_nodes_depend_on_other_objects_is_not_waiting(
        self, spec: dict[str, Any]
    ) -> None:
        assert parse_waiting_pod(raw_pod(**spec), GPU) is None

    def test_offer_has_what_no_pod_requests(self) -> None:
        node = node_object(cpu=8, gpus=4)
        node["spec"] = {"taints": [{"key": "a"}], "podCIDR": "10.0.0.0/24"}
        used = allocatable({"status": {"allocatable": {"cpu": "9", GPU: "1"}}})
        found = parse_offer(node, allocatable(node), [used], Amounts(1, 2))
        assert found.free["cpu"] == -1000
        assert found.free[GPU] == 3000
        assert found.free["pods"] == 109_000
        assert found.node["spec"] == {"taints": [{"key": "a"}]}
        assert found.spare == (1, 2)


@pytest.mark.parametrize(
    ("fields", "node", "expected"),
    [
        ({}, offer("n1"), "n1"),
        ({}, offer("n1", spare=1000), None),
        ({}, offer("n1", free=2000), None),
        ({}, offer("n1", pods=0), None),
        ({"requests": {"cpu": 2000, GPU: 1000}}, offer("n1"), None),
        ({"requests": {"cpu": 2000, GPU: 1000}}, offer("n1", **{GPU: 1000}), "n1"),
        ({"requests": {"cpu": 2000, "memory": 5000}}, offer("n1", memory=4), None),
        ({"requests": {"cpu": 2000, "memory": 5000}}, offer("n1", memory=5), "n1"),
        ({"spec": {"nodeSelector": {"zone": "n2"}}}, offer("n1"), None),
        ({"requests": {}}, offer("n1"), None),
    ],
)
def test_node_must_fit_but_for_what_its_pods_can_give(
    fields: dict[str, Any], node: NodeOffer, expected: str | None
) -> None:
    assert choose_node(waiting(**fields), {"n1": node}, {}) == expected


def test_node_with_the_smallest_cut_is_chosen() -> None:
    offers = {"n1": offer("n1"), "n2": offer("n2", free=500), "n3": offer("n3", free=500)}
    assert choose_node(waiting(), offers, {}) == "n2"
    chosen = {"n2": [waiting("other", 3000)]}
    assert choose_node(waiting(), offers, chosen) == "n3"


class Time:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Time:
    return Time()


@pytest.fixture
def pods(now: Time) -> WaitingPods:
    found = WaitingPods(now)
    for name in ("n1", "n2"):
        assert found.of_node(name, offer(name)) == []
    return found


def test_one_node_makes_capacity_available_for_a_pod(pods: WaitingPods) -> None:
    assert pods.change("uid-web", waiting()) == {"n1"}
    assert pods.change("uid-web", waiting()) == set()
    assert pods.of_node("n1", offer("n1")) == [waiting()]
    assert pods.of_node("n2", offer("n2")) == []
    # The cut has made the capacity available, and the pod is not bound yet.
    assert pods.of_node("n1", offer("n1", free=2000)) == [waiting()]


def test_node_decides_again_when_its_pod_does_not_wait_any_more(pods: WaitingPods) -> None:
    pods.change("uid-web", waiting())
    assert pods.change("uid-web", None) == {"n1"}
    assert pods.change("uid-web", None) == set()
    pods.change("uid-web", waiting())
    assert pods.replace([]) == {"n1"}


def test_list_replaces_all_pods(pods: WaitingPods) -> None:
    pods.change("uid-old", waiting("old"))
    assert pods.replace([waiting(), waiting("second", 4000)]) == {"n1", "n2"}
    assert pods.replace([waiting(), waiting("second", 4000)]) == set()
    assert pods.of_node("n1", offer("n1")) == [waiting("second", 4000)]
    assert pods.of_node("n2", offer("n2")) == [waiting()]


def test_pod_without_a_node_is_offered_to_each_node_that_decides(pods: WaitingPods) -> None:
    assert pods.change("uid-web", waiting(milli_cpu=6000)) == set()
    assert pods.of_node("n2", offer("n2", spare=6000)) == [waiting(milli_cpu=6000)]


def test_most_important_pod_comes_first(pods: WaitingPods) -> None:
    old, late = waiting("old", 1000), waiting("late", 1000, created="2026-02-01T00:00:00Z")
    first = waiting("first", 1000, priority=9, created="2026-03-01T00:00:00Z")
    pods.drop("n2")
    pods.replace([late, old, first])
    assert pods.of_node("n1", offer("n1")) == [first, old, late]


def test_node_that_could_not_help_is_avoided_for_a_while(pods: WaitingPods, now: Time) -> None:
    pods.change("uid-web", waiting())
    now.seconds = WAIT_SECONDS
    assert pods.of_node("n1", offer("n1")) == []
    assert pods.of_node("n2", offer("n2")) == [waiting()]
    pods.drop("n2")
    assert pods.of_node("n1", offer("n1")) == []
    now.seconds += AVOID_SECONDS
    assert pods.of_node("n1", offer("n1")) == [waiting()]


def test_number_of_considered_pods_is_limited(
    pods: WaitingPods, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_pods, "MOST_CONSIDERED", 1)
    assert pods.change("uid-large", waiting("large", 9000)) == set()
    assert pods.change("uid-web", waiting()) == set()
    assert pods.replace([waiting("large", 9000, priority=1), waiting()]) == set()
