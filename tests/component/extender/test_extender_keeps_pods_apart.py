"""filter, bind and preempt keep pods apart, and bind records which GPUs were allowed."""

import copy
import json

from gputopo.api.names import PLACEMENT_ANNOTATION
from gputopo.catalogue import named
from gputopo_scheduling.evaluation import BESIDE_AVOIDED
from support.api.server import ApiServer
from support.api.store import PODS
from support.builders.objects import Document, avoiding, pod
from support.extender.service import Start, before_binding, uuids_of

NODES = ["n1", "n2"]
SOCKETS: dict[str, dict[str, int | None]] = {
    node: {str(gpu.uuid): gpu.numa_node for gpu in named(kind, node=node).gpus}
    for node, kind in (("n1", "dgx1-v100"), ("n2", "pcie-8gpu"))
}


def stored(api: ApiServer, name: str) -> Document:
    found = api.get(PODS, name)
    assert found is not None
    return found


def sockets_of(document: Document) -> set[int | None]:
    node = document["spec"]["nodeName"]
    return {SOCKETS[node][uuid] for uuid in uuids_of(document)}


async def test_pods_share_no_socket_and_the_record_has_the_allowed_gpus(
    start: Start, api: ApiServer
) -> None:
    noisy = pod("noisy", 2, labels={"app": "noisy"})
    quiet = pod("quiet", 2, annotations=avoiding(app="noisy"))
    plain = pod("plain", 2)
    async with start() as extender:
        for document in (noisy, quiet, plain):
            api.put(PODS, document)
            assert await extender.scheduler().bind(document, "n1") == ""
        placed = {name: stored(api, name) for name in ("noisy", "quiet", "plain")}
    assert not sockets_of(placed["noisy"]) & sockets_of(placed["quiet"])
    records = {
        name: json.loads(each["metadata"]["annotations"][PLACEMENT_ANNOTATION])["replay"]
        for name, each in placed.items()
    }
    assert set(records["quiet"]["gpus"]) <= set(records["quiet"]["usable"])
    assert set(records["quiet"]["usable"]) < set(records["quiet"]["free"])
    assert "usable" not in records["noisy"]
    assert "usable" not in records["plain"]


async def test_filter_and_bind_name_the_reason(start: Start, api: ApiServer) -> None:
    noisy = pod("noisy", 1, labels={"app": "noisy"})
    apart = pod("apart", 1, annotations=avoiding("Node", app="noisy"))
    async with start() as extender:
        for document in (noisy, apart):
            api.put(PODS, document)
        scheduler = extender.scheduler()
        assert await scheduler.bind(noisy, "n1") == ""
        found = await scheduler.filter(apart, NODES)
        assert found.fits == ["n2"]
        assert found.failed == {"n1": BESIDE_AVOIDED}
        assert await scheduler.bind(apart, "n1") == f"n1: {BESIDE_AVOIDED}"
        assert await extender.metric('gputopo_extender_filtered_nodes_total{reason="avoid"}') == 1


async def test_preempt_leaves_out_a_node_whose_other_pods_are_avoided(
    start: Start, api: ApiServer
) -> None:
    async with start() as extender:
        for node in NODES:
            for name, labels in ((f"noisy-{node}", {"app": "noisy"}), (f"other-{node}", {})):
                document = pod(name, 4, labels=labels)
                api.put(PODS, document)
                assert await extender.scheduler().bind(document, node) == ""
        apart = pod("apart", 4, annotations=avoiding("Node", app="noisy"))
        offers = {
            "n1": [stored(api, "other-n1")],
            "n2": [stored(api, "noisy-n2")],
        }
        found = await extender.scheduler().preempt(apart, offers)
    assert found == {"n2": ["uid-noisy-n2"]}


async def test_pod_that_gets_a_label_while_it_is_being_bound_is_placed_again(
    start: Start, api: ApiServer
) -> None:
    quiet = pod("quiet", 1, annotations=avoiding(app="noisy"))

    def labelled() -> None:
        changed = copy.deepcopy(stored(api, "late"))
        changed["metadata"]["labels"] = {"app": "noisy"}
        api.put(PODS, changed)

    async with start() as extender:
        for document in (quiet, pod("late", 1)):
            api.put(PODS, document)
        assert await extender.scheduler().bind(quiet, "n1") == ""
        before_binding(api, labelled)
        assert await extender.scheduler().bind(pod("late", 1), "n1") == ""
        assert not sockets_of(stored(api, "late")) & sockets_of(stored(api, "quiet"))
