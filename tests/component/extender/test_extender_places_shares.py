"""The verbs of the extender for pods that share GPUs, and for pods with whole GPUs beside them."""

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Sequence

import pytest

from gputopo.api.names import (
    AVOID_ANNOTATION,
    PLACEMENT_ANNOTATION,
    PROFILE_ANNOTATION,
    SHARING_MAX_SLOWDOWN_ANNOTATION,
    SHARING_MEMORY_ANNOTATION,
)
from gputopo.api.shares import gpu_of, is_share
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import Document, condition, container, pod
from support.builders.shares import share_container, sharing_pod, sharing_topology
from support.builders.sharing_facts import pairs
from support.builders.topologies import node
from support.extender.service import Extender, Start, before_lease_write, until, uuids_of

NODES = ["s1", "s2"]
TOPOLOGIES_OF = {name: node(0, 1, name=name) for name in NODES}


@pytest.fixture(autouse=True)
def shared_nodes(api: ApiServer) -> None:
    """Add two nodes that offer shares, and the facts of workloads."""
    for name, topology in TOPOLOGIES_OF.items():
        api.put(TOPOLOGIES, sharing_topology(name, topology))
    model = TOPOLOGIES_OF["s1"].gpus[0].model
    for profile in pairs(model=model):
        api.create("gpuprofiles", profile)


async def bind(extender: Extender, api: ApiServer, document: Document, node: str) -> list[str]:
    """Bind a pod; return its devices."""
    api.put(PODS, document)
    assert await extender.scheduler().bind(document, node) == ""
    return uuids_of(api.pod(document["metadata"]["name"]))


async def test_binding_names_the_share_and_the_reason(start: Start, api: ApiServer) -> None:
    first, second = (gpu.uuid for gpu in TOPOLOGIES_OF["s1"].gpus)
    async with start() as extender:
        await extender.profiled()
        assert await bind(extender, api, sharing_pod("x", "b"), "s1") == [f"{first}::0"]
        assert await bind(extender, api, sharing_pod("y", "a"), "s1") == [f"{first}::1"]
        assert await bind(extender, api, sharing_pod("z", "d"), "s1") == [f"{second}::0"]
    figures = {
        name: json.loads(api.pod(name)["metadata"]["annotations"][PLACEMENT_ANNOTATION])["sharing"]
        for name in ("x", "y", "z")
    }
    assert figures["x"] == {"share": f"{first}::0"} | {
        key: value for key, value in figures["x"].items() if not value
    }
    assert figures["y"]["share"] == f"{first}::1"
    assert figures["y"]["beside"] == ["default/x"]
    assert figures["y"]["summedSpeedPermille"] == 1500
    assert figures["y"]["slowdownPercents"] == [43, 25]
    assert figures["y"]["reason"].startswith("predicted summed speed 1.5")
    assert figures["z"]["share"] == f"{second}::0"


async def test_limits_that_a_running_pod_changes_bar_no_other_pod(
    start: Start, api: ApiServer
) -> None:
    first = TOPOLOGIES_OF["s1"].gpus[0].uuid
    async with start() as extender:
        await extender.profiled()
        await bind(extender, api, sharing_pod("x", "b", memory="1Gi"), "s1")
        changed = copy.deepcopy(api.pod("x"))
        changed["metadata"]["annotations"] |= {
            SHARING_MEMORY_ANNOTATION: "31Gi",
            SHARING_MAX_SLOWDOWN_ANNOTATION: "0",
            PROFILE_ANNOTATION: "c",
            AVOID_ANNOTATION: '[{"matchLabels": {"app": "y"}, "level": "Node"}]',
        }
        api.put(PODS, changed)
        api.put(PODS, pod("later", 1))
        await until(lambda: one_pod_waits(extender))
        new = sharing_pod("y", "a", labels={"app": "y"})
        assert await bind(extender, api, new, "s1") == [f"{first}::1"]


async def one_pod_waits(extender: Extender) -> bool:
    return await extender.metric("gputopo_ledger_waiting_pods") == 1


@pytest.mark.parametrize("cached", [True, False])
async def test_filter_and_prioritize_offer_nodes_with_shares(
    start: Start, api: ApiServer, *, cached: bool
) -> None:
    async with start() as extender:
        await extender.profiled()
        scheduler = extender.scheduler(cached=cached)
        found = await scheduler.filter(sharing_pod("new", "a"), [*NODES, "n1"])
        assert {*found.fits} == {*NODES}
        assert found.unresolvable == {"n1": "the node offers no shares of GPUs"}
        scores = await scheduler.prioritize(sharing_pod("new", "a"), NODES)
        assert scores.keys() == {*NODES}
        assert api.bindings == []


