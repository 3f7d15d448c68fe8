"""The Binding of the extender records what a replay of the decision needs."""

import json
from typing import Any

from gputopo.api.known_facts import FactsAnnotation
from gputopo.api.names import FACTS_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo.catalogue import named
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import pod, topology_object
from support.extender.service import Extender, Start, before_binding, until

NODES = ["n1", "n2"]
LONGEST = 4096


def placement_of(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(document["metadata"]["annotations"][PLACEMENT_ANNOTATION])
    return found


async def test_binding_records_input_choice_and_other_nodes(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("first", 3))
    api.put(PODS, pod("ring", 2))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.schedule(pod("first", 3), ["n1"]) == "n1"
        assert await scheduler.schedule(pod("ring", 2), [*NODES, "bare"]) == "n1"
    replay = placement_of(api.pod("ring"))["replay"]
    assert replay["fingerprint"] == named("dgx1-v100", node="n1").fingerprint
    assert (replay["size"], len(replay["free"])) == (2, 5)
    assert set(replay["gpus"]) <= set(replay["free"])
    assert replay["nodes"] == {
        "compared": 3,
        "fitted": 2,
        "better": 0,
        "equal": 0,
        "score": 10,
        "misfits": {"no_topology": 1},
    }


async def test_node_that_the_scheduler_preferred_has_better_nodes(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("ring", 3))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert len((await scheduler.filter(pod("ring", 3), NODES)).fits) == 2
        assert await scheduler.bind(pod("ring", 3), "n2") == ""
    nodes = placement_of(api.pod("ring"))["replay"]["nodes"]
    assert (nodes["better"], nodes["equal"], nodes["score"]) == (1, 0, 9)


async def test_new_leader_that_did_not_filter_the_pod_records_no_other_nodes(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("ring", 3))
    async with start() as former, start() as leader:
        assert "n1" in (await former.scheduler().filter(pod("ring", 3), NODES)).fits
        assert await leader.scheduler().bind(pod("ring", 3), "n1") == ""
    replay = placement_of(api.pod("ring"))["replay"]
    assert "nodes" not in replay
    assert len(replay["gpus"]) == 3


async def test_other_nodes_are_those_of_the_newest_filter(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("ring", 3))
    async with start() as extender:
        scheduler = extender.scheduler()
        await scheduler.filter(pod("ring", 3), NODES)
        await scheduler.filter(pod("ring", 3), ["n2"])
        assert await scheduler.bind(pod("ring", 3), "n2") == ""
    assert placement_of(api.pod("ring"))["replay"]["nodes"]["compared"] == 1


async def test_filter_during_a_binding_in_flight_compares_nothing(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("ring", 3))
    async with start() as extender:
        scheduler = extender.scheduler()
        before_binding(api, lambda: setattr(api, "down", True))
        assert await scheduler.schedule(pod("ring", 3), NODES) is None
        assert (await scheduler.filter(pod("ring", 3), NODES)).fits == ["n1"]
        api.down = False
        await until(lambda: resolved(extender))
        assert await scheduler.bind(pod("ring", 3), "n1") == ""
    assert "nodes" not in placement_of(api.pod("ring"))["replay"]


async def resolved(extender: Extender) -> bool:
    return await extender.metric('gputopo_ledger_reservations{progress="unknown"}') == 0


async def test_largest_annotation_stays_below_its_limit(start: Start, api: ApiServer) -> None:
    """A Custom pattern of 16 ranks in which all ranks communicate has 120 edges."""
    edges = [
        {"from": a, "to": b, "weight": 1000} for a in range(16) for b in range(16) if a != b
    ] * 4
    facts = FactsAnnotation.declared("p" * 253, 45)
    annotations = {
        "gputopo.io/pattern": "Custom",
        "gputopo.io/edges": json.dumps(edges),
        FACTS_ANNOTATION: facts.dump(),
    }
    large = pod("large", 16, annotations=annotations)
    api.put(TOPOLOGIES, topology_object("n3", named("dgx-2", node="n3")))
    api.put(PODS, large)
    async with start() as extender:
        assert await extender.scheduler().schedule(large, [*NODES, "n3"]) == "n3"
    text = api.pod("large")["metadata"]["annotations"][PLACEMENT_ANNOTATION]
    assert len(json.loads(text)["replay"]["edges"]) == 120
    assert len(text) < LONGEST
