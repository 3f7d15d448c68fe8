"""The extender as kube-scheduler sees it."""

import json
from collections import Counter
from io import BytesIO

import pytest

from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo.catalogue import named
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import container, pod, topology_object
from support.extender.service import Start, uuids_of

NODES = ["n1", "n2"]


async def test_every_verb_returns_503_until_pods_and_topologies_are_listed(
    start: Start, api: ApiServer
) -> None:
    api.down = True
    async with start(wait=False) as extender:
        for verb in ("filter", "prioritize", "bind"):
            url = f"{extender.addresses.verbs}/{verb}"
            async with extender.http.post(url, json={}) as response:
                assert response.status == 503
                assert "not listed yet" in await response.text()
        assert (await extender.readiness())[0] == 503
        async with extender.http.get(f"{extender.addresses.probes}/livez") as response:
            assert response.status == 200
        api.down = False
        await extender.ready()
        assert (await extender.scheduler().filter(pod("a"), NODES)).fits == NODES


@pytest.mark.parametrize("cached", [True, False])
async def test_sensitive_ring_goes_to_the_node_of_nvlinks_and_gets_its_best_three(
    start: Start, api: ApiServer, *, cached: bool
) -> None:
    ring = pod("ring", 3)
    api.put(PODS, ring)
    async with start() as extender:
        scheduler = extender.scheduler(cached=cached)
        assert (await scheduler.filter(ring, NODES)).fits == NODES
        scores = await scheduler.prioritize(ring, NODES)
        assert scores["n1"] > scores["n2"]
        assert await scheduler.bind(ring, "n1") == ""
    bound = api.pod("ring")
    assert bound["spec"]["nodeName"] == "n1"
    figures = json.loads(bound["metadata"]["annotations"][PLACEMENT_ANNOTATION])
    assert figures["aggregateMBps"] == 125_000
    assert (figures["sensitive"], figures["reason"]) == (True, "SensitivityUnknown")
    assert (figures["policy"], figures["pattern"]) == ("Preserve", "Ring")
    assert len(set(uuids_of(bound))) == 3


async def test_annotation_names_pod_node_generation_and_each_containers_gpus(
    start: Start, api: ApiServer
) -> None:
    api.put(TOPOLOGIES, topology_object("n1", named("dgx1-v100", node="n1"), generation=7))
    two = pod("two", containers=[container("a", 2), container("log"), container("b", 1)])
    api.put(PODS, two)
    async with start() as extender:
        assert await extender.scheduler().bind(two, "n1") == ""
    binding = api.bindings[0]
    assert binding["metadata"]["uid"] == "uid-two"
    assert binding["target"]["name"] == "n1"
    gpus = json.loads(binding["metadata"]["annotations"][GPUS_ANNOTATION])
    assert (gpus["v"], gpus["uid"], gpus["node"], gpus["generation"]) == (1, "uid-two", "n1", 7)
    assert {name: len(uuids) for name, uuids in gpus["containers"].items()} == {"a": 2, "b": 1}
    assert list(gpus["containers"]) == ["a", "b"]


async def test_only_feasible_node_is_bound_without_prioritize(start: Start, api: ApiServer) -> None:
    api.put(PODS, pod("alone", 2))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert (await scheduler.filter(pod("alone", 2), ["n2"])).fits == ["n2"]
        assert await scheduler.bind(pod("alone", 2), "n2") == ""
        count = 'gputopo_extender_request_duration_seconds_count{outcome="ok",verb="%s"}'
        assert await extender.metric(count % "bind") == 1
        assert await extender.metric('gputopo_extender_binds_total{outcome="bound"}') == 1


async def test_wait_of_a_bound_pod_is_recorded_if_its_creation_is_known(
    start: Start, api: ApiServer
) -> None:
    old, undated = pod("old", 2), pod("undated", 2)
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    api.put(PODS, old)
    api.put(PODS, undated)
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(undated, "n1") == ""
        assert await extender.metric("gputopo_pod_wait_seconds_count") == 0
        assert await scheduler.bind(old, "n1") == ""
        assert await extender.metric("gputopo_pod_wait_seconds_count") == 1
        assert await extender.metric("gputopo_pod_wait_seconds_sum") > 0


