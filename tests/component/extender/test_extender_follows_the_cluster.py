"""Lost changes are listed again, and no verb is served from stale data."""

import asyncio

from gputopo.catalogue import named
from support.api.faults import Fault
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import pod, topology_object
from support.extender.service import Extender, Start, until

USED = 'gputopo_ledger_gpus{state="used"}'


async def _used(extender: Extender, wanted: int) -> bool:
    return await extender.metric(USED) == wanted


async def _lists_are(api: ApiServer, kind: str, least: int) -> bool:
    return api.lists(kind) >= least


async def test_changes_that_happened_while_the_watch_was_broken_are_found_by_listing_again(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 4))
    async with start() as extender:
        assert await extender.scheduler().bind(pod("a", 4), "n1") == ""
        await until(lambda: _used(extender, 4))
        api.mute = True
        api.delete(PODS, "a")
        api.end_watches(compact=True)
        api.mute = False
        await until(lambda: _used(extender, 0))
        await until(lambda: _lists_are(api, PODS, 2))


async def test_silent_watch_is_replaced_by_a_list(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("a", 4))
    async with start(relist_after_silence_seconds=0.3) as extender:
        assert await extender.scheduler().bind(pod("a", 4), "n1") == ""
        await until(lambda: _used(extender, 4))
        api.mute = True
        api.delete(PODS, "a")
        await until(lambda: _used(extender, 0))


async def test_cluster_without_silence_is_listed_again_as_well(
    start: Start, api: ApiServer
) -> None:
    async def after_another_change() -> bool:
        api.put(PODS, pod("a", 4))
        return api.lists(PODS) >= 3

    async with start(relist_every_seconds=0.3):
        await until(after_another_change)


async def test_rejected_watches_do_not_cause_many_lists(start: Start, api: ApiServer) -> None:
    api.faults.append(Fault("GET", "watch=true", 503, times=None))
    async with start() as extender:
        await asyncio.sleep(3.0)
        # After 0.2, 0.4, 0.8, ... seconds or half of that, where it could be twenty lists.
        assert api.lists(PODS) <= 7
        await until(lambda: _lists_are(api, PODS, 2))
        api.faults.clear()
        api.put(PODS, pod("a", 4))

        async def bound() -> bool:
            return await extender.scheduler().bind(pod("a", 4), "n1") == ""

        # The first bind waits for the watch, and fails rather than wait for long.
        await until(bound)
        await until(lambda: _used(extender, 4))


async def test_verbs_return_503_after_a_long_silence_until_the_next_list(
    start: Start, api: ApiServer
) -> None:
    async with start(relist_after_silence_seconds=0.2, stale_after_seconds=0.6) as extender:
        api.down = True

        async def closed() -> bool:
            return (await extender.readiness())[0] == 503

        await until(closed)
        assert "the last list or event was" in (await extender.readiness())[1]
        async with extender.http.post(f"{extender.addresses.verbs}/filter", json={}) as response:
            assert response.status == 503
        assert await extender.metric('gputopo_cache_age_seconds{kind="pods"}') > 0.6
        api.down = False
        await extender.ready()


async def test_topologies_come_change_and_go(start: Start, api: ApiServer) -> None:
    async with start() as extender:
        scheduler = extender.scheduler()
        assert (await scheduler.filter(pod("a"), ["n3"])).fits == []
        api.put(TOPOLOGIES, topology_object("n3", named("summit", node="n3")))

        async def fits(size: int) -> bool:
            return (await scheduler.filter(pod("a", size), ["n3"])).fits == ["n3"]

        async def unfit(size: int) -> bool:
            return not await fits(size)

        await until(lambda: fits(6))
        api.put(TOPOLOGIES, topology_object("n3", named("summit", node="n3"), unhealthy=[5]))
        await until(lambda: unfit(6))
        assert await fits(5)
        api.delete(TOPOLOGIES, "n3")
        await until(lambda: unfit(1))


async def test_lists_in_pages_are_read_to_the_end(start: Start, api: ApiServer) -> None:
    api.page_size = 2
    for number in range(7):
        api.put(PODS, pod(f"p{number}", node="n1"))
    async with start() as extender:
        response = await extender.scheduler().filter(pod("next", 2), ["n1"])
    assert "other schedulers" in response.error


async def test_observed_allocations_count_as_soon_as_the_agent_reports_them(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("foreign", 2, node="n1"))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert (await scheduler.filter(pod("a", 6), ["n1"])).fits == ["n1"]
        assert "does not yet report" in (await scheduler.filter(pod("a", 7), ["n1"])).error
        seen = topology_object(
            "n1", named("dgx1-v100", node="n1"), used_by={0: "uid-foreign", 3: "uid-foreign"}
        )
        api.put(TOPOLOGIES, seen)
        await until(lambda: _used(extender, 2))
        assert "n1: too few free GPUs" in (await scheduler.filter(pod("a", 7), ["n1"])).error


async def test_extender_stops_cleanly_while_watches_are_open(start: Start, api: ApiServer) -> None:
    before = len(asyncio.all_tasks())
    async with start():
        await asyncio.sleep(0.1)
    api.end_watches()

    async def quiet() -> bool:
        return len(asyncio.all_tasks()) <= before

    await until(quiet)
