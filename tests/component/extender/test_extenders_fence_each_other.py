"""Two extenders on one API server: each finds the Bindings that the other has in flight."""

import asyncio
import dataclasses
import json

from gputopo.api.names import CLAIMS_ANNOTATION, GPUS_ANNOTATION
from gputopo.catalogue import named
from gputopo.topology.model import GpuUuid
from support.api.faults import Fault
from support.api.server import ApiServer
from support.api.store import LEASES, PODS, TOPOLOGIES
from support.builders.objects import Document, pod, topology_object
from support.extender.service import (
    BINDING_LATE,
    IMPATIENT,
    LEASE_WRITE_RESPONSES_LOST,
    LEASES_FORBIDDEN,
    Extender,
    Start,
    before_binding,
    before_lease_write,
    twice,
    until,
    uuids_of,
)

DGX = named("dgx1-v100", node="n1")
KEEP_CHANGING = "other clients keep changing the pod, node n1 or the claims: try again"


def live_pods(api: ApiServer) -> list[Document]:
    return list(api.all(PODS))


def lease(api: ApiServer) -> Document:
    found = api.get(LEASES, "gputopo-claims", "gputopo-system")
    assert found is not None
    return found


def claims(api: ApiServer) -> list[Document]:
    text = lease(api)["metadata"]["annotations"][CLAIMS_ANNOTATION]
    found: list[Document] = json.loads(text)["pods"]
    return found


def claimed(api: ApiServer) -> list[str]:
    return [each["name"] for each in claims(api)]


async def test_bind_claims_its_gpus_until_it_is_carried_out(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("a", 2))
    api.put(PODS, pod("b", 1))
    async with start() as extender:
        assert await extender.scheduler().bind(pod("a", 2), "n1") == ""
        assert claims(api) == [
            {
                "uid": "uid-a",
                "namespace": "default",
                "name": "a",
                "version": claims(api)[0]["version"],
                "node": "n1",
                "gpus": uuids_of(api.pod("a")),
            }
        ]
        assert await extender.scheduler().bind(pod("b", 1), "n1") == ""
        assert claimed(api) == ["b"]


async def test_binds_that_begin_together_are_claimed_together(start: Start, api: ApiServer) -> None:
    pods = [pod(f"p{number}") for number in range(8)]
    for each in pods:
        api.put(PODS, each)
    async with start() as extender:
        scheduler = extender.scheduler()
        before = api.version
        assert await asyncio.gather(*(scheduler.bind(each, "n1") for each in pods)) == [""] * 8
        # One change catches up with the watch, eight are Bindings: the rest are claims.
        assert 1 <= api.version - before - 9 <= 7
    assert twice(live_pods(api)) == []


async def test_binding_in_flight_of_a_crashed_leader_is_invalidated_by_the_next(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("late", 8))
    api.put(PODS, pod("next", 8))
    api.faults.append(BINDING_LATE)
    async with start() as leader, start() as successor:
        in_flight = asyncio.create_task(leader.scheduler().bind(pod("late", 8), "n1"))
        await until(lambda: _is_late(api))
        assert await successor.scheduler().bind(pod("next", 8), "n1") == ""
        api.carry_out_late()
        in_flight.cancel()
    assert "nodeName" not in api.pod("late")["spec"]
    assert twice(live_pods(api)) == []


async def _is_late(api: ApiServer) -> bool:
    return bool(api.late)


async def test_no_gpu_is_reserved_before_the_watch_shows_what_others_have_bound(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 8))
    api.put(PODS, pod("b", 8))
    async with start() as leader, start(**IMPATIENT) as successor:
        api.mute = True  # the successor's watch shows nothing of it
        error = await successor.scheduler().bind(pod("b", 8), "n1")
        assert "the watch has not shown version" in error
        api.mute = False
        assert await leader.scheduler().bind(pod("a", 8), "n1") == ""
        assert "too few free GPUs" in await successor.scheduler().bind(pod("b", 8), "n1")
    assert len(api.bindings) == 1
    assert twice(live_pods(api)) == []


async def test_pod_that_another_extender_has_bound_is_not_decided_again(
    start: Start, api: ApiServer
) -> None:
    for name in ("a", "b", "c"):
        api.put(PODS, pod(name, 4))
    async with start() as leader, start() as successor:
        for name in ("a", "b"):
            assert await leader.scheduler().bind(pod(name, 4), "n1") == ""
        for name in ("a", "b"):
            assert await successor.scheduler().bind(pod(name, 4), "n1") == ""
        assert "too few free GPUs" in await successor.scheduler().bind(pod("c", 4), "n1")
    assert len(api.bindings) == 2


async def test_claim_of_another_extender_is_invalidated_before_a_new_decision(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 4))
    api.faults.append(BINDING_LATE)
    async with start() as leader, start() as successor:
        in_flight = asyncio.create_task(leader.scheduler().bind(pod("a", 4), "n1"))
        await until(lambda: _is_late(api))
        assert await successor.scheduler().bind(pod("a", 4), "n1") == ""
        api.carry_out_late()
        in_flight.cancel()
    assert len(api.bindings) == 1


