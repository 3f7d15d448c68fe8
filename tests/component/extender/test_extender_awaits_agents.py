"""A node whose agent is not ready takes no new pods and keeps its pods; waiting pods get errors."""

import asyncio

from gputopo.catalogue import named
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import Document, pod, topology_object
from support.extender.kube_scheduler import Scheduler
from support.extender.service import Extender, Start, until

NODES = ["n1", "n2"]
NOT_READY = "the node's agent is not ready: Stopping: the message"
LEDGER = "gputopo_ledger_gpus"


async def publish(
    extender: Extender, api: ApiServer, *, not_ready: str | None, nodes: tuple[str, ...] = ("n1",)
) -> None:
    """Publish the state of the agents of these nodes, and wait until the extender has it."""
    for node in nodes:
        topology = topology_object(node, named("dgx1-v100", node=node), not_ready=not_ready)
        api.put(TOPOLOGIES, topology)
    wanted = 0 if not_ready is None else len(nodes)

    async def is_shown() -> bool:
        return await extender.metric('gputopo_ledger_nodes{state="not_ready"}') == wanted

    await until(is_shown)


async def queue(scheduler: Scheduler, wanted: Document) -> tuple[str | None, int]:
    """Schedule a pod as kube-scheduler's queue does while nothing happens in the cluster.

    After an error the pod is tried again after a pause; a pod that fits nowhere waits for an event,
    here forever. Return the pod's node and the number of errors.
    """
    errors = 0
    while True:
        found = await scheduler.filter(wanted, NODES)
        if not found.error:
            return await scheduler.schedule(wanted, found.fits) if found.fits else None, errors
        errors += 1
        await asyncio.sleep(0.05)


async def test_node_whose_agent_is_not_ready_is_filtered_out_with_its_reason(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 2))
    async with start() as extender:
        scheduler = extender.scheduler()
        await publish(extender, api, not_ready="Stopping")
        response = await scheduler.filter(pod("a", 2), NODES)
        assert (response.fits, response.failed, response.error) == (["n2"], {"n1": NOT_READY}, "")
        assert response.unresolvable == {}
        assert await scheduler.prioritize(pod("a", 2), NODES) == {"n1": 0, "n2": 10}
        assert await scheduler.bind(pod("a", 2), "n1") == f"n1: {NOT_READY}"
        assert (
            await extender.metric('gputopo_extender_filtered_nodes_total{reason="not_ready"}') == 1
        )
        assert await extender.metric('gputopo_extender_binds_total{outcome="no_fit"}') == 1
    assert api.bindings == []


async def test_node_whose_agent_is_not_ready_is_not_offered_for_preemption(
    start: Start, api: ApiServer
) -> None:
    for name in ("one", "two"):
        api.put(PODS, pod(name, 8))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(pod("one", 8), "n1") == ""
        assert await scheduler.bind(pod("two", 8), "n2") == ""
        await publish(extender, api, not_ready="Stopping")
        offers = {"n1": [pod("one", 8)], "n2": [pod("two", 8)]}
        assert await scheduler.preempt(pod("urgent", 8), offers) == {"n2": ["uid-two"]}
        response = await scheduler.filter(pod("urgent", 8), NODES)
        assert "n1: too few free GPUs; n2: too few free GPUs" in response.error


async def test_usage_of_a_node_does_not_change_while_its_agent_is_not_ready(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 3))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(pod("a", 3), "n1") == ""
        before = {
            state: await extender.metric(f'{LEDGER}{{state="{state}"}}')
            for state in ("free", "used", "unhealthy", "blocked")
        }
        await publish(extender, api, not_ready="Stopping")
        for state, count in before.items():
            assert await extender.metric(f'{LEDGER}{{state="{state}"}}') == count
        assert await extender.metric('gputopo_ledger_nodes{state="serving"}') == 1
        assert await scheduler.bind(pod("a", 3), "n1") == "", "bound before: bind may be repeated"


async def test_pod_that_waits_for_an_agent_is_placed_when_the_agent_is_ready(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("a", 2))
    async with start() as extender:
        scheduler = extender.scheduler()
        await publish(extender, api, not_ready="Stopping", nodes=("n1", "n2"))
        response = await scheduler.filter(pod("a", 2), NODES)
        assert (response.fits, response.failed) == ([], {})
        assert (
            response.error == f"2 of 2 nodes are not ready but may take the pod soon: {NOT_READY}"
        )
        waiting = asyncio.create_task(queue(scheduler, pod("a", 2)))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await publish(extender, api, not_ready=None, nodes=("n1", "n2"))
        async with asyncio.timeout(60):
            node, errors = await waiting
        assert (node in NODES, errors > 1) == (True, True)


async def test_pod_that_waits_for_other_pods_gets_no_error(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("identity", 8))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(pod("identity", 8), "n2") == ""
        await publish(extender, api, not_ready="Stopping")
        assert await queue(scheduler, pod("never", 9)) == (None, 0)