async def test_node_names_the_reason_if_no_gpu_is_to_be_shared(
    start: Start, api: ApiServer
) -> None:
    async with start() as extender:
        await extender.profiled()
        for name, workload, place in (("x", "c", "s1"), ("y", "c", "s1"), ("z", "d", "s2")):
            await bind(extender, api, sharing_pod(name, workload), place)
        await bind(extender, api, pod("whole", 1), "s2")
        found = await extender.scheduler().filter(sharing_pod("new", "a"), NODES)
    assert (found.fits, found.error, found.unresolvable) == ([], "", {})
    before = "no idle GPU, and on shared GPUs "
    assert found.failed == {
        "s1": f"{before}sharing would not pay",
        "s2": f"{before}the speed of the pod beside the others is unknown",
    }


async def test_sharing_pod_on_nodes_with_whole_gpus_only_gets_no_error(
    start: Start, api: ApiServer
) -> None:
    async with start() as extender:
        for name, place in (("x", "s1"), ("y", "s2")):
            await bind(extender, api, pod(name, 2), place)
        found = await extender.scheduler().filter(sharing_pod("new", "a"), NODES)
    assert (found.fits, found.error) == ([], "")
    assert {*found.failed.values()} == {
        "no GPU is idle, and none is shared by pods beside which the pod may run"
    }


async def test_whole_gpu_pod_that_finds_gpus_in_shares_gets_no_error(
    start: Start, api: ApiServer
) -> None:
    async with start() as extender:
        await extender.profiled()
        for name, place in (("a", "s1"), ("b", "s1"), ("c", "s2"), ("d", "s2")):
            await bind(extender, api, sharing_pod(name, "c"), place)
        found = await extender.scheduler().filter(pod("whole", 1), NODES)
        assert (found.fits, found.error, found.unresolvable) == ([], "", {})
        assert {*found.failed.values()} == {"too few free GPUs beside those that pods share"}
        assert await extender.metric('gputopo_extender_filtered_nodes_total{reason="shared"}') == 2
        api.put(PODS, pod("whole", 1))
        error = await extender.scheduler().bind(pod("whole", 1), "s1")
        assert error == "s1: too few free GPUs beside those that pods share"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            sharing_pod("new", containers=[share_container(gpus=1)]),
            "requested together with gputopo.io/gpu",
        ),
        (sharing_pod("new", containers=[share_container(shares=2)]), "request 1 in one container"),
        (
            sharing_pod("new", containers=[share_container(), container("b", 1)]),
            "requested together with gputopo.io/gpu",
        ),
        (sharing_pod("new", memory="much"), "gputopo.io/sharing-memory: 'much' is not"),
    ],
)
async def test_invalid_request_is_rejected_on_all_nodes(
    start: Start, document: Document, message: str
) -> None:
    async with start() as extender:
        found = await extender.scheduler().filter(document, NODES)
    assert (found.fits, found.error) == ([], "")
    assert found.unresolvable.keys() == {*NODES}
    assert all(message in reason for reason in found.unresolvable.values())


async def test_preemption_of_sharing_pods_frees_a_whole_gpu(start: Start, api: ApiServer) -> None:
    async with start() as extender:
        await extender.profiled()
        for name in ("a", "b"):
            [share] = await bind(extender, api, sharing_pod(name, name), "s1")
            assert gpu_of(share) == TOPOLOGIES_OF["s1"].gpus[0].uuid
        await bind(extender, api, pod("rest", 1), "s1")
        await bind(extender, api, pod("all", 2), "s2")
        stored = {name: api.pod(name) for name in ("a", "b", "rest")}
        scheduler = extender.scheduler()
        whole, lossy = pod("new", 1), sharing_pod("new", "c")
        both = {"s1": [stored["a"], stored["b"]], "s2": []}
        assert await scheduler.preempt(whole, both) == {"s1": ["uid-a", "uid-b"]}
        assert await scheduler.preempt(whole, {"s1": [stored["a"]]}) == {}
        assert await scheduler.preempt(lossy, {"s1": [stored["a"]]}) == {}
        assert await scheduler.preempt(lossy, {"s1": [stored["rest"]]}) == {"s1": ["uid-rest"]}
        own = sharing_pod("new", "b")
        assert await scheduler.preempt(own, {"s1": [stored["b"]]}) == {"s1": ["uid-b"]}


def given(api: ApiServer) -> list[str]:
    """Return the devices of all bound pods."""
    return [device for each in api.all(PODS) for device in uuids_of(each)]


