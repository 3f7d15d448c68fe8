"""Bind under repetition, concurrency, faults of the API server and restarts."""

import asyncio
import gc
import random

import pytest

from extender_world import IMPATIENT, Extender, Start, twice, until, uuids_of
from gputopo.api.names import CALLED_OFF_ANNOTATION
from gputopo_topologies.catalogue import named
from objects import Document, pod, topology_object
from small_api import PODS, TOPOLOGIES, Fault, SmallApi

NODES = ["n1", "n2"]
RESERVED = 'gputopo_ledger_reservations{progress="%s"}'
USED = 'gputopo_ledger_gpus{state="used"}'


def live_pods(api: SmallApi) -> list[Document]:
    return list(api.objects[PODS].values())


async def test_a_repeated_bind_to_the_same_node_succeeds_and_writes_nothing(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("a", 2))
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


async def test_pods_that_come_and_go_leave_no_locks_behind(start: Start, api: SmallApi) -> None:
    def locks() -> int:
        return sum(isinstance(each, asyncio.Lock) for each in gc.get_objects())

    await api.put(PODS, pod("a"))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert "no GPUTopology" in await scheduler.bind(pod("a"), "gone")
        before = locks()
        for number in range(20):
            assert "no GPUTopology" in await scheduler.bind(pod("a"), f"gone-{number}")
        assert locks() < before + 20


async def test_a_pod_of_the_same_name_but_another_uid_is_not_bound(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("a", uid="new"))
    async with start() as extender:
        assert "UID old" in await extender.scheduler().bind(pod("a", uid="old"), "n1")
        assert await extender.metric('gputopo_extender_binds_total{outcome="refused"}') == 1
    assert api.bindings == []


async def know_the_claims(extender: Extender, api: SmallApi) -> None:
    """Have the extender do what its first bind does beside binding."""
    await api.put(PODS, pod("too-large", 9))
    assert "too few GPUs" in await extender.scheduler().bind(pod("too-large", 9), "n2")


async def test_a_pod_that_the_watch_has_not_shown_yet_is_fetched(
    start: Start, api: SmallApi
) -> None:
    async with start() as extender:
        await know_the_claims(extender, api)
        api.mute = True
        await api.put(PODS, pod("a"))
        assert await extender.scheduler().bind(pod("a"), "n1") == ""
    assert len(api.bindings) == 1


async def test_binds_at_once_on_one_node_never_share_a_gpu(start: Start, api: SmallApi) -> None:
    pods = [pod(f"p{number}", 1 + number % 3) for number in range(24)]
    for each in pods:
        await api.put(PODS, each)
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


async def test_one_pod_bound_to_two_nodes_at_once_goes_to_one(start: Start, api: SmallApi) -> None:
    await api.put(PODS, pod("a", 2))
    async with start() as extender:
        scheduler = extender.scheduler()
        errors = await asyncio.gather(*(scheduler.bind(pod("a", 2), node) for node in NODES * 3))
    assert errors.count("") == 3
    assert len(api.bindings) == 1


async def test_a_binding_that_was_carried_out_but_not_answered_is_a_success(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("a", 2))
    api.binding_faults.append(Fault.SILENT_AFTER)
    async with start(**IMPATIENT) as extender:
        assert await extender.scheduler().bind(pod("a", 2), "n1") == ""
        await until(lambda: _is(extender.metric(RESERVED % "unknown"), 0))
        assert await extender.metric(USED) == 2
    assert len(api.bindings) == 1


@pytest.mark.parametrize("fault", [Fault.DROPPED, Fault.ERROR, Fault.SILENT_BEFORE])
async def test_a_binding_without_an_answer_is_called_off_and_its_gpus_are_free_again(
    start: Start, api: SmallApi, fault: Fault
) -> None:
    await api.put(PODS, pod("a", 8))
    await api.put(PODS, pod("b", 8))
    api.binding_faults.append(fault)
    async with start(**IMPATIENT) as extender:
        scheduler = extender.scheduler()
        assert "did not bind the pod" in await scheduler.bind(pod("a", 8), "n1")
        assert CALLED_OFF_ANNOTATION in api.pod("a")["metadata"]["annotations"]
        assert await scheduler.bind(pod("b", 8), "n1") == ""
        assert await scheduler.bind(pod("a", 8), "n2") == ""
    assert twice(live_pods(api)) == []


async def test_a_binding_that_arrives_after_it_was_called_off_is_refused(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("late", 8))
    await api.put(PODS, pod("next", 8))
    api.binding_faults.append(Fault.LATE)
    async with start(**IMPATIENT) as extender:
        scheduler = extender.scheduler()
        assert "did not bind the pod" in await scheduler.bind(pod("late", 8), "n1")
        assert await scheduler.bind(pod("next", 8), "n1") == ""
        await api.carry_out_late()
    assert "nodeName" not in api.pod("late")["spec"]
    assert twice(live_pods(api)) == []


