"""The found to a what-if question is what the real extender then decides, in random clusters."""

from random import Random

import pytest

from gputopo_explain.objects import ClusterObjects, LiveKind
from gputopo_explain.whatif import place_live
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.clusters import random_lists
from support.builders.live import NOW, installed
from support.builders.node_reports import beside, learnt_profile
from support.builders.objects import Document, at_version, pod
from support.extender.service import Start, uuids_of

PATTERNS = ("Ring", "AllToAll", "Chain")
WORKLOADS = ("quiet", "noisy", "large")
PROFILES = "gpuprofiles"
PODS_PER_CLUSTER = 5


def fill(api: ApiServer, chance: Random) -> None:
    """Put random nodes and pods in place of those of the fixture; CPUs differ between nodes."""
    for name in ("n1", "n2"):
        api.delete(TOPOLOGIES, name)
    lists = random_lists(chance, nodes=6)
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
    return ClusterObjects(documents, NOW, {LiveKind.NODES: "not part of this test"})


def random_pod(chance: Random, number: int) -> Document:
    annotations = {
        "gputopo.io/pattern": chance.choice(PATTERNS),
        "gputopo.io/bandwidth-sensitivity": chance.choice(["Sensitive", "Insensitive"]),
        "gputopo.io/policy": chance.choice(["Preserve", "Greedy", "Utility", "Utility"]),
        "gputopo.io/resources-mode": chance.choice(["Fixed", "Proportional"]),
        "gputopo.io/profile": chance.choice(WORKLOADS),
    }
    return pod(f"requested-{number}", chance.choice([1, 1, 2, 2, 3]), annotations=annotations)


@pytest.mark.parametrize("seed", range(6))
async def test_node_scores_and_gpus_are_those_of_filter_prioritize_and_bind(
    api: ApiServer, start: Start, seed: int
) -> None:
    chance = Random(seed)  # noqa: S311 - the same clusters in every run
    fill(api, chance)
    placed = 0
    async with start(offer_one_above=0) as extender:
        scheduler = extender.scheduler()
        for number in range(PODS_PER_CLUSTER):
            requested = api.put(PODS, random_pod(chance, number))
            found = place_live(requested, objects_of(api))
            names = [each["metadata"]["name"] for each in api.all(TOPOLOGIES)]
            filtered = await scheduler.filter(requested, names)
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
        for number in range(PODS_PER_CLUSTER):
            requested = at_version(random_pod(chance, number), 1)
            found = place_live(requested, objects_of(api))
            names = [each["metadata"]["name"] for each in api.all(TOPOLOGIES)]
            filtered = await extender.scheduler().filter(requested, names)
            if found.chosen is None:
                assert filtered.fits == []
                continue
            assert {*filtered.fits} <= {*found.chosen.equally_good}
            offered += len(filtered.fits) < len(found.explanation.fitting)
    assert offered
