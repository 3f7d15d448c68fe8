"""Two extenders on one API server: what one has begun, the other finds, whatever happened to it."""

import asyncio
import dataclasses
import json

from extender_world import IMPATIENT, Extender, Start, twice, until, uuids_of
from gputopo.api.names import CLAIMS_ANNOTATION, GPUS_ANNOTATION
from gputopo.topology.model import GpuUuid
from gputopo_topologies.catalogue import named
from objects import Document, pod, topology_object
from small_api import LEASES, PODS, TOPOLOGIES, Fault, SmallApi

LEASE = "gputopo-system/gputopo-claims"
DGX = named("dgx1-v100", node="n1")
PATIENT = {"api_timeout_seconds": 30.0}


def live_pods(api: SmallApi) -> list[Document]:
    return list(api.objects[PODS].values())


def claims(api: SmallApi) -> list[Document]:
    text = api.objects[LEASES][LEASE]["metadata"]["annotations"][CLAIMS_ANNOTATION]
    found: list[Document] = json.loads(text)["pods"]
    return found


def claimed(api: SmallApi) -> list[str]:
    return [each["name"] for each in claims(api)]


async def test_a_bind_claims_its_gpus_until_it_is_carried_out(start: Start, api: SmallApi) -> None:
    await api.put(PODS, pod("a", 2))
    await api.put(PODS, pod("b", 1))
    async with start(**PATIENT) as extender:
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


async def test_binds_that_begin_together_are_claimed_together(start: Start, api: SmallApi) -> None:
    pods = [pod(f"p{number}") for number in range(8)]
    for each in pods:
        await api.put(PODS, each)
    async with start(**PATIENT) as extender:
        scheduler = extender.scheduler()
        before = api.version
        assert await asyncio.gather(*(scheduler.bind(each, "n1") for each in pods)) == [""] * 8
        # One change catches up with the watch, eight are Bindings: the rest are claims.
        assert 1 <= api.version - before - 9 <= 4
    assert twice(live_pods(api)) == []


async def test_a_binding_that_a_dead_leader_left_under_way_is_called_off_by_the_next(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("late", 8))
    await api.put(PODS, pod("next", 8))
    api.binding_faults.append(Fault.LATE)
    async with start(**PATIENT) as leader, start(**PATIENT) as successor:
        under_way = asyncio.create_task(leader.scheduler().bind(pod("late", 8), "n1"))
        await until(lambda: _is_late(api))
        assert await successor.scheduler().bind(pod("next", 8), "n1") == ""
        await api.carry_out_late()
        under_way.cancel()
    assert "nodeName" not in api.pod("late")["spec"]
    assert twice(live_pods(api)) == []


async def _is_late(api: SmallApi) -> bool:
    return bool(api.late)


async def test_nothing_is_given_away_before_the_watch_shows_what_others_have_bound(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("a", 8))
    await api.put(PODS, pod("b", 8))
    async with start(**PATIENT) as leader, start(**IMPATIENT) as successor:
        api.mute = True  # the successor's watch shows nothing of it
        error = await successor.scheduler().bind(pod("b", 8), "n1")
        assert "the watch has not shown version" in error
        api.mute = False
        assert await leader.scheduler().bind(pod("a", 8), "n1") == ""
        assert "too few free GPUs" in await successor.scheduler().bind(pod("b", 8), "n1")
    assert len(api.bindings) == 1
    assert twice(live_pods(api)) == []


async def test_a_pod_that_another_extender_has_bound_is_not_decided_again(
    start: Start, api: SmallApi
) -> None:
    for name in ("a", "b", "c"):
        await api.put(PODS, pod(name, 4))
    async with start(**PATIENT) as leader, start(**PATIENT) as successor:
        for name in ("a", "b"):
            assert await leader.scheduler().bind(pod(name, 4), "n1") == ""
        for name in ("a", "b"):
            assert await successor.scheduler().bind(pod(name, 4), "n1") == ""
        assert "too few free GPUs" in await successor.scheduler().bind(pod("c", 4), "n1")
    assert len(api.bindings) == 2


async def test_a_pod_that_another_extender_has_claimed_is_called_off_before_it_is_decided(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("a", 4))
    api.binding_faults.append(Fault.LATE)
    async with start(**PATIENT) as leader, start(**PATIENT) as successor:
        under_way = asyncio.create_task(leader.scheduler().bind(pod("a", 4), "n1"))
        await until(lambda: _is_late(api))
        assert await successor.scheduler().bind(pod("a", 4), "n1") == ""
        await api.carry_out_late()
        under_way.cancel()
    assert len(api.bindings) == 1


