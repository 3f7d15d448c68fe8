"""Bind under repetition, concurrency, faults of the API server and restarts."""

import asyncio
import random
import tracemalloc
from uuid import uuid4

import pytest

from gputopo.api.names import INVALIDATED_ANNOTATION
from gputopo.catalogue import named
from support.api.faults import Fault
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import Document, pod, topology_object
from support.extender.service import (
    BINDING_DROPPED,
    BINDING_ERROR,
    BINDING_FORBIDDEN,
    BINDING_LATE,
    BINDING_SILENT_AFTER,
    BINDING_SILENT_BEFORE,
    IMPATIENT,
    Extender,
    Start,
    before_binding,
    twice,
    until,
    uuids_of,
)

NODES = ["n1", "n2"]
RESERVED = 'gputopo_ledger_reservations{progress="%s"}'
USED = 'gputopo_ledger_gpus{state="used"}'


def live_pods(api: ApiServer) -> list[Document]:
    return list(api.all(PODS))


async def test_repeated_bind_to_the_same_node_succeeds_and_writes_nothing(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 2))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(pod("a", 2), "n1") == ""
        first = uuids_of(api.pod("a"))
        assert await scheduler.bind(pod("a", 2), "n1") == ""
        await until(lambda: _is(extender.metric(RESERVED % "bound"), 0))
        assert await scheduler.bind(pod("a", 2), "n1") == ""
        assert "n1" in await scheduler.bind(pod("a", 2), "n2")
    assert len(api.bindings) == 1
    assert uuids_of(api.pod("a")) == first


async def test_pods_that_come_and_go_leave_no_memory_behind(start: Start, api: ApiServer) -> None:
    async with start() as extender:
        scheduler = extender.scheduler()

        async def bind_new_pods(count: int) -> None:
            for number in range(count):
                api.put(PODS, pod(f"p{number}", uid=str(uuid4())))
                assert "no GPUTopology" in await scheduler.bind(api.pod(f"p{number}"), "gone")
                api.delete(PODS, f"p{number}")

        def allocated() -> int:
            ours = tracemalloc.Filter(inclusive=True, filename_pattern="*/verbs/bind.py")
            traces = tracemalloc.take_snapshot().filter_traces([ours])
            return sum(statistic.count for statistic in traces.statistics("filename"))

        tracemalloc.start()
        try:
            await bind_new_pods(5)
            before = allocated()
            await bind_new_pods(30)
            assert allocated() <= before + 10
        finally:
            tracemalloc.stop()


async def test_pod_of_the_same_name_but_another_uid_is_not_bound(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", uid="new"))
    async with start() as extender:
        assert "UID old" in await extender.scheduler().bind(pod("a", uid="old"), "n1")
        assert await extender.metric('gputopo_extender_binds_total{outcome="rejected"}') == 1
    assert api.bindings == []


async def know_the_claims(extender: Extender, api: ApiServer) -> None:
    """Have the extender do what its first bind does beside binding."""
    api.put(PODS, pod("too-large", 9))
    assert "too few GPUs" in await extender.scheduler().bind(pod("too-large", 9), "n2")


async def test_pod_that_the_watch_has_not_shown_yet_is_fetched(
    start: Start, api: ApiServer
) -> None:
    async with start() as extender:
        await know_the_claims(extender, api)
        api.mute = True
        api.put(PODS, pod("a"))
        assert await extender.scheduler().bind(pod("a"), "n1") == ""
    assert len(api.bindings) == 1


async def test_binds_at_once_on_one_node_never_share_a_gpu(start: Start, api: ApiServer) -> None:
    pods = [pod(f"p{number}", 1 + number % 3) for number in range(24)]
    for each in pods:
        api.put(PODS, each)
    async with start() as extender:
        await know_the_claims(extender, api)
        api.mute = True  # the watch shows nothing: reservations alone must hold
        scheduler = extender.scheduler()
        errors = await asyncio.gather(*(scheduler.bind(each, "n1") for each in pods))
        bound = sum(len(uuids_of(each)) for each in live_pods(api))
        assert bound == 8
        assert twice(live_pods(api)) == []
        assert errors.count("") == len(api.bindings)
        assert all("too few free GPUs" in error for error in errors if error)
        assert await extender.metric(RESERVED % "bound") == len(api.bindings)


async def test_one_pod_bound_to_two_nodes_at_once_goes_to_one(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("a", 2))
    async with start() as extender:
        scheduler = extender.scheduler()
        errors = await asyncio.gather(*(scheduler.bind(pod("a", 2), node) for node in NODES * 3))
    assert errors.count("") == 3
    assert len(api.bindings) == 1


async def test_binding_that_was_carried_out_without_a_response_is_a_success(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 2))
    api.faults.append(BINDING_SILENT_AFTER)
    async with start(**IMPATIENT) as extender:
        assert await extender.scheduler().bind(pod("a", 2), "n1") == ""
        await until(lambda: _is(extender.metric(RESERVED % "unknown"), 0))
        assert await extender.metric(USED) == 2
    assert len(api.bindings) == 1


