"""Which pods get nominations, and for which nodes."""

from collections import Counter

import pytest

from gputopo.topology.model import GpuMask
from gputopo_cluster.usage import NodeState
from gputopo_extender.nomination.nominations import RETRY_SECONDS, UNUSED_SECONDS
from support.builders.objects import Document
from support.builders.requests import pod_view
from support.extender.ledgers import bound, decision_for
from support.extender.nominating import Cluster, queued


def cluster_of(*nodes: str) -> Cluster:
    cluster = Cluster()
    for name in nodes:
        cluster.put_node(name)
    return cluster


async def test_pods_fill_one_node_after_another_in_the_order_of_the_queue() -> None:
    cluster = cluster_of("n1", "n2")
    cluster.put(*(queued(f"p{number}", 3) for number in range(4)), queued("high", 8, priority=9))
    plan = await cluster.plan()
    assert [name for name, _ in plan] == ["high", "p0", "p1"], "p2 waits, and p3 after it"
    nodes = dict(plan)
    assert nodes["p0"] == nodes["p1"] != nodes["high"]
    assert await cluster.plan() == [], "open nominations count"


async def test_plan_ends_at_the_limit() -> None:
    cluster = cluster_of("n1")
    cluster.put(*(queued(f"p{number}") for number in range(4)))
    assert [name for name, _ in await cluster.plan(most=3)] == ["p0", "p1", "p2"]


async def test_first_pods_get_no_nominations_but_count() -> None:
    cluster = cluster_of("n1")
    cluster.put(*(queued(f"p{number}", 3) for number in range(2)), queued("a"), queued("b", 2))
    first_ones = {"uid-p0", "uid-p1"}
    plan = await cluster.plan(first_ones=first_ones)
    assert plan == [("a", "n1")], "b does not fit beside p0 and p1"
    cluster.put(queued("c"))
    assert await cluster.plan(first_ones={*first_ones, "uid-b", "uid-c"}) == []


async def test_pod_is_evaluated_as_if_earlier_pods_had_their_gpus() -> None:
    cluster = Cluster()
    cluster.put_node("linked")
    cluster.put_node("plain", "pcie-8gpu")
    sensitive = {"gputopo.io/bandwidth-sensitivity": "Sensitive", "gputopo.io/pattern": "Ring"}
    cluster.put(*(queued(f"p{number}", 4, annotations=sensitive) for number in range(3)))
    plan = dict(await cluster.plan())
    assert plan == {"p0": "linked", "p1": "linked", "p2": "plain"}


@pytest.mark.parametrize(("cpu", "memory"), [("20", "1Gi"), ("1", "80Gi")])
async def test_node_gets_no_more_nominations_than_it_has_cpus_and_memory(
    cpu: str, memory: str
) -> None:
    cluster = cluster_of("n1", "n2")
    cluster.put(queued("other", 0, node="n1", cpu=cpu, memory=memory))
    cluster.put(*(queued(f"p{number}", cpu=cpu, memory=memory) for number in range(8)))
    assert Counter(node for _, node in await cluster.plan()) == {"n1": 2, "n2": 3}


async def test_nominations_of_others_and_bindings_in_flight_count_and_stay() -> None:
    cluster = cluster_of("n1")
    preemptor = queued("preemptor", 3, nominated="n1", manager="kube-scheduler", tried=True)
    binding = queued("binding", 2, cpu="60")
    cluster.put(preemptor, binding, *(queued(f"p{number}", cpu="1") for number in range(9)))
    cluster.ledger.reservations.reserve(decision_for(binding, cluster.ledger))
    assert [name for name, _ in await cluster.plan()] == ["p0", "p1", "p2"], "3 CPUs are left"
    cluster = cluster_of("n1")
    cluster.put(preemptor, *(queued(f"p{number}") for number in range(9)))
    assert len(await cluster.plan()) == 5


async def test_pods_without_gpus_count_on_their_nominated_nodes() -> None:
    cluster = cluster_of("n1")
    cluster.put(queued("x", 0, cpu="60", nominated="n1", manager="kube-scheduler", tried=True))
    cluster.put(*(queued(f"p{number}") for number in range(9)))
    assert len(await cluster.plan()) == 4


async def test_pods_that_filter_has_placed_count() -> None:
    cluster = cluster_of("n1")
    cluster.put(queued("filtered"), *(queued(f"p{number}") for number in range(9)))
    cluster.filtered.add("uid-filtered")
    cluster.in_flight.add("uid-filtered", "n1", 6)
    assert [name for name, _ in await cluster.plan()] == ["p0", "p1"]
    assert cluster.in_flight.gpus_by_node(without={"uid-filtered"}) == {}