def check(devices: Sequence[str], most: int = 4) -> None:
    """Check that no device is there twice, and no GPU both as a whole and in shares."""
    assert len(devices) == len({*devices})
    whole = {device for device in devices if not is_share(device)}
    shared = Counter(gpu_of(device) for device in devices if is_share(device))
    assert not whole & shared.keys()
    assert max(shared.values(), default=0) <= most


async def test_two_extenders_never_give_one_share_twice(start: Start, api: ApiServer) -> None:
    documents = [
        sharing_pod(f"p{number}", "a", memory="1Gi") if number % 3 else pod(f"p{number}", 1)
        for number in range(12)
    ]
    for each in documents:
        api.put(PODS, each)
    async with start() as one, start() as two:
        for extender in (one, two):
            await extender.profiled()
        schedulers = one.scheduler(), two.scheduler()
        errors = await asyncio.gather(
            *(
                schedulers[number % 2].bind(each, NODES[number // 2 % 2])
                for number, each in enumerate(documents)
            )
        )
        check(given(api))
        for attempt in range(6):
            left = [each for each, error in zip(documents, errors, strict=True) if error]
            again = await asyncio.gather(
                *(schedulers[attempt % 2].bind(each, NODES[attempt % 2]) for each in left)
            )
            done = dict(zip((each["metadata"]["uid"] for each in left), again, strict=True))
            errors = [
                done.get(each["metadata"]["uid"], error)
                for each, error in zip(documents, errors, strict=True)
            ]
            check(given(api))
    assert len(given(api)) >= 4


async def test_share_claimed_by_another_extender_is_not_given(start: Start, api: ApiServer) -> None:
    for name in ("a", "b"):
        api.put(PODS, sharing_pod(name, "a"))
    async with start() as one, start() as two:
        for extender in (one, two):
            await extender.profiled()
        second = asyncio.Event()

        def late() -> None:
            second.set()

        before_lease_write(api, late)
        first = asyncio.create_task(one.scheduler().bind(sharing_pod("a", "a"), "s1"))
        await second.wait()
        assert await two.scheduler().bind(sharing_pod("b", "a"), "s1") == ""
        assert await first == ""
    assert len({*given(api)}) == 2
    check(given(api))


async def test_fault_of_mps_keeps_sharing_pods_off(start: Start, api: ApiServer) -> None:
    api.put(
        TOPOLOGIES,
        sharing_topology("s1", TOPOLOGIES_OF["s1"], faults=dict.fromkeys(range(2), "no response")),
    )
    async with start() as extender:
        found = await extender.scheduler().filter(sharing_pod("new", "a"), NODES)
        assert found.fits == ["s2"]
        assert found.failed == {"s1": "MPS is not ready on the idle GPUs"}
        api.put(PODS, sharing_pod("new", "a"))
        error = await extender.scheduler().bind(sharing_pod("new", "a"), "s1")
        assert error == "s1: MPS is not ready on the idle GPUs"
        whole = await extender.scheduler().filter(pod("whole", 1), ["s1"])
        assert whole.fits == ["s1"]


async def test_pods_wait_with_errors_while_the_component_for_mps_does_not_respond(
    start: Start, api: ApiServer
) -> None:
    outage = condition("MPSReady", "False", "NotResponding")
    for name, topology in TOPOLOGIES_OF.items():
        faults = dict.fromkeys(range(2), "no response")
        api.put(
            TOPOLOGIES,
            sharing_topology(name, topology, faults=faults, served=faults, conditions=[outage]),
        )
    async with start() as extender:
        # After an error, kube-scheduler tries the pod again within seconds, and preempts no pods.
        found = await extender.scheduler().filter(sharing_pod("new", "a"), NODES)
        assert found.error == (
            "2 of 2 nodes are not ready but may take the pod soon: "
            "the component for MPS does not respond"
        )
        found = await extender.scheduler().filter(pod("whole", 1), NODES)
        assert found.error == (
            "2 of 2 nodes are not ready but may take the pod soon: "
            "too few free GPUs beside those that MPS still serves"
        )
        for name, topology in TOPOLOGIES_OF.items():
            api.put(TOPOLOGIES, sharing_topology(name, topology))

        async def fits() -> bool:
            found = await extender.scheduler().filter(sharing_pod("new", "a"), NODES)
            return found.fits == NODES

        await until(fits)


async def test_settings_try_unknown_pairs(start: Start, api: ApiServer) -> None:
    async with start(sharing_unknown_pairs="Try") as extender:
        await extender.profiled()
        for name in ("x", "y"):
            await bind(extender, api, sharing_pod(name, "c"), "s1")
        [share] = await bind(extender, api, sharing_pod("z", "d"), "s1")
        assert share.endswith("::1")
