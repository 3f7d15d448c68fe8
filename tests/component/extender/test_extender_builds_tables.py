"""A slow table is built in a thread, and other pods are served meanwhile."""

import asyncio
import gc
from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet
from threading import Event

import pytest

from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PlacementRequest
from gputopo_extender import server
from gputopo_scheduling.evaluation import AnyNodeState, NodeFit
from gputopo_scheduling.node_fits import evaluate_states
from support.api.server import ApiServer
from support.api.store import PODS
from support.builders.objects import pod
from support.extender.service import Extender, Start, until

NODES = ["n1", "n2"]
CUSTOM = {"gputopo.io/pattern": "Custom", "gputopo.io/edges": '[{"from":0,"to":1,"weight":1}]'}


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Return what tables of Custom patterns wait for."""
    opened = Event()

    def slow(
        states: AbstractSet[AnyNodeState], request: PlacementRequest
    ) -> dict[Hashable, NodeFit]:
        if request.pattern.kind is PatternKind.CUSTOM:
            opened.wait(60)
        return evaluate_states(states, request)

    monkeypatch.setattr(server, "evaluate_states", slow)
    yield opened
    opened.set()


async def test_probes_and_other_pods_are_served_while_a_table_is_being_built(
    start: Start, api: ApiServer, gate: Event
) -> None:
    custom = pod("custom", 2, annotations=CUSTOM)
    api.put(PODS, pod("ring", 2))
    async with start() as extender:
        scheduler = extender.scheduler()
        waiting = [
            asyncio.create_task(scheduler.filter(custom, NODES)),
            asyncio.create_task(scheduler.filter(custom, NODES)),
        ]
        async with extender.http.get(f"{extender.addresses.probes}/livez") as response:
            assert response.status == 200
        assert await scheduler.schedule(pod("ring", 2), NODES) == "n1"
        assert not any(each.done() for each in waiting)
        gate.set()
        assert [(await each).fits for each in waiting] == [NODES, NODES]


async def test_pod_whose_table_is_not_ready_in_time_gets_an_error(
    start: Start, api: ApiServer, gate: Event
) -> None:
    custom = pod("custom", 2, annotations=CUSTOM)
    api.put(PODS, custom)
    async with start(decision_timeout_seconds=0.05) as extender:
        scheduler = extender.scheduler()
        found = await scheduler.filter(custom, NODES)
        assert found.error == (
            "the nodes are still being evaluated for Custom of 2 GPUs: try again"
        )
        assert (found.failed, found.unresolvable) == ({}, {})
        assert await scheduler.prioritize(custom, NODES) == {"n1": 0, "n2": 0}
        assert await scheduler.bind(custom, "n1") == found.error
        body = {"Pod": custom, "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-a"}]}}}
        url = f"{extender.addresses.verbs}/preempt"
        async with extender.http.post(url, json=body) as response:
            assert (response.status, await response.text()) == (503, f"{found.error}\n")
        assert await extender.metric('gputopo_extender_binds_total{outcome="failed"}') == 1
        gate.set()
        await until(lambda: _is_bound(extender, "n1"))
    assert len(api.bindings) == 1


async def _is_bound(extender: Extender, node: str) -> bool:
    return await extender.scheduler().bind(pod("custom", 2, annotations=CUSTOM), node) == ""


async def test_listed_objects_are_excluded_from_garbage_collection(start: Start) -> None:
    async with start():
        await until(_frozen)
    assert gc.get_freeze_count() == 0


async def _frozen() -> bool:
    return gc.get_freeze_count() > 0