async def test_unresolved_claim_keeps_its_gpus(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("stuck", 4))
    api.put(PODS, pod("next", 2))
    api.faults.append(BINDING_LATE)
    used = 'gputopo_ledger_gpus{state="used"}'
    async with start() as leader, start() as successor:
        in_flight = asyncio.create_task(leader.scheduler().bind(pod("stuck", 4), "n1"))
        await until(lambda: _is_late(api))
        untouchable = Fault("PATCH", "/pods/stuck/", 403, times=None)
        api.faults.append(untouchable)
        assert await successor.scheduler().bind(pod("next", 2), "n1") == ""
        error = await successor.scheduler().bind(pod("stuck", 4), "n1")
        assert "too few free GPUs" in error
        assert await successor.metric(used) == 6
        assert claimed(api) == ["next", "stuck"]
        api.faults.remove(untouchable)
        await until(lambda: _is(successor, used, 2))
        in_flight.cancel()
    assert twice(live_pods(api)) == []


async def test_frozen_leader_sees_the_claims_of_its_successor(start: Start, api: ApiServer) -> None:
    for name in ("before", "meanwhile", "after"):
        api.put(PODS, pod(name, 4))
    async with start() as leader, start() as successor:
        assert await leader.scheduler().bind(pod("before", 4), "n1") == ""
        assert await successor.scheduler().bind(pod("meanwhile", 4), "n1") == ""
        assert "too few free GPUs" in await leader.scheduler().bind(pod("after", 4), "n1")
    assert twice(live_pods(api)) == []


async def test_decision_from_before_claims_were_read_is_made_again(
    start: Start, api: ApiServer
) -> None:
    for name, gpus in (("first", 2), ("b", 2), ("c", 2), ("of-successor", 1), ("others", 4)):
        api.put(PODS, pod(name, gpus))
    used = 'gputopo_ledger_gpus{state="used"}'
    async with start() as leader, start() as successor:
        scheduler = leader.scheduler()
        assert await scheduler.bind(pod("first", 2), "n1") == ""
        assert await successor.scheduler().bind(pod("of-successor", 1), "n1") == ""
        await until(lambda: _is(leader, used, 3))
        api.mute = True
        assert await successor.scheduler().bind(pod("others", 4), "n1") == ""
        late: list[asyncio.Task[str]] = []

        async def another_is_decided_while_the_claims_are_written() -> None:
            late.append(asyncio.create_task(scheduler.bind(pod("c", 2), "n1")))
            await until(lambda: _is(leader, used, 7))
            api.mute = False
            api.put(PODS, pod("wakes-the-watch"))

        before_lease_write(api, another_is_decided_while_the_claims_are_written)
        for error in (await scheduler.bind(pod("b", 2), "n1"), await late[0]):
            assert "too few free GPUs" in error
    assert len(api.bindings) == 3
    assert twice(live_pods(api)) == []


async def test_claims_of_a_later_decision_differ(start: Start, api: ApiServer) -> None:
    """The API server keeps the version of a Lease that is written as it was."""
    for name in ("a", "b"):
        api.put(PODS, pod(name, 8))
    async with start() as leader, start() as successor:
        decided, go_on = asyncio.Event(), asyncio.Event()
        others: list[asyncio.Task[str]] = []

        async def the_successor_waits() -> None:
            decided.set()
            await go_on.wait()

        async def the_successor_calls_it_off_and_decides() -> None:
            before_lease_write(api, the_successor_waits)
            others.append(asyncio.create_task(successor.scheduler().bind(pod("b", 8), "n1")))
            await decided.wait()

        before_binding(api, the_successor_calls_it_off_and_decides)
        assert await leader.scheduler().bind(pod("a", 8), "n1") == ""
        go_on.set()
        assert "too few free GPUs" in await others[0]
    assert twice(live_pods(api)) == []


async def test_two_leaders_share_no_gpu(start: Start, api: ApiServer) -> None:
    pods = [pod(f"p{number}", 1 + number % 2) for number in range(16)]
    for each in pods:
        api.put(PODS, each)
    async with start() as one, start() as other:
        schedulers = [one.scheduler(), other.scheduler()]
        errors = await asyncio.gather(
            *(scheduler.bind(each, "n1") for each in pods for scheduler in schedulers)
        )
        assert {*errors} <= {"", "n1: too few free GPUs", KEEP_CHANGING}
        # A claim that the other leader invalidated may have left GPUs free.
        again = [await schedulers[0].bind(each, "n1") for each in pods]
        assert {*again} == {"", "n1: too few free GPUs"}
    assert twice(live_pods(api)) == []
    placed = [each for each in live_pods(api) if each["spec"].get("nodeName")]
    assert sum(len(uuids_of(each)) for each in placed) == len(DGX.gpus)


