"""On nodes whose kubelet takes GPUs by NUMA node, the extender chooses only among these GPUs."""

import json
from typing import Any

from gputopo.api.names import PLACEMENT_ANNOTATION, RESOURCE
from gputopo.catalogue import named
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import Document, pod, topology_object
from support.extender.service import Start, before_lease_write, until, uuids_of

NODES = ["n1", "n2"]
TOPOLOGY = named("dgx1-v100", node="n1")
INDEX_OF = {str(uuid): index for uuid, index in TOPOLOGY.index_of.items()}


def put_alignment(
    api: ApiServer, policy: str, *admitted: str, free_cpus: tuple[int, int] = (0, 1), **used: Any
) -> None:
    """Let the agent of n1 report how its kubelet takes NUMA nodes."""
    document = topology_object("n1", TOPOLOGY, **used)
    cpus = [
        {"numaNode": node, "total": 1, "allocatable": node, "free": free}
        for node, free in enumerate(free_cpus)
    ]
    alignment = {"policy": policy, "scope": "container", "cpus": cpus, "admitted": [*admitted]}
    document["status"] |= {"alignment": alignment}
    api.put(TOPOLOGIES, document)


def with_cpu(name: str, gpus: int) -> Document:
    """Return a pod with one exclusive CPU."""
    document = pod(name, gpus)
    limits = {RESOURCE: str(gpus), "cpu": "1", "memory": "1Gi"}
    document["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": limits}
    document["status"]["qosClass"] = "Guaranteed"
    return document


async def test_gpus_are_chosen_from_the_numa_node_of_the_free_cpu(
    start: Start, api: ApiServer
) -> None:
    put_alignment(api, "restricted")
    api.put(PODS, with_cpu("pinned", 2))
    async with start() as extender:
        assert await extender.scheduler().schedule(with_cpu("pinned", 2), ["n1"]) == "n1"
    chosen = {INDEX_OF[uuid] for uuid in uuids_of(api.pod("pinned"))}
    assert chosen <= {4, 5, 6, 7}
    annotation = json.loads(api.pod("pinned")["metadata"]["annotations"][PLACEMENT_ANNOTATION])
    replay = annotation["replay"]
    assert replay["topologyManagerPolicy"] == "restricted"
    assert replay["usable"] == [4, 5, 6, 7]


async def test_a_pod_that_kubelet_never_admits_is_rejected_with_the_reason(
    start: Start, api: ApiServer
) -> None:
    put_alignment(api, "restricted")
    async with start() as extender:
        found = await extender.scheduler().filter(with_cpu("wide", 8), NODES)
    assert found.fits == ["n2"]
    assert (
        "topologyManagerPolicy restricted: 8 GPUs and 1 exclusive CPU" in (found.unresolvable["n1"])
    )


async def test_the_next_pod_waits_until_the_agent_has_observed_the_former_one(
    start: Start, api: ApiServer
) -> None:
    put_alignment(api, "best-effort")
    for name in ("a", "b"):
        api.put(PODS, pod(name, 2))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.schedule(pod("a", 2), ["n1"]) == "n1"
        waiting = await scheduler.filter(pod("b", 2), ["n1"])
        assert "still admitting or releasing another pod" in waiting.error
        assert "still admitting or releasing another pod" in await scheduler.bind(pod("b", 2), "n1")
        used = {INDEX_OF[uuid]: "uid-a" for uuid in uuids_of(api.pod("a"))}
        put_alignment(api, "best-effort", "uid-a", used_by=used)

        async def fits() -> bool:
            return bool((await scheduler.filter(pod("b", 2), ["n1"])).fits)

        await until(fits)
        assert await scheduler.bind(pod("b", 2), "n1") == ""
    assert {INDEX_OF[uuid] for name in "ab" for uuid in uuids_of(api.pod(name))} == {0, 1, 2, 3}


async def test_no_binding_is_sent_if_a_pod_ends_while_the_claim_is_written(
    start: Start, api: ApiServer
) -> None:
    """kubelet could take the lower NUMA node that has become free meanwhile."""
    for name in ("a", "b"):
        api.put(PODS, pod(name, 4))
    async with start() as extender:
        scheduler = extender.scheduler()
        put_alignment(api, "best-effort")
        assert await scheduler.schedule(pod("a", 4), ["n1"]) == "n1"
        used = {INDEX_OF[uuid]: "uid-a" for uuid in uuids_of(api.pod("a"))}
        put_alignment(api, "best-effort", "uid-a", used_by=used)

        async def fits() -> bool:
            return bool((await scheduler.filter(pod("b", 4), ["n1"])).fits)

        async def end_is_known() -> bool:
            return await extender.metric("gputopo_ledger_waiting_pods") == 2

        async def a_ends() -> None:
            ended = api.pod("a")
            ended["status"]["phase"] = "Succeeded"
            api.put(PODS, ended)
            api.put(PODS, pod("later", 4))
            await until(end_is_known)

        await until(fits)
        before_lease_write(api, a_ends)
        assert "still admitting or releasing another pod" in await scheduler.bind(pod("b", 4), "n1")
        assert len(api.bindings) == 1, "only the one of a"
        put_alignment(api, "best-effort")
        await until(fits)
        assert await scheduler.bind(pod("b", 4), "n1") == ""
    assert {INDEX_OF[uuid] for uuid in uuids_of(api.pod("b"))} == {0, 1, 2, 3}


async def test_an_agent_that_reports_an_unknown_policy_makes_its_topology_invalid(
    start: Start, api: ApiServer
) -> None:
    put_alignment(api, "newest")
    async with start() as extender:
        found = await extender.scheduler().filter(pod("a", 2), NODES)
    assert found.fits == ["n2"]
    assert "alignment.policy" in found.unresolvable["n1"]