async def many_nodes(api: ApiServer) -> list[str]:
    """Put 80 nodes with NVLink and 40 without beside those that are there."""
    linked = [f"v{number}" for number in range(80)]
    plain = [f"p{number}" for number in range(40)]
    for name in linked:
        api.put(TOPOLOGIES, topology_object(name, named("dgx1-v100", node=name)))
    for name in plain:
        api.put(TOPOLOGIES, topology_object(name, named("pcie-8gpu", node=name)))
    return linked + plain


async def test_of_more_than_100_nodes_filter_returns_one_of_the_best(
    start: Start, api: ApiServer
) -> None:
    names = await many_nodes(api)
    choosy = pod("choosy", 3)
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    choosy["spec"]["affinity"] = {"nodeAffinity": preferred}
    async with start() as extender:
        scheduler = extender.scheduler()
        offered = [(await scheduler.filter(pod("ring", 3), names)).fits for _ in range(20)]
        assert all(len(nodes) == 1 for nodes in offered)
        assert {node for nodes in offered for node in nodes} <= set(names[:80])
        assert len({node for (node,) in offered}) > 1, "not the same one again and again"
        assert len((await scheduler.filter(pod("ring", 3), names[:101])).fits) == 1
        assert (await scheduler.filter(pod("ring", 3), names[:100])).fits == names[:100]
        assert (await scheduler.filter(choosy, names)).fits == names
    async with start(offer_one_above=0) as extender:
        assert (await extender.scheduler().filter(pod("ring", 3), names)).fits == names


async def test_burst_is_not_spread_while_its_bindings_are_in_flight(
    start: Start, api: ApiServer
) -> None:
    names = await many_nodes(api)
    burst = [pod(f"b{number}", 1) for number in range(16)]
    for each in burst:
        api.put(PODS, each)
    async with start() as extender:
        scheduler = extender.scheduler()
        in_flight: Counter[str] = Counter()
        for each in burst:
            # kube-scheduler counts what it has sent, and does not ask about full nodes.
            open_nodes = [name for name in names if in_flight[name] < 8]
            (node,) = (await scheduler.filter(each, open_nodes)).fits
            in_flight[node] += 1
        assert sorted(in_flight.values()) == [8, 8]


async def test_misfits_are_sorted_for_preemption(start: Start, api: ApiServer) -> None:
    broken = topology_object("broken", named("dgx1-v100", node="broken"))
    broken["spec"]["links"][0]["b"] = "GPU-nobody"
    api.put(TOPOLOGIES, broken)
    api.put(TOPOLOGIES, topology_object("small", named("summit", node="small")))
    api.put(
        TOPOLOGIES,
        topology_object("unhealthy", named("dgx1-v100", node="unhealthy"), unhealthy=[0, 1]),
    )
    api.put(PODS, pod("identity", 4))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(pod("identity", 4), "n2") == ""
        response = await scheduler.filter(
            pod("big", 8), ["n1", "n2", "small", "unhealthy", "broken", "bare"]
        )
        reason = 'gputopo_extender_filtered_nodes_total{reason="%s"}'
        assert await extender.metric(reason % "unreadable") == 1
        assert await extender.metric('gputopo_ledger_nodes{state="unreadable"}') == 1
    assert response.fits == ["n1"]
    assert response.failed == {"n2": "too few free GPUs"}
    assert response.unresolvable["small"] == "too few GPUs"
    assert response.unresolvable["unhealthy"] == "too few healthy GPUs"
    assert response.unresolvable["bare"] == "no GPUTopology"
    assert "GPU-nobody" in response.unresolvable["broken"]


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({"gputopo.io/pattern": "Donut"}, ["gputopo.io/pattern", "'Donut'", "Star, AllToAll"]),
        (
            {"gputopo.io/bandwidth-sensitivity": "very"},
            ["gputopo.io/bandwidth-sensitivity", "'very'", "Sensitive"],
        ),
        ({"gputopo.io/policy": "best"}, ["gputopo.io/policy", "'best'", "TopoAware, Greedy"]),
        ({"gputopo.io/edges": "[]"}, ["gputopo.io/edges", "Custom only"]),
        (
            {"gputopo.io/pattern": "Custom", "gputopo.io/edges": '[{"from":0,"to":7}]'},
            ["gputopo.io/edges", "7"],
        ),
        (
            {"gputopo.io/pattern": "Custom", "gputopo.io/edges": '{"from":0}'},
            ["gputopo.io/edges", "JSON list"],
        ),
    ],
)
async def test_malformed_annotation_is_rejected_on_every_node_with_name_and_remedy(
    start: Start, api: ApiServer, annotations: dict[str, str], words: list[str]
) -> None:
    wrong = pod("wrong", 2, annotations=annotations)
    api.put(PODS, wrong)
    async with start() as extender:
        scheduler = extender.scheduler()
        response = await scheduler.filter(wrong, NODES)
        assert (response.fits, response.failed, response.error) == ([], {}, "")
        assert set(response.unresolvable) == set(NODES)
        for word in words:
            assert word in response.unresolvable["n1"]
        assert words[0] in await scheduler.bind(wrong, "n1")
    assert api.bindings == []