async def test_nominated_pod_that_fits_no_more_leaves_its_node_to_no_other_pod() -> None:
    cluster = cluster_of("n1", "n2")
    cluster.put(queued("a", 4))
    ((_, node),) = await cluster.plan()
    taker = bound("taker", 0, 1, 2, 3, 4, node=node)
    cluster.ledger.put_pod(pod_view(taker))
    cluster.put(queued("b", 1))
    assert await cluster.plan() == [("b", "n2" if node == "n1" else "n1")]


@pytest.mark.parametrize(
    "document",
    [
        queued("odd", topologySpreadConstraints=[{"maxSkew": 1}]),
        queued("odd", 0),
        queued("odd", annotations={"gputopo.io/pattern": "Spiral"}),
        queued("odd", annotations={"gputopo.io/policy": "Utility"}),
        queued("odd", 9),
    ],
    ids=["spread", "no GPUs", "invalid", "utility", "too large"],
)
async def test_no_pod_overtakes_a_pod_without_nomination(document: Document) -> None:
    cluster = cluster_of("n1")
    cluster.put(queued("a"), document, queued("b"))
    assert [name for name, _ in await cluster.plan()] == ["a"]


async def test_pods_with_a_node_of_their_own_stop_no_plan() -> None:
    cluster = cluster_of("n1")
    cluster.put(queued("users", nominated="n1", manager="kubectl"), queued("b"))
    assert [name for name, _ in await cluster.plan()] == ["b"]


async def test_tried_pod_that_may_fit_now_comes_first_for_a_while() -> None:
    cluster = cluster_of("n1")
    tried = [queued("tried", 4, tried=True), queued("other", 4, cpu="2", tried=True)]
    cluster.put(*tried, queued("b"))
    assert await cluster.plan(now=5.0) == []
    assert await cluster.plan(now=5.0 + RETRY_SECONDS) == [("b", "n1")]
    cluster.put(queued("filler", 0, cpu="63", node="n1"), queued("c", cpu="0"))
    await cluster.plan(now=20.0)
    cluster.drop("filler")
    cluster.put(queued("d"))
    assert await cluster.plan(now=21.0) == [], "both fit again"


async def test_kind_that_fitted_before_a_break_comes_first_again() -> None:
    cluster = cluster_of("n1")
    cluster.put(queued("tried", 4, tried=True), queued("b"))
    assert await cluster.plan(now=5.0) == []
    assert await cluster.plan(now=1000.0) == [], "no plan has observed it for a while"
    assert await cluster.plan(now=1000.0 + RETRY_SECONDS) == [("b", "n1")]


async def test_pod_that_kube_scheduler_does_not_try_stops_plans_for_a_limited_time() -> None:
    cluster = cluster_of("n1")
    cluster.put(queued("held", resourceClaims=[{"name": "c"}]), queued("b"))
    assert await cluster.plan(now=5.0) == []
    assert await cluster.plan(now=5.0 + UNUSED_SECONDS) == []
    assert await cluster.plan(now=6.0 + UNUSED_SECONDS) == [("b", "n1")]
    cluster.drop("held")
    await cluster.plan(now=7.0 + UNUSED_SECONDS)
    cluster.put(queued("held", resourceClaims=[{"name": "c"}]), queued("c"))
    assert await cluster.plan(now=8.0 + UNUSED_SECONDS) == [], "another pod of this name"


async def test_tried_pod_comes_first_although_filter_once_returned_nodes() -> None:
    cluster = cluster_of("n1")
    cluster.put(queued("tried", 4, tried=True), queued("b"))
    cluster.filtered.add("uid-tried")
    assert await cluster.plan() == []


async def test_tried_pod_that_does_not_fit_is_passed() -> None:
    cluster = cluster_of("n1")
    cluster.put(queued("large", 8, cpu="65", tried=True), queued("large2", 8, cpu="65", tried=True))
    cluster.put(queued("a"), queued("b"))
    assert [name for name, _ in await cluster.plan()] == ["a", "b"]


async def test_node_without_topology_gets_no_nomination() -> None:
    cluster = cluster_of("n1")
    cluster.ledger.drop_topology("n1")
    cluster.put(queued("a"), queued("users", nominated="n1", manager="kubectl"))
    assert await cluster.plan() == []


async def test_invalid_nominated_pod_counts_its_amounts_only() -> None:
    cluster = cluster_of("n1")
    invalid = {"gputopo.io/pattern": "Spiral"}
    cluster.put(queued("x", nominated="n1", manager="kubectl", annotations=invalid, cpu="60"))
    cluster.put(*(queued(f"p{number}") for number in range(9)))
    assert len(await cluster.plan()) == 4


def test_gpus_of_nominated_pods_count_as_used_on_nodes_with_topology() -> None:
    cluster = cluster_of("n1")
    taken = dict.fromkeys(("n1", "n2"), GpuMask(0b11))
    state, missing = cluster.ledger.states_beside(pod_view(queued("a")), ["n1", "n2"], taken)
    assert isinstance(state, NodeState)
    assert (state.free, missing) == (0b11111100, None)