async def test_gpus_stay_reserved_while_nobody_can_tell_what_became_of_the_binding(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("a", 8))
    await api.put(PODS, pod("b", 8))
    async with start() as extender:
        scheduler = extender.scheduler()
        api.binding_is_the_last = True
        assert "no known result" in await scheduler.bind(pod("a", 8), "n1")
        assert await extender.metric(RESERVED % "unknown") == 1
        assert (await scheduler.filter(pod("b", 8), NODES)).failed == {"n1": "too few free GPUs"}
        again = await scheduler.filter(pod("a", 8), NODES)
        assert again.fits == ["n1"]
        assert "another node" in again.failed["n2"]
        assert "no known result" in await scheduler.bind(pod("a", 8), "n1")
        api.binding_is_the_last = api.refuse_everything = False
        await until(lambda: _is(extender.metric(RESERVED % "unknown"), 0))
        assert await scheduler.bind(pod("b", 8), "n1") == ""
    assert len(api.bindings) == 1


async def test_a_pod_that_is_being_deleted_is_not_bound_and_its_gpus_are_free(
    start: Start, api: SmallApi
) -> None:
    ending = pod("a", 8)
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    await api.put(PODS, ending)
    await api.put(PODS, pod("b", 8))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert "409" in await scheduler.bind(pod("a", 8), "n1")
        assert await scheduler.bind(pod("b", 8), "n1") == ""


async def test_a_pod_that_changes_before_its_binding_is_bound_as_it_is_then(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("a", 2))
    async with start() as extender:
        await know_the_claims(extender, api)
        api.mute = True
        await api.put(PODS, pod("a", 2))
        assert await extender.scheduler().bind(pod("a", 2), "n1") == ""
    assert len(api.bindings) == 1


async def test_a_refused_binding_gives_its_gpus_back_at_once(start: Start, api: SmallApi) -> None:
    await api.put(PODS, pod("a", 8))
    await api.put(PODS, pod("b", 8))
    api.binding_faults.append(Fault.FORBIDDEN)
    async with start() as extender:
        scheduler = extender.scheduler()
        assert "403" in await scheduler.bind(pod("a", 8), "n1")
        assert await scheduler.bind(pod("b", 8), "n1") == ""


async def test_a_pod_deleted_before_its_binding_gives_its_gpus_back(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("a", 8))
    await api.put(PODS, pod("b", 8))
    async with start() as extender:
        scheduler = extender.scheduler()
        await know_the_claims(extender, api)
        api.mute = True
        await api.delete(PODS, "default/a")
        assert "404" in await scheduler.bind(pod("a", 8), "n1")
        assert await scheduler.bind(pod("b", 8), "n1") == ""


async def test_a_pod_that_somebody_else_bound_keeps_its_node(start: Start, api: SmallApi) -> None:
    await api.put(PODS, pod("a"))
    async with start() as extender:
        await know_the_claims(extender, api)
        api.mute = True
        await api.put(PODS, pod("a", node="n2"))
        assert "n2" in await extender.scheduler().bind(pod("a"), "n1")
        assert await extender.metric(RESERVED % "bound") == 0
    assert api.bindings == []


async def test_deleted_and_ended_pods_free_their_gpus(start: Start, api: SmallApi) -> None:
    for name in ("deleted", "failed", "next"):
        await api.put(PODS, pod(name, 8 if name == "next" else 4))
    async with start() as extender:
        scheduler = extender.scheduler()
        for name in ("deleted", "failed"):
            assert await scheduler.bind(pod(name, 4), "n1") == ""
        assert "too few free" in await scheduler.bind(pod("next", 8), "n1")
        await api.delete(PODS, "default/deleted")
        ended = {**api.pod("failed"), "status": {"phase": "Failed"}}
        await api.put(PODS, ended)
        await until(lambda: _is(extender.metric(USED), 0))
        assert await scheduler.bind(pod("next", 8), "n1") == ""


async def test_a_restarted_extender_knows_what_bound_pods_hold(start: Start, api: SmallApi) -> None:
    await api.put(PODS, pod("a", 5))
    await api.put(PODS, pod("b", 3))
    await api.put(PODS, pod("c", 1))
    async with start() as extender:
        assert await extender.scheduler().bind(pod("a", 5), "n1") == ""
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await extender.metric(USED) == 5
        assert await scheduler.bind(pod("a", 5), "n1") == ""
        assert await scheduler.bind(pod("b", 3), "n1") == ""
        assert "too few free" in await scheduler.bind(pod("c", 1), "n1")
    assert twice(live_pods(api)) == []


async def test_24_pods_are_all_placed_though_the_extender_is_restarted_meanwhile(
    start: Start, api: SmallApi
) -> None:
    await api.put(TOPOLOGIES, topology_object("n3", named("dgx-a100", node="n3")))
    nodes = [*NODES, "n3"]
    waiting = [pod(f"p{number}") for number in range(24)]
    for each in waiting:
        await api.put(PODS, each)
    chance = random.Random(3)  # noqa: S311 - which pod is next is no secret
    api.binding_faults.extend(chance.choice([Fault.ERROR, Fault.DROPPED]) for _ in range(4))
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