async def test_filter_returns_why_a_pod_cannot_be_placed(start: Start) -> None:
    async with start() as extender:
        scheduler = extender.scheduler()
        response = await scheduler.filter(
            pod("i", 1, init_containers=[container("fetch", 2)]), NODES
        )
        assert "init container 'fetch': 2 requested" in response.unresolvable["n1"]
        response = await scheduler.filter(pod("many", 17), NODES)
        assert "17" in response.unresolvable["n1"]
        assert "1..16" in response.unresolvable["n1"]


async def test_filter_returns_what_to_configure_for_a_pod_without_gpus(start: Start) -> None:
    async with start() as extender:
        plain = pod("plain", containers=[container("main")])
        response = await extender.scheduler().filter(plain, NODES)
        assert "managedResources" in response.error
        none = pod("none", containers=[container("main", "0")])
        response = await extender.scheduler().filter(none, NODES)
        assert "request of 0, remove this request" in response.error
        assert "no pod default/plain" in await extender.scheduler().bind(plain, "n1")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"Pod": 7, "NodeNames": ["n1"]}',
        b'{"Pod": {}, "NodeNames": ["n1"]}',
        b'{"Pod": {"metadata": {"name": "a", "namespace": "b", "uid": "c"}}, "NodeNames": []}',
        b'{"Pod": {"metadata": {}}, "NodeNames": [1]}',
        b'{"Pod": {}, "Nodes": {"items": [{}]}}',
        b'{"Pod": {}, "Nodes": {"items": "n1"}}',
        b"[" * 10_000,
        b"\xff\xfe",
    ],
)
async def test_invalid_body_gets_400_and_a_message(start: Start, body: bytes) -> None:
    async with start() as extender:
        for verb in ("filter", "prioritize", "bind"):
            url = f"{extender.addresses.verbs}/{verb}"
            async with extender.http.post(url, data=body) as response:
                text = await response.text()
                assert response.status == 400, (verb, text)
                assert 0 < len(text) < 400
                assert "Traceback" not in text


async def test_whole_nodes_of_a_large_cluster_pass(start: Start) -> None:
    names = [f"x{number}" for number in range(3000)]
    items = [
        {"metadata": {"name": name}, "status": {"images": ["i" * 700]}} for name in [*names, "n1"]
    ]
    body = json.dumps({"Pod": pod("a"), "Nodes": {"items": items}, "NodeNames": None}).encode()
    assert len(body) > 2 * 1024 * 1024
    async with start() as extender:
        url = f"{extender.addresses.verbs}/filter"
        async with extender.http.post(url, data=BytesIO(body)) as response:
            assert response.status == 200
            reply = await response.json()
    assert [item["metadata"]["name"] for item in reply["Nodes"]["items"]] == ["n1"]
    assert len(reply["FailedAndUnresolvableNodes"]) == 3000


async def test_prioritize_returns_0_for_a_node_that_no_longer_fits(
    start: Start, api: ApiServer
) -> None:
    api.put(PODS, pod("identity", 8))
    async with start() as extender:
        scheduler = extender.scheduler()
        assert await scheduler.bind(pod("identity", 8), "n1") == ""
        assert await scheduler.prioritize(pod("next", 2), NODES) == {"n1": 0, "n2": 10}
