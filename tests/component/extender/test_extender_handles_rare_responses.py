"""The extender with rare requests of kube-scheduler and rare responses of the API server."""

import asyncio

import pytest

from gputopo.catalogue import named
from support.api.faults import Fault
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import pod, topology_object
from support.extender.service import BINDING_SILENT_BEFORE, Start, until

NODES = ["n1", "n2"]
PODS_UNAVAILABLE = Fault("GET", "/pods/", 503, "overloaded", times=None)
POD_NOT_FOUND = Fault("PATCH", "/status", 404, "not found")


async def test_prioritize_returns_0_for_a_pod_that_cannot_be_placed(start: Start) -> None:
    malformed = pod("malformed", 1, annotations={"gputopo.io/pattern": "Spiral"})
    async with start() as extender:
        for document in (pod("cpu-only", 0), malformed):
            scores = await extender.scheduler().prioritize(document, NODES)
            assert scores == {"n1": 0, "n2": 0}


async def test_unknown_path_is_counted_as_rejected(start: Start) -> None:
    async with (
        start() as extender,
        extender.http.post(f"{extender.addresses.verbs}/nothing", json={}) as response,
    ):
        assert response.status == 404
        series = 'gputopo_extender_request_duration_seconds_count{outcome="rejected",verb="other"}'
        assert await extender.metric(series) == 1


async def test_metrics_show_a_kind_that_is_not_listed_yet(start: Start, api: ApiServer) -> None:
    api.down = True
    async with start(wait=False) as extender:
        assert await extender.metric('gputopo_cache_synced{kind="pods"}') == 0


async def test_ended_pod_is_not_bound(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("ended", 1, phase="Failed"))
    async with start() as extender:
        assert "the pod has ended" in await extender.scheduler().bind(pod("ended"), "n1")


async def test_pod_that_cannot_be_read_is_not_bound(start: Start, api: ApiServer) -> None:
    async with start() as extender:
        api.faults.append(PODS_UNAVAILABLE)
        error = await extender.scheduler().bind(pod("unknown"), "n1")
    assert error.startswith("the pod cannot be read: API server: 503")


async def test_binding_with_an_unknown_result_reserves_its_node(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 8))
    async with start() as extender:
        scheduler = extender.scheduler()
        conflict = Fault("POST", "/binding", 409, "the pod was changed")
        api.faults.extend([conflict, PODS_UNAVAILABLE])
        assert "the result is not known yet" in await scheduler.bind(pod("a", 8), "n1")
        assert "being bound to n1" in await scheduler.bind(pod("a", 8), "n2")


async def test_binding_of_a_pod_that_is_deleted_meanwhile_fails(
    start: Start, api: ApiServer
) -> None:
    for name in ("a", "b"):
        api.put(PODS, pod(name, 8))
    async with start(api_timeout_seconds=2) as extender:
        scheduler = extender.scheduler()
        api.faults.append(POD_NOT_FOUND)
        error = await scheduler.bind(pod("a", 8), "n1")
        assert error == "the claims of other extenders cannot be read: pod default/a was deleted"
        assert await scheduler.bind(pod("b", 8), "n2") == ""
        api.faults.extend([BINDING_SILENT_BEFORE, POD_NOT_FOUND])
        assert "the pod was deleted" in await scheduler.bind(pod("a", 8), "n1")


async def test_filter_waits_on_after_a_change_that_frees_no_gpu(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("user", 8))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(pod("user", 8), "n1") == ""
        filtering = asyncio.create_task(scheduler.filter(pod("next", 8), ["n1"]))
        await asyncio.sleep(0.02)
        api.put(TOPOLOGIES, topology_object("n3", named("dgx1-v100", node="n3")))
        assert "too few free GPUs" in (await filtering).error


async def test_pods_that_are_not_valid_or_request_no_gpu_are_skipped(
    start: Start, api: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    invalid = pod("invalid", 1)
    del invalid["spec"]["containers"][0]["name"]

    async def is_skipped() -> bool:
        return "skipped an invalid pod" in caplog.text

    async with start() as extender:
        api.put(PODS, pod("cpu-only", 0))
        api.put(PODS, invalid)
        await until(is_skipped)
        assert (await extender.scheduler().filter(pod("next", 8), ["n1"])).fits == ["n1"]