@pytest.mark.parametrize("fault", [BINDING_DROPPED, BINDING_ERROR, BINDING_SILENT_BEFORE])
async def test_binding_without_a_response_is_invalidated_and_its_gpus_are_released(
    start: Start, api: ApiServer, fault: Fault
) -> None:
    api.put(PODS, pod("a", 8))
    api.put(PODS, pod("b", 8))
    api.faults.append(fault)
    async with start(**IMPATIENT) as extender:
        scheduler = extender.scheduler()
        assert "did not bind the pod" in await scheduler.bind(pod("a", 8), "n1")
        assert INVALIDATED_ANNOTATION in api.pod("a")["metadata"]["annotations"]
        assert await scheduler.bind(pod("b", 8), "n1") == ""
        assert await scheduler.bind(pod("a", 8), "n2") == ""
    assert twice(live_pods(api)) == []


async def test_binding_that_arrives_after_it_was_invalidated_is_rejected(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("late", 8))
    api.put(PODS, pod("next", 8))
    api.faults.append(BINDING_LATE)
    async with start(**IMPATIENT) as extender:
        scheduler = extender.scheduler()
        assert "did not bind the pod" in await scheduler.bind(pod("late", 8), "n1")
        assert await scheduler.bind(pod("next", 8), "n1") == ""
        api.carry_out_late()
    assert "nodeName" not in api.pod("late")["spec"]
    assert twice(live_pods(api)) == []


async def test_gpus_stay_reserved_while_the_result_of_the_binding_is_unknown(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 8))
    api.put(PODS, pod("b", 8))
    async with start() as extender:
        scheduler = extender.scheduler()
        before_binding(api, lambda: setattr(api, "down", True))
        assert "the result is not known yet" in await scheduler.bind(pod("a", 8), "n1")
        assert await extender.metric(RESERVED % "unknown") == 1
        assert (await scheduler.filter(pod("b", 8), NODES)).failed == {"n1": "too few free GPUs"}
        again = await scheduler.filter(pod("a", 8), NODES)
        assert again.fits == ["n1"]
        assert "another node" in again.failed["n2"]
        assert "the result is not known yet" in await scheduler.bind(pod("a", 8), "n1")
        api.down = False
        await until(lambda: _is(extender.metric(RESERVED % "unknown"), 0))
        assert await scheduler.bind(pod("b", 8), "n1") == ""
    assert len(api.bindings) == 1


async def test_pod_that_is_being_deleted_is_not_bound_and_its_gpus_are_free(
    start: Start, api: ApiServer
) -> None:
    deleting = pod("a", 8)
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api.put(PODS, deleting)
    api.put(PODS, pod("b", 8))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert "409" in await scheduler.bind(pod("a", 8), "n1")
        assert await scheduler.bind(pod("b", 8), "n1") == ""


