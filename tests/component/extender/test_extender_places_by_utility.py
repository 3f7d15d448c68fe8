"""Pods with the policy Utility: placement, record, replay, node scores and rejections."""

import json
from typing import Any

import pytest

from gputopo.api.names import PLACEMENT_ANNOTATION
from gputopo.catalogue import named
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_explain.placed.recorded import recorded_placement
from gputopo_explain.placed.replay import ReplayVerdict, replay
from gputopo_kube.pods import parse_pod
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.node_reports import beside, learnt_profile
from support.builders.objects import Document, pod, topology_object
from support.extender.service import Start

NODES = ["n1", "n2", "n3"]


def by_utility(name: str, gpus: int, **values: str) -> Document:
    annotations = {f"gputopo.io/{key.replace('_', '-')}": value for key, value in values.items()}
    return pod(name, gpus, annotations={"gputopo.io/policy": "Utility", **annotations})


def placement_of(document: Document) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(document["metadata"]["annotations"][PLACEMENT_ANNOTATION])
    return found


def put_nodes(api: ApiServer) -> None:
    """Add a node n3 like n2, which has no NVLinks; n1 has NVLinks."""
    api.put(TOPOLOGIES, topology_object("n3", named("pcie-8gpu", node="n3")))


async def test_placement_by_utility_is_recorded_and_replayed(start: Start, api: ApiServer) -> None:
    put_nodes(api)
    job = by_utility("job", 2, min_utility_percent="30")
    api.put(PODS, job)
    async with start(utility_weights="50,40,10") as extender:
        assert await extender.scheduler().schedule(job, NODES) == "n1"
    placed = api.pod("job")
    figures = placement_of(placed)
    assert figures["policy"] == "Utility"
    assert figures["utility"] == {
        "utilityPermille": 934,
        "jobUtilityPermille": 1000,
        "communicationPermille": 1000,
        "interferencePermille": 1000,
        "sufferedPermille": 1000,
        "fragmentationPermille": 340,
    }
    recorded = figures["replay"]["utility"]
    assert (recorded["weights"], recorded["minimumPercent"]) == ([50, 40, 10], 30)
    topology = api.get(TOPOLOGIES, "n1", "")
    assert topology is not None
    recorded_pod = recorded_placement(parse_pod(placed, "gputopo.io/gpu"))
    again = replay(recorded_pod, parse_gpu_node(topology))
    assert again.verdict is ReplayVerdict.SAME, again.reasons


async def test_nodes_are_ranked_by_utility(start: Start, api: ApiServer) -> None:
    """The idle node n1 has better links than n3. n2 is like n3 and has a socket in use."""
    put_nodes(api)
    first, job = by_utility("first", 2), by_utility("job", 2)
    api.put(PODS, first)
    api.put(PODS, job)
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.schedule(first, ["n2"]) == "n2"
        scores = await scheduler.prioritize(job, NODES)
    assert scores["n2"] == 10
    assert scores["n2"] > scores["n1"] > scores["n3"]


@pytest.mark.parametrize("known", [False, True], ids=["unknown slowdown", "known slowdown"])
async def test_pod_avoids_the_socket_of_a_workload_that_slows_it_down(
    start: Start, api: ApiServer, *, known: bool
) -> None:
    """Without the slowdown, the pod fills the socket of the noisy pod."""
    noisy = pod("noisy", 1, annotations={"gputopo.io/profile": "noisy"})
    job = by_utility("job", 1, profile="own")
    if known:
        api.put("gpuprofiles", learnt_profile("own", beside("default/noisy", 30)))
    async with start(utility_weights="0,90,10") as extender:
        await extender.profiled()
        for document in (noisy, job):
            api.put(PODS, document)
            assert await extender.scheduler().schedule(document, ["n1"]) == "n1"
    figures = placement_of(api.pod("job"))
    [gpu] = figures["replay"]["gpus"]
    [taken] = placement_of(api.pod("noisy"))["replay"]["gpus"]
    assert (gpu // 4 != taken // 4) is known
    neighbours = figures["replay"]["utility"].get("neighbours", [])
    assert [each["workload"] for each in neighbours] == ["default/noisy"] * known
    assert figures["utility"]["sufferedPermille"] == 1000


async def test_default_policy_of_the_installation_can_be_utility(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("job", 2))
    async with start(default_policy="Utility") as extender:
        assert await extender.scheduler().schedule(pod("job", 2), NODES) == "n1"
    figures = placement_of(api.pod("job"))
    assert figures["policy"] == "Utility"
    assert figures["replay"]["policyFrom"] == "Installation"


async def test_victims_on_the_better_node_are_preferred(start: Start, api: ApiServer) -> None:
    put_nodes(api)
    full = {"n1": pod("full-1", 8), "n3": pod("full-2", 8)}
    async with start() as extender:
        for node, victim in full.items():
            api.put(PODS, victim)
            assert await extender.scheduler().schedule(victim, [node]) == node
    job = by_utility("job", 2)
    api.put(PODS, job)
    async with start() as extender:
        chosen = await extender.scheduler().preempt(
            job, {node: [victim] for node, victim in full.items()}
        )
    assert [*chosen] == ["n1"]


async def test_wrong_least_utility_is_rejected_on_every_node(start: Start, api: ApiServer) -> None:
    job = by_utility("job", 2, min_utility_percent="130")
    api.put(PODS, job)
    async with start() as extender:
        found = await extender.scheduler().filter(job, NODES)
    assert found.fits == []
    assert {*found.unresolvable.values()} == {
        "gputopo.io/min-utility-percent: '130' is not a whole number from 0 to 100"
    }
