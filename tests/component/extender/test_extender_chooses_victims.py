"""preempt chooses the nodes whose freed GPUs suit the pod best."""

import pytest

from gputopo.catalogue import named
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import Document, pod, topology_object
from support.extender.service import Extender, Start

RING = {"gputopo.io/bandwidth-sensitivity": "Sensitive"}


def victim(name: str, gpus: int, priority: int = 0) -> Document:
    document = pod(name, gpus)
    document["spec"]["priority"] = priority
    return document


async def filled(extender: Extender, *placed: tuple[Document, str]) -> None:
    """Have pods bound, in this order."""
    for document, node in placed:
        extender.api.put(PODS, document)
        assert await extender.scheduler().bind(document, node) == ""


@pytest.mark.parametrize("mode", ["names", "whole pods"])
async def test_of_nodes_with_equal_cost_the_one_with_better_links_stays(
    start: Start, mode: str
) -> None:
    both = {name: victim(f"on-{name}", 8) for name in ("n1", "n2")}
    async with start() as extender:
        await filled(extender, *((document, name) for name, document in both.items()))
        scheduler = extender.scheduler(cached=mode == "names")
        offers = {name: [document] for name, document in both.items()}
        assert await scheduler.preempt(pod("ring", 4, annotations=RING), offers) == {
            "n1": ["uid-on-n1"]
        }


async def test_cheaper_victims_stay_whatever_the_links(start: Start) -> None:
    costly, cheap = victim("costly", 8, priority=5), victim("cheap", 8, priority=1)
    async with start() as extender:
        await filled(extender, (costly, "n1"), (cheap, "n2"))
        offers = {"n1": [costly], "n2": [cheap]}
        found = await extender.scheduler().preempt(pod("ring", 4, annotations=RING), offers)
    assert found == {"n1": ["uid-costly"], "n2": ["uid-cheap"]}, "the choice is kube-scheduler's"


async def test_node_with_a_victim_of_unknown_priority_is_compared_with_none(
    start: Start,
) -> None:
    both = {name: victim(f"on-{name}", 8) for name in ("n1", "n2")}
    without_gpus = pod("web", 0)
    async with start() as extender:
        await filled(extender, *((document, name) for name, document in both.items()))
        offers = {"n1": [both["n1"]], "n2": [both["n2"], without_gpus]}
        found = await extender.scheduler().preempt(pod("ring", 4, annotations=RING), offers)
    assert found == {"n1": ["uid-on-n1"], "n2": ["uid-on-n2", "uid-web"]}


async def test_node_that_does_not_fit_even_then_is_left_out(start: Start, api: ApiServer) -> None:
    half = [victim(f"half-{number}", 4) for number in range(2)]
    api.put(TOPOLOGIES, topology_object("n2", named("pcie-8gpu", node="n2"), unhealthy=[0, 1]))
    other = victim("other", 6)
    async with start() as extender:
        await filled(extender, *((document, "n1") for document in half), (other, "n2"))
        scheduler = extender.scheduler()
        offers = {"n1": half[:1], "n2": [other], "unknown": [other]}
        assert await scheduler.preempt(pod("eight", 8), offers) == {}
        assert list(await scheduler.preempt(pod("six", 6), offers)) == ["n2"]
        assert list(await scheduler.preempt(pod("eight", 8), {"n1": half})) == ["n1"]


async def test_pod_that_fits_no_node_has_no_victims(start: Start) -> None:
    one = victim("one", 8)
    wrong = pod("wrong", 2, annotations={"gputopo.io/pattern": "Donut"})
    async with start() as extender:
        await filled(extender, (one, "n1"))
        assert await extender.scheduler().preempt(wrong, {"n1": [one]}) == {}


async def test_preempting_changes_nothing(start: Start, api: ApiServer) -> None:
    one = victim("one", 8)
    async with start() as extender:
        await filled(extender, (one, "n1"))
        scheduler = extender.scheduler()
        assert await scheduler.preempt(pod("next", 8), {"n1": [one]}) == {"n1": ["uid-one"]}
        assert (await scheduler.filter(pod("next", 8), ["n1"])).fits == []
    assert len(api.bindings) == 1


async def test_invalid_preemption_body_is_rejected(start: Start) -> None:
    bodies = [
        (pod("cpu-only", 0), {}, "gputopo.io/gpu: no container requests it"),
        (pod("a"), {"n1": None}, "NodeNameToMetaVictims.n1"),
        ({}, {}, "metadata"),
    ]
    async with start() as extender:
        for document, offers, words in bodies:
            body = {"Pod": document, "NodeNameToMetaVictims": offers}
            url = f"{extender.addresses.verbs}/preempt"
            async with extender.http.post(url, json=body) as response:
                assert response.status == 400
                assert words in await response.text()