async def test_a_claim_that_cannot_be_settled_keeps_its_gpus_until_it_can(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("stuck", 4))
    await api.put(PODS, pod("next", 2))
    api.binding_faults.append(Fault.LATE)
    used = 'gputopo_ledger_gpus{state="used"}'
    async with start(**PATIENT) as leader, start(**PATIENT) as successor:
        under_way = asyncio.create_task(leader.scheduler().bind(pod("stuck", 4), "n1"))
        await until(lambda: _is_late(api))
        api.untouchable.add("stuck")
        assert await successor.scheduler().bind(pod("next", 2), "n1") == ""
        error = await successor.scheduler().bind(pod("stuck", 4), "n1")
        assert "too few free GPUs" in error
        assert await successor.metric(used) == 6
        assert claimed(api) == ["next", "stuck"]
        api.untouchable.clear()
        await until(lambda: _is(successor, used, 2))
        under_way.cancel()
    assert twice(live_pods(api)) == []


async def test_a_leader_that_wakes_up_finds_what_its_successor_gave_away(
    start: Start, api: SmallApi
) -> None:
    for name in ("before", "meanwhile", "after"):
        await api.put(PODS, pod(name, 4))
    async with start(**PATIENT) as leader, start(**PATIENT) as successor:
        assert await leader.scheduler().bind(pod("before", 4), "n1") == ""
        assert await successor.scheduler().bind(pod("meanwhile", 4), "n1") == ""
        assert "too few free GPUs" in await leader.scheduler().bind(pod("after", 4), "n1")
    assert twice(live_pods(api)) == []


async def test_what_was_decided_before_others_were_heard_of_is_decided_anew(
    start: Start, api: SmallApi
) -> None:
    for name, gpus in (("first", 2), ("b", 2), ("c", 2), ("of-successor", 1), ("others", 4)):
        await api.put(PODS, pod(name, gpus))
    used = 'gputopo_ledger_gpus{state="used"}'
    async with start(**PATIENT) as leader, start(**PATIENT) as successor:
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
            await api.put(PODS, pod("wakes-the-watch"))

        api.before_a_lease_is_written = another_is_decided_while_the_claims_are_written
        for error in (await scheduler.bind(pod("b", 2), "n1"), await late[0]):
            assert "too few free GPUs" in error
    assert len(api.bindings) == 3
    assert twice(live_pods(api)) == []


async def test_claims_that_are_written_again_are_other_claims(start: Start, api: SmallApi) -> None:
    """The API server keeps the version of a Lease that is written as it was."""
    for name in ("a", "b"):
        await api.put(PODS, pod(name, 8))
    async with start(**PATIENT) as leader, start(**PATIENT) as successor:
        decided, go_on = asyncio.Event(), asyncio.Event()
        others: list[asyncio.Task[str]] = []

        async def the_successor_waits() -> None:
            decided.set()
            await go_on.wait()

        async def the_successor_calls_it_off_and_decides() -> None:
            api.before_a_lease_is_written = the_successor_waits
            others.append(asyncio.create_task(successor.scheduler().bind(pod("b", 8), "n1")))
            await decided.wait()

        api.before_a_binding = the_successor_calls_it_off_and_decides
        assert await leader.scheduler().bind(pod("a", 8), "n1") == ""
        go_on.set()
        assert "too few free GPUs" in await others[0]
    assert twice(live_pods(api)) == []


async def test_two_that_believe_to_lead_share_no_gpu(start: Start, api: SmallApi) -> None:
    pods = [pod(f"p{number}", 1 + number % 2) for number in range(16)]
    for each in pods:
        await api.put(PODS, each)
    async with start(**PATIENT) as one, start(**PATIENT) as other:
        schedulers = [one.scheduler(), other.scheduler()]
        await asyncio.gather(
            *(scheduler.bind(each, "n1") for each in pods for scheduler in schedulers)
        )
    assert twice(live_pods(api)) == []
    assert len(api.bindings) >= 1


async def test_nothing_is_given_away_where_the_claims_cannot_be_read(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("a", 2))
    await api.put(PODS, pod("b", 2))
    async with start(**PATIENT) as extender:
        assert await extender.scheduler().bind(pod("a", 2), "n1") == ""
    lease = api.objects[LEASES][LEASE]
    lease["metadata"]["annotations"][CLAIMS_ANNOTATION] = '{"v":1,"pods":[{"gpus":[7]}]}'
    await api.put(LEASES, lease)
    async with start(**PATIENT) as extender:
        error = await extender.scheduler().bind(pod("b", 2), "n1")
        where = "Lease gputopo-system/gputopo-claims: annotation gputopo.io/claims: pods[0]"
        assert where in error
        del lease["metadata"]["annotations"][CLAIMS_ANNOTATION]
        await api.put(LEASES, lease)
        assert "missing" in await extender.scheduler().bind(pod("b", 2), "n1")
    assert len(api.bindings) == 1


