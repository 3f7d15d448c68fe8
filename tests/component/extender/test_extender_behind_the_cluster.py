"""An extender behind kube-scheduler: a late watch, pods that change continuously, and an etcd
that was restored."""

import asyncio
import copy

import pytest

from gputopo.catalogue import named
from gputopo_extender.verbs import retries
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import Document, pod, topology_object
from support.extender.kube_scheduler import Scheduler
from support.extender.service import (
    IMPATIENT,
    Extender,
    Start,
    before_binding,
    twice,
    until,
    uuids_of,
)

BEHIND = "kube-scheduler counts enough free GPUs, the extender does not yet: n1: too few free GPUs"


async def test_filter_waits_for_the_watch_to_show_a_deletion(
    start: Start, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "LONGEST_WAIT_SECONDS", 60.0)
    api.put(PODS, pod("old", 8))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(pod("old", 8), "n1") == ""

        async def goes() -> None:
            await asyncio.sleep(0.02)
            api.delete(PODS, "old")

        going = asyncio.create_task(goes())
        response = await scheduler.filter(pod("next", 8), ["n1"])
        await going
    assert (response.fits, response.error) == (["n1"], "")


async def test_filter_returns_an_error_while_the_watch_is_behind(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("old", 8))
    small = topology_object("n3", named("summit", node="n3"))
    api.put(TOPOLOGIES, small)
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(pod("old", 8), "n1") == ""
        for _ in range(2):
            response = await scheduler.filter(pod("next", 8), ["n1", "n3"])
            assert (response.fits, response.failed, response.error) == ([], {}, BEHIND)
        grouped = pod("member", 8)
        grouped["spec"]["schedulingGroup"] = {"podGroupName": "group"}
        response = await scheduler.filter(grouped, ["n1", "n3"])
        assert (response.failed, response.error) == ({"n1": "too few free GPUs"}, "")
        assert (await scheduler.filter(pod("next", 8), ["n3"])).error == ""


async def test_pod_that_is_patched_all_the_time_is_bound(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("busy", 2))
    patches = 0

    async def patched() -> None:
        nonlocal patches
        patches += 1
        changed = copy.deepcopy(api.pod("busy"))
        changed["metadata"]["labels"] = {"patch": str(patches)}
        api.put(PODS, changed)
        if patches < 30:
            before_binding(api, patched)

    async with start() as extender:
        before_binding(api, patched)
        assert await extender.scheduler().bind(pod("busy", 2), "n1") == ""
        assert await extender.metric('gputopo_extender_binds_total{outcome="bound"}') == 1
    assert patches == 30
    assert len(uuids_of(api.pod("busy"))) == 2


async def test_change_that_matters_is_decided_again(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("a", 2))

    async def annotated() -> None:
        changed = copy.deepcopy(api.pod("a"))
        changed["metadata"]["annotations"]["gputopo.io/note"] = "x"
        api.put(PODS, changed)

    async with start() as extender:
        before_binding(api, annotated)
        before = api.version
        assert await extender.scheduler().bind(pod("a", 2), "n1") == ""
        # Mark, claims, annotation, claims of the second decision, Binding.
        assert api.version - before == 5


async def test_binding_is_not_repeated_after_another_extender_invalidated_it(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 8))
    api.put(PODS, pod("b", 8))
    async with start() as leader, start() as successor:

        async def the_successor_takes_over() -> None:
            assert await successor.scheduler().bind(pod("b", 8), "n1") == ""

        async def a_user_patches() -> None:
            changed = copy.deepcopy(api.pod("a"))
            changed["metadata"]["labels"] = {"patched": "yes"}
            api.put(PODS, changed)
            before_binding(api, the_successor_takes_over)

        before_binding(api, a_user_patches)
        assert "too few free GPUs" in await leader.scheduler().bind(pod("a", 8), "n1")
    assert "nodeName" not in api.pod("a")["spec"]
    assert twice(api.all(PODS)) == []


async def test_bind_detects_a_restored_etcd(start: Start, api: ApiServer) -> None:
    """The watches stay open and silent: the bind detects it, and everything is listed again."""
    api.put(PODS, pod("kept", 4))
    api.put(PODS, pod("new", 4))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(pod("kept", 4), "n1") == ""
        backup = api.backup()
        assert await scheduler.bind(pod("new", 1), "n2") == ""
        for number in range(20):
            api.put(PODS, pod(f"later-{number}", 1))
        api.put(TOPOLOGIES, topology_object("n2", named("summit", node="n2")))
        # The GPUs of "new" are not in the new topology of n2.
        await until(lambda: _used(extender, 4))
        lists = {kind: api.lists(kind) for kind in (PODS, TOPOLOGIES)}
        api.restore(backup)
        api.put(PODS, pod("second", 4))
        error = await scheduler.bind(pod("second", 4), "n1")
        assert "resource versions went back from" in error
        await until(lambda: _listed(api, lists))
        await until(lambda: _bound(scheduler, pod("second", 4)))
        assert (await scheduler.filter(pod("next", 8), ["n2"])).fits == ["n2"], "restored as well"
    assert twice(api.all(PODS)) == []
    assert len(uuids_of(api.pod("second"))) == 4


async def test_pod_whose_binding_a_restore_has_lost_is_bound_again(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("lost", 4))
    async with start() as extender:
        scheduler = extender.scheduler()
        backup = api.backup()
        assert await scheduler.bind(pod("lost", 4), "n1") == ""
        assert await scheduler.bind(pod("lost", 4), "n1") == ""
        api.restore(backup)
        assert "has lost the Binding" in await scheduler.bind(pod("lost", 4), "n1")
        await until(lambda: _bound(scheduler, pod("lost", 4)))
        assert len(uuids_of(api.pod("lost"))) == 4
        api.down = True
        assert "the pod cannot be read" in await scheduler.bind(pod("lost", 4), "n1")


async def test_watch_that_cannot_be_resumed_ends_in_a_list(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("old", 8))
    async with start(**IMPATIENT) as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(pod("old", 8), "n1") == ""
        await until(lambda: _used(extender, 8))
        lists = {kind: api.lists(kind) for kind in (PODS, TOPOLOGIES)}
        api.versions_are_too_large = True
        api.end_watches()
        await until(lambda: _listed(api, lists))
        api.versions_are_too_large = False
        api.delete(PODS, "old")
        await until(lambda: _used(extender, 0))


async def _used(extender: Extender, count: int) -> bool:
    return await extender.metric('gputopo_ledger_gpus{state="used"}') == count


async def _listed(api: ApiServer, before: dict[str, int]) -> bool:
    return all(api.lists(kind) > count for kind, count in before.items())


async def _bound(scheduler: Scheduler, document: Document) -> bool:
    return await scheduler.bind(document, "n1") == ""
