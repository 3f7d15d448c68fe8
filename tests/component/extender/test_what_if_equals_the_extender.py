"""The found to a what-if question is what the real extender then decides, in random clusters."""

from copy import deepcopy
from datetime import UTC, datetime
from random import Random

import pytest

from gputopo.api.names import MIN_UTILITY_ANNOTATION
from gputopo_explain.objects import ClusterObjects, LiveKind
from gputopo_explain.pending.model import PendingState
from gputopo_explain.whatif import place_live
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.clusters import random_lists
from support.builders.live import installed
from support.builders.node_reports import beside, learnt_profile
from support.builders.objects import Document, at_version, pod
from support.extender.service import Start, uuids_of

PATTERNS = ("Ring", "AllToAll", "Chain")
WORKLOADS = ("quiet", "noisy", "large")
PROFILES = "gpuprofiles"
PODS_PER_CLUSTER = 5
LONG_AGO = "2026-01-01T00:00:00Z"


def fill(api: ApiServer, chance: Random, nodes: int = 6) -> None:
    """Put random nodes and pods in place of those of the fixture; CPUs differ between nodes."""
    for name in ("n1", "n2"):
        api.delete(TOPOLOGIES, name)
    lists = random_lists(chance, nodes=nodes)
    for topology in lists.topologies:
        capacity = {"milliCPU": chance.choice([8000, 32000]), "memory": 2**30, "gpus": 4}
        if chance.random() < 0.8:
            topology["status"]["sizedCapacity"] = capacity
        api.put(TOPOLOGIES, topology)
    for each in lists.pods:
        each["metadata"].setdefault("annotations", {})["gputopo.io/profile"] = chance.choice(
            [*WORKLOADS, "unmeasured"]
        )
        api.put(PODS, each)
    for own in WORKLOADS:
        known = [
            beside(f"default/{other}", chance.choice([0, 8, 30]), scope)
            for other in WORKLOADS
            for scope in ("Socket", "Node")
            if chance.random() < 0.5
        ]
        api.put(PROFILES, learnt_profile(own, *known))


def objects_of(api: ApiServer) -> ClusterObjects:
    documents = {
        LiveKind.TOPOLOGIES: api.all(TOPOLOGIES),
        LiveKind.PODS: api.all(PODS),
        LiveKind.LEASES: api.all("leases"),
        LiveKind.PROFILES: api.all(PROFILES),
        LiveKind.DEPLOYMENTS: [installed()],
    }
    now = datetime.now(UTC)
    return ClusterObjects(documents, now, {LiveKind.NODES: "not part of this test"})


def without_minimum(requested: Document) -> Document:
    """Return a pod that accepts any utility."""
    found = deepcopy(requested)
    found["metadata"]["annotations"].pop(MIN_UTILITY_ANNOTATION, None)
    return found


def nodes_for(requested: Document, objects: ClusterObjects) -> list[str]:
    """Return the nodes of which filter decides.

    A wait depends on them. kube-scheduler leaves out the nodes with too few free GPUs.
    """
    if MIN_UTILITY_ANNOTATION not in requested["metadata"]["annotations"]:
        return [*objects.snapshot.nodes]
    return [*place_live(without_minimum(requested), objects).explanation.fitting]


def random_pod(chance: Random, number: int) -> Document:
    annotations = {
        "gputopo.io/pattern": chance.choice(PATTERNS),
        "gputopo.io/bandwidth-sensitivity": chance.choice(["Sensitive", "Insensitive"]),
        "gputopo.io/policy": chance.choice(["Preserve", "Greedy", "Utility", "Utility"]),
        "gputopo.io/resources-mode": chance.choice(["Fixed", "Proportional"]),
        "gputopo.io/profile": chance.choice(WORKLOADS),
    }
    if annotations["gputopo.io/policy"] == "Utility" and chance.random() < 0.7:
        annotations[MIN_UTILITY_ANNOTATION] = str(chance.choice([80, 95, 99, 100]))
    size = chance.choice([1, 1, 2, 2, 3])
    document = pod(f"requested-{number}", size, annotations=annotations)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    document["metadata"]["creationTimestamp"] = now if chance.random() < 0.8 else LONG_AGO
    return document


@pytest.mark.parametrize("seed", range(6))
async def test_node_scores_and_gpus_are_those_of_filter_prioritize_and_bind(
    api: ApiServer, start: Start, seed: int
) -> None:
    chance = Random(seed)  # noqa: S311 - the same clusters in every run
    fill(api, chance)
    placed = 0
    async with start(offer_one_above=0) as extender:
        await extender.profiled()
        scheduler = extender.scheduler()
        for number in range(PODS_PER_CLUSTER):
            requested = api.put(PODS, random_pod(chance, number))
            objects = objects_of(api)
            found = place_live(requested, objects)
            nodes = nodes_for(requested, objects)
            filtered = await scheduler.filter(requested, nodes)
            assert sorted(filtered.fits) == [*found.explanation.fitting]
            if found.chosen is None:
                continue
            scores = await scheduler.prioritize(requested, filtered.fits)
            assert scores == {
                node: option.score for option in found.options for node in option.nodes
            }
            top = {node for node, score in scores.items() if score == max(scores.values())}
            assert {*found.chosen.equally_good} <= top
            assert await scheduler.bind(requested, found.chosen.node) == ""
            bound = api.pod(f"requested-{number}")
            assert uuids_of(bound) == [*found.chosen.uuids]
            placed += 1
    assert placed


@pytest.mark.parametrize("seed", range(6))
async def test_the_only_node_that_filter_offers_is_one_of_the_equally_good_nodes(
    api: ApiServer, start: Start, seed: int
) -> None:
    chance = Random(seed)  # noqa: S311 - the same clusters in every run
    fill(api, chance)
    offered = 0
    async with start(offer_one_above=1) as extender:
        await extender.profiled()
        for number in range(PODS_PER_CLUSTER):
            requested = at_version(random_pod(chance, number), 1)
            objects = objects_of(api)
            found = place_live(requested, objects)
            nodes = nodes_for(requested, objects)
            filtered = await extender.scheduler().filter(requested, nodes)
            if found.chosen is None:
                assert filtered.fits == []
                continue
            assert {*filtered.fits} <= {*found.chosen.equally_good}
            offered += len(filtered.fits) < len(found.explanation.fitting)
    assert offered


@pytest.mark.parametrize("seed", [0, 4, 10, 33])
async def test_a_pod_waits_in_the_same_clusters_and_uses_the_same_nodes(
    api: ApiServer, start: Start, seed: int
) -> None:
    chance = Random(seed)  # noqa: S311 - the same clusters in every run
    fill(api, chance, nodes=2)
    waiting = 0
    async with start(offer_one_above=0) as extender:
        await extender.profiled()
        for number in range(4 * PODS_PER_CLUSTER):
            requested = random_pod(chance, number)
            requested["metadata"]["annotations"] |= {
                "gputopo.io/policy": "Utility",
                MIN_UTILITY_ANNOTATION: str(chance.choice([60, 80, 100])),
            }
            objects = objects_of(api)
            nodes = nodes_for(requested, objects)
            if not nodes:
                break
            api.put(PODS, requested)
            found = place_live(requested, objects)
            filtered = await extender.scheduler().filter(requested, nodes)
            assert sorted(filtered.fits) == [*found.explanation.fitting]
            waits = found.explanation.state is PendingState.POSTPONED
            assert waits is (found.chosen is None) is (filtered.fits == [])
            waiting += waits
            if found.chosen is not None:
                assert await extender.scheduler().bind(requested, found.chosen.node) == ""
    assert waiting