async def test_pod_that_changes_before_its_binding_is_bound_at_its_new_version(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 2))
    async with start() as extender:
        await know_the_claims(extender, api)
        api.mute = True
        api.put(PODS, pod("a", 2))
        assert await extender.scheduler().bind(pod("a", 2), "n1") == ""
    assert len(api.bindings) == 1


async def test_rejected_binding_releases_its_gpus_at_once(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("a", 8))
    api.put(PODS, pod("b", 8))
    api.faults.append(BINDING_FORBIDDEN)
    async with start() as extender:
        scheduler = extender.scheduler()
        assert "403" in await scheduler.bind(pod("a", 8), "n1")
        assert await scheduler.bind(pod("b", 8), "n1") == ""


async def test_pod_deleted_before_its_binding_releases_its_gpus(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 8))
    api.put(PODS, pod("b", 8))
    async with start() as extender:
        scheduler = extender.scheduler()
        await know_the_claims(extender, api)
        api.mute = True
        api.delete(PODS, "a")
        assert "404" in await scheduler.bind(pod("a", 8), "n1")
        assert await scheduler.bind(pod("b", 8), "n1") == ""


async def test_pod_that_another_scheduler_bound_keeps_its_node(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a"))
    async with start() as extender:
        await know_the_claims(extender, api)
        api.mute = True
        api.put(PODS, pod("a", node="n2"))
        assert "n2" in await extender.scheduler().bind(pod("a"), "n1")
        assert await extender.metric(RESERVED % "bound") == 0
    assert api.bindings == []


async def test_deleted_and_ended_pods_free_their_gpus(start: Start, api: ApiServer) -> None:
    for name in ("deleted", "failed", "next"):
        api.put(PODS, pod(name, 8 if name == "next" else 4))
    async with start() as extender:
        scheduler = extender.scheduler()
        for name in ("deleted", "failed"):
            assert await scheduler.bind(pod(name, 4), "n1") == ""
        assert "too few free" in await scheduler.bind(pod("next", 8), "n1")
        api.delete(PODS, "deleted")
        ended = {**api.pod("failed"), "status": {"phase": "Failed"}}
        api.put(PODS, ended)
        await until(lambda: _is(extender.metric(USED), 0))
        assert await scheduler.bind(pod("next", 8), "n1") == ""


async def test_restarted_extender_knows_the_gpus_of_bound_pods(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 5))
    api.put(PODS, pod("b", 3))
    api.put(PODS, pod("c", 1))
    async with start() as extender:
        assert await extender.scheduler().bind(pod("a", 5), "n1") == ""
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await extender.metric(USED) == 5
        assert await scheduler.bind(pod("a", 5), "n1") == ""
        assert await scheduler.bind(pod("b", 3), "n1") == ""
        assert "too few free" in await scheduler.bind(pod("c", 1), "n1")
    assert twice(live_pods(api)) == []


async def test_24_pods_are_placed_while_the_extender_restarts(start: Start, api: ApiServer) -> None:
    api.put(TOPOLOGIES, topology_object("n3", named("dgx-a100", node="n3")))
    nodes = [*NODES, "n3"]
    waiting = [pod(f"p{number}") for number in range(24)]
    for each in waiting:
        api.put(PODS, each)
    chance = random.Random(3)  # noqa: S311 - which pod is next is no secret
    api.faults.extend(chance.choice([BINDING_ERROR, BINDING_DROPPED]) for _ in range(4))
    while waiting:
        async with start() as extender:
            scheduler = extender.scheduler()
            batch = chance.sample(waiting, min(7, len(waiting)))
            await asyncio.gather(*(scheduler.schedule(each, nodes) for each in batch))
        waiting = [
            each
            for each in waiting
            if not api.pod(each["metadata"]["name"])["spec"].get("nodeName")
        ]
    assert twice(live_pods(api)) == []
    assert {len(uuids_of(each)) for each in live_pods(api)} == {1}


async def _is(value: object, wanted: float) -> bool:
    return bool(await value == wanted)  # type: ignore[misc]
