"""Which sharing pods are rejected, and the figures that the extender records about a share."""

from typing import Any

import pytest

from gputopo.api.annotations import LONGEST_SHARING_REASON, SharingFigures
from gputopo.api.names import RESOURCE, SHARING_MEMORY_ANNOTATION
from gputopo.placement.model import Match, PlacementRequest, PolicyName
from gputopo.topology.model import GpuIndex, GpuUuid
from gputopo_cluster.topologies import GpuNode, parse_gpu_node
from gputopo_cluster.usage import node_usage
from gputopo_scheduling.evaluation import Misfit, MisfitKind
from gputopo_scheduling.node_fits import match_on
from gputopo_scheduling.record import placement_figures
from gputopo_scheduling.request import placement_request
from gputopo_scheduling.share_options import ChosenShare, ShareOption, shared_gpu
from gputopo_scheduling.sharing_state import sharing_state
from support.builders.objects import Document, container
from support.builders.requests import pod_view, request_in
from support.builders.shares import SHARES, share_container, sharing_pod, sharing_topology
from support.builders.sharing_facts import knowledge, pairs
from support.builders.topologies import node

TOPOLOGY = node(0, 1)
SHARE = GpuUuid(f"{TOPOLOGY.gpus[0].uuid}::0")


def request(document: Document) -> PlacementRequest | Misfit:
    return placement_request(
        pod_view(document), resource=RESOURCE, default_policy=PolicyName.PRESERVE
    )


def test_request_of_one_share_is_one_of_one_gpu() -> None:
    found = request(sharing_pod("a", containers=[container("log"), share_container()]))
    assert isinstance(found, PlacementRequest)
    assert found.size == 1


@pytest.mark.parametrize(
    ("containers", "init", "message"),
    [
        ([share_container(gpus=1)], [], "requested together with gputopo.io/gpu"),
        ([share_container(), container("b", 1)], [], "requested together with gputopo.io/gpu"),
        ([share_container(shares=2)], [], "request 1 in one container"),
        ([share_container(), share_container("b")], [], "request 1 in one container"),
        ([container("a")], [share_container("i")], "init container"),
        (
            [container("a")],
            [share_container("side") | {"restartPolicy": "Always"}],
            "in spec.containers",
        ),
        ([share_container()], [share_container("i")], "request 1 in one container"),
    ],
)
def test_other_requests_of_shares_are_rejected(
    containers: list[Document], init: list[Document], message: str
) -> None:
    document = sharing_pod("a", containers=containers)
    document["spec"]["initContainers"] = init
    found = request(document)
    assert isinstance(found, Misfit)
    assert found.kind is MisfitKind.REJECTED
    assert message in found.reason


def test_invalid_annotation_rejects_the_pod() -> None:
    found = request(sharing_pod("a", annotations={SHARING_MEMORY_ANNOTATION: "much"}))
    assert found == Misfit(
        MisfitKind.REJECTED,
        "gputopo.io/sharing-memory: 'much' is not an amount of memory such as 4Gi",
    )
    assert SHARES == "gputopo.io/gpu-share"


def figures(*pods: Document, shared: ChosenShare | None = None, **policy: Any) -> SharingFigures:
    """Return the figures of pod ``new`` of workload a on GPU 0 beside these pods."""
    found = parse_gpu_node(sharing_topology("n1", TOPOLOGY))
    assert isinstance(found, GpuNode)
    usage = node_usage(found, map(pod_view, pods), ())
    view = pod_view(sharing_pod("new", "a"))
    known = knowledge(*pairs(model=TOPOLOGY.gpus[0].model), **policy)
    match = match_on(sharing_state(usage, view, known), request_in(view))
    assert isinstance(match, Match)
    share = shared or shared_gpu(usage, view, match.gpus[0], known)
    written = placement_figures(request_in(view), match, TOPOLOGY, share)
    assert written.sharing is not None
    return written.sharing


def test_figures_of_an_idle_gpu_have_no_prediction() -> None:
    assert figures() == SharingFigures(share=SHARE)
    unknown = ChosenShare(
        SHARE, ShareOption(GpuIndex(0), ("default/x",), None, "too little memory")
    )
    assert figures(shared=unknown) == SharingFigures(share=SHARE)


def test_figures_of_a_shared_gpu_have_the_prediction() -> None:
    found = figures(sharing_pod("x", "b", share=SHARE))
    assert found.share == f"{TOPOLOGY.gpus[0].uuid}::1"
    assert found.beside == ["default/x"]
    assert found.summed_speed_permille == 1500
    assert found.slowdown_percents == [43, 25]
    assert found.reason.startswith("predicted summed speed 1.5")
    assert len(found.reason) <= LONGEST_SHARING_REASON


def test_pod_with_a_whole_gpu_has_no_figures_of_sharing() -> None:
    found = parse_gpu_node(sharing_topology("n1", TOPOLOGY))
    assert isinstance(found, GpuNode)
    view = pod_view(sharing_pod("new"))
    match = match_on(node_usage(found, [], ()).state, request_in(view))
    assert isinstance(match, Match)
    assert placement_figures(request_in(view), match, TOPOLOGY).sharing is None