async def test_no_gpu_is_reserved_if_the_claims_cannot_be_read(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 2))
    api.put(PODS, pod("b", 2))
    async with start() as extender:
        assert await extender.scheduler().bind(pod("a", 2), "n1") == ""
    written = lease(api)
    written["metadata"]["annotations"][CLAIMS_ANNOTATION] = '{"v":1,"pods":[{"gpus":[7]}]}'
    api.put(LEASES, written)
    async with start() as extender:
        error = await extender.scheduler().bind(pod("b", 2), "n1")
        where = "Lease gputopo-system/gputopo-claims: annotation gputopo.io/claims: pods[0]"
        assert where in error
        del written["metadata"]["annotations"][CLAIMS_ANNOTATION]
        api.put(LEASES, written)
        assert "missing" in await extender.scheduler().bind(pod("b", 2), "n1")
    assert len(api.bindings) == 1


async def test_extender_without_rights_on_leases_binds_nothing(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 8))
    async with start() as extender:
        scheduler = extender.scheduler()
        api.faults.append(LEASES_FORBIDDEN)
        assert (
            "the claims of other extenders cannot be read: API server: 403"
            in await scheduler.bind(pod("a", 8), "n1")
        )
        api.faults.remove(LEASES_FORBIDDEN)

        async def rights_are_removed() -> None:
            api.faults.append(LEASES_FORBIDDEN)

        before_lease_write(api, rights_are_removed)
        assert "the GPUs cannot be claimed: API server: 403" in await scheduler.bind(
            pod("a", 8), "n1"
        )
        assert await extender.metric('gputopo_ledger_gpus{state="used"}') == 0
        api.faults.remove(LEASES_FORBIDDEN)
        assert await scheduler.bind(pod("a", 8), "n1") == ""
    assert len(api.bindings) == 1


async def test_claims_of_a_write_without_a_response_are_found(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("a", 8))
    api.put(PODS, pod("b", 8))
    async with start(**IMPATIENT) as extender:
        scheduler = extender.scheduler()
        api.faults.append(LEASE_WRITE_RESPONSES_LOST)
        assert "the GPUs cannot be claimed" in await scheduler.bind(pod("a", 8), "n1")
        api.faults.clear()
        assert claimed(api) == ["a"]
        assert await scheduler.bind(pod("b", 8), "n1") == ""
        assert claimed(api) == ["b"]


async def test_topology_that_changes_during_a_bind_causes_a_new_decision(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 4))
    async with start() as extender:
        first_half = topology_object("n1", DGX, generation=2, unhealthy=[0, 1, 2, 3])

        async def half_of_it_breaks() -> None:
            api.put(TOPOLOGIES, first_half)
            await until(lambda: _is(extender, 'gputopo_ledger_gpus{state="unhealthy"}', 4))

        before_lease_write(api, half_of_it_breaks)
        assert await extender.scheduler().bind(pod("a", 4), "n1") == ""
    assert set(uuids_of(api.pod("a"))) == {gpu.uuid for gpu in DGX.gpus[4:]}
    assert json.loads(api.pod("a")["metadata"]["annotations"][GPUS_ANNOTATION])["generation"] == 2


async def test_topology_that_is_created_again_during_a_bind_causes_a_new_decision(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 4))
    others = [dataclasses.replace(gpu, uuid=GpuUuid(f"{gpu.uuid}-new")) for gpu in DGX.gpus]
    again = topology_object("n1", dataclasses.replace(DGX, gpus=tuple(others)))
    async with start() as extender:

        async def it_is_created_again() -> None:
            api.delete(TOPOLOGIES, "n1")
            await until(lambda: _is(extender, 'gputopo_ledger_nodes{state="serving"}', 1))
            api.put(TOPOLOGIES, again)
            await until(lambda: _is(extender, 'gputopo_ledger_nodes{state="serving"}', 2))

        before_lease_write(api, it_is_created_again)
        assert await extender.scheduler().bind(pod("a", 4), "n1") == ""
    assert set(uuids_of(api.pod("a"))) <= {gpu.uuid for gpu in others}


async def test_bind_fails_after_repeated_changes_by_others(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("a"))
    api.put(PODS, pod("b"))
    async with start() as extender:
        assert await extender.scheduler().bind(pod("a"), "n1") == ""

        async def another_writes() -> None:
            api.put(LEASES, lease(api))
            before_lease_write(api, another_writes)

        before_lease_write(api, another_writes)
        assert "other clients keep changing the pod" in await extender.scheduler().bind(
            pod("b"), "n1"
        )
        api.hooks.clear()
        assert await extender.scheduler().bind(pod("b"), "n1") == ""


async def _is(extender: Extender, metric: str, value: float) -> bool:
    return await extender.metric(metric) == value