async def test_who_may_not_claim_gives_nothing_away(start: Start, api: SmallApi) -> None:
    await api.put(PODS, pod("a", 8))
    async with start(**PATIENT) as extender:
        scheduler = extender.scheduler()
        api.forbid_leases = True
        assert "cannot find out what others have claimed: API server: 403" in await scheduler.bind(
            pod("a", 8), "n1"
        )
        api.forbid_leases = False

        async def rights_are_taken_away() -> None:
            api.forbid_leases = True

        api.before_a_lease_is_written = rights_are_taken_away
        assert "cannot claim its GPUs: API server: 403" in await scheduler.bind(pod("a", 8), "n1")
        assert await extender.metric('gputopo_ledger_gpus{state="used"}') == 0
        api.forbid_leases = False
        assert await scheduler.bind(pod("a", 8), "n1") == ""
    assert len(api.bindings) == 1


async def test_claims_from_a_lost_write_are_found_again(start: Start, api: SmallApi) -> None:
    await api.put(PODS, pod("a", 8))
    await api.put(PODS, pod("b", 8))
    async with start(**IMPATIENT) as extender:
        scheduler = extender.scheduler()
        api.lease_answers_are_lost = True
        assert "cannot claim its GPUs" in await scheduler.bind(pod("a", 8), "n1")
        api.lease_answers_are_lost = False
        assert claimed(api) == ["a"]
        assert await scheduler.bind(pod("b", 8), "n1") == ""
        assert claimed(api) == ["b"]


async def test_a_topology_that_changes_under_a_bind_is_decided_on_anew(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("a", 4))
    async with start(**PATIENT) as extender:
        first_half = topology_object("n1", DGX, generation=2, unhealthy=[0, 1, 2, 3])

        async def half_of_it_breaks() -> None:
            await api.put(TOPOLOGIES, first_half)
            await until(lambda: _is(extender, 'gputopo_ledger_gpus{state="unhealthy"}', 4))

        api.before_a_lease_is_written = half_of_it_breaks
        assert await extender.scheduler().bind(pod("a", 4), "n1") == ""
    assert set(uuids_of(api.pod("a"))) == {gpu.uuid for gpu in DGX.gpus[4:]}
    assert json.loads(api.pod("a")["metadata"]["annotations"][GPUS_ANNOTATION])["generation"] == 2


async def test_a_topology_that_is_made_anew_under_a_bind_is_decided_on_anew(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("a", 4))
    others = [dataclasses.replace(gpu, uuid=GpuUuid(f"{gpu.uuid}-new")) for gpu in DGX.gpus]
    anew = topology_object("n1", dataclasses.replace(DGX, gpus=tuple(others)))
    async with start(**PATIENT) as extender:

        async def it_is_made_anew() -> None:
            await api.delete(TOPOLOGIES, "n1")
            await until(lambda: _is(extender, 'gputopo_ledger_nodes{state="serving"}', 1))
            await api.put(TOPOLOGIES, anew)
            await until(lambda: _is(extender, 'gputopo_ledger_nodes{state="serving"}', 2))

        api.before_a_lease_is_written = it_is_made_anew
        assert await extender.scheduler().bind(pod("a", 4), "n1") == ""
    assert set(uuids_of(api.pod("a"))) <= {gpu.uuid for gpu in others}


async def test_a_bind_that_others_disturb_again_and_again_fails_and_says_so(
    start: Start, api: SmallApi
) -> None:
    await api.put(PODS, pod("a"))
    await api.put(PODS, pod("b"))
    async with start(**PATIENT) as extender:
        assert await extender.scheduler().bind(pod("a"), "n1") == ""

        async def another_writes() -> None:
            await api.put(LEASES, api.objects[LEASES][LEASE])
            api.before_a_lease_is_written = another_writes

        api.before_a_lease_is_written = another_writes
        assert "being changed by others" in await extender.scheduler().bind(pod("b"), "n1")
        api.before_a_lease_is_written = None
        assert await extender.scheduler().bind(pod("b"), "n1") == ""


async def _is(extender: Extender, metric: str, value: float) -> bool:
    return await extender.metric(metric) == value
