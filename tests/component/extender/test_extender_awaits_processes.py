"""GPUs of deleted pods are offered when their processes are gone."""

import asyncio

from gputopo.catalogue import named
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import Document, container_states, pod, topology_object
from support.extender.service import Extender, Start, until

DGX = named("dgx1-v100", node="n1")
WAITING = "n1: GPUs in use by processes of deleted pod default/old: waiting until they end"
FREE = 'gputopo_ledger_gpus{state="free"}'
DELETED_PODS = 'gputopo_ledger_gpus{state="deleted_pods"}'
ALL = range(8)


async def report(api: ApiServer, version: int, *, listed: bool, deleted: bool = False) -> None:
    """Publish what the agent of n1 has seen up to a version."""
    held = dict.fromkeys(ALL, "uid-old") if listed else None
    marked = ALL if deleted else ()
    document = topology_object("n1", DGX, used_by=held, deleted=marked, pods_version=version)
    if deleted:
        for gpu in document["status"]["gpus"]:
            gpu["pod"] = "old"
    api.put(TOPOLOGIES, document)


async def old_pod_runs(extender: Extender, api: ApiServer) -> None:
    """Bind a pod to all GPUs of n1, and start it."""
    api.put(PODS, pod("old", 8))
    assert await extender.scheduler().bind(pod("old", 8), "n1") == ""
    running: Document = {"phase": "Running", "containerStatuses": container_states("running")}
    api.put(PODS, {**api.pod("old"), "status": running})
    await report(api, api.version, listed=True)
    await until(lambda: is_(extender, 'gputopo_ledger_reservations{progress="bound"}', 0))


async def is_(extender: Extender, line: str, value: float) -> bool:
    return await extender.metric(line) == value


async def test_forced_deletion_frees_no_gpu_before_the_agent_confirms(
    start: Start, api: ApiServer
) -> None:
    await report(api, 1, listed=False)
    api.put(PODS, pod("next", 2))
    async with start() as extender:
        scheduler = extender.scheduler()
        await old_pod_runs(extender, api)
        api.delete(PODS, "old")
        await until(lambda: is_(extender, DELETED_PODS, 8))
        response = await scheduler.filter(pod("next", 2), ["n1"])
        assert (response.fits, response.failed, response.error) == ([], {}, WAITING)
        rejected = await scheduler.bind(pod("next", 2), "n1")
        assert rejected == "n1: GPUs in use by processes of deleted pods"
        await report(api, api.version, listed=True, deleted=True)
        await asyncio.sleep(0.1)
        assert (await scheduler.filter(pod("next", 2), ["n1"])).error == WAITING
        elsewhere = await scheduler.filter(pod("next", 2), ["n1", "n2"])
        assert (elsewhere.fits, elsewhere.error) == (["n2"], "")
        assert elsewhere.failed == {"n1": "GPUs in use by processes of deleted pods"}
        await report(api, api.version, listed=False)
        await until(lambda: is_(extender, FREE, 16))
        assert await scheduler.bind(pod("next", 2), "n1") == ""


async def test_pod_that_kubelet_reports_as_ended_frees_its_gpus_at_once(
    start: Start, api: ApiServer
) -> None:
    await report(api, 1, listed=False)
    api.put(PODS, pod("next", 8))
    async with start() as extender:
        await old_pod_runs(extender, api)
        ended: Document = {
            "phase": "Succeeded",
            "containerStatuses": container_states("terminated"),
        }
        api.put(PODS, {**api.pod("old"), "status": ended})
        await until(lambda: is_(extender, FREE, 16))
        assert await extender.scheduler().bind(pod("next", 8), "n1") == ""


async def test_restarted_extender_counts_what_the_agent_lists(start: Start, api: ApiServer) -> None:
    await report(api, 200, listed=True, deleted=True)
    async with start() as extender:
        assert (await extender.scheduler().filter(pod("next", 8), ["n1"])).error == WAITING


async def test_node_whose_kubelet_rejects_pods_is_paused(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("a", 1))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(pod("a", 1), "n1") == ""
        rejected = {
            "reason": "UnexpectedAdmissionError",
            "message": "Pod was rejected: no answer",
        }
        api.put(PODS, {**api.pod("a"), "status": {"phase": "Failed", **rejected}})
        await until(lambda: is_(extender, 'gputopo_ledger_nodes{state="not_ready"}', 1))
        assert (await scheduler.filter(pod("b"), ["n1", "n2"])).fits == ["n2"]
        assert (await scheduler.filter(pod("b"), ["n1"])).error == (
            "1 of 1 nodes are not ready but may take the pod soon: kubelet rejected pod default/a "
            "(UnexpectedAdmissionError: Pod was rejected: no answer): the node is not used for 15 s"
        )
