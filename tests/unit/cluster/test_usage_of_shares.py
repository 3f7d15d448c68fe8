"""The usage of a node whose GPUs pods share: topologies, claims, occupants."""

from collections.abc import Iterable
from typing import Any

import pytest

from gputopo.api.names import GPUS_ANNOTATION
from gputopo.catalogue import named
from gputopo.topology.model import GpuIndex, GpuUuid
from gputopo_cluster.claims import Claim, claimants, claimed_pod
from gputopo_cluster.occupants import Occupant
from gputopo_cluster.topologies import GpuNode, ReportedUser, known_mask, parse_gpu_node
from gputopo_cluster.usage import NodeUsage, node_usage
from gputopo_kube.gpu_containers import GpuContainer
from support.builders.objects import Document, pod
from support.builders.requests import pod_view
from support.builders.shares import share_container, sharing_pod, sharing_topology
from support.builders.topologies import gpus
from support.extender.ledgers import bound

DGX = named("dgx1-v100", node="n1")
UUIDS = [gpu.uuid for gpu in DGX.gpus]


def share(gpu: int, number: int = 0) -> GpuUuid:
    return GpuUuid(f"{UUIDS[gpu]}::{number}")


def node(**fields: Any) -> GpuNode:
    found = parse_gpu_node(sharing_topology("n1", DGX, **fields))
    assert isinstance(found, GpuNode)
    return found


def usage(
    *pods: Document,
    reserved: Iterable[Occupant] = (),
    ended: Iterable[Document] = (),
    stopped: Iterable[str] = (),
    **fields: Any,
) -> NodeUsage:
    views = [pod_view(each) for each in pods]
    over = [pod_view(each) for each in ended]
    return node_usage(node(**fields), views, reserved, ended=over, stopped=frozenset(stopped))


def placed(name: str, gpu: int, number: int = 0, **fields: Any) -> Document:
    return sharing_pod(name, share=share(gpu, number), **fields)


def test_topology_has_the_users_of_shares() -> None:
    users = {share(1, 0): "uid-a", share(1, 2): "uid-b"}
    found = node(most_pods=3, shares=users, faults={4: "no"}, served={5: "no"})
    assert found.most_pods_per_gpu == 3
    assert (found.not_shareable, found.not_whole) == (gpus(4), gpus(5))
    assert found.users == (
        ReportedUser(GpuIndex(1), "uid-a", "default/uid-a", share=share(1, 0)),
        ReportedUser(GpuIndex(1), "uid-b", "default/uid-b", share=share(1, 2)),
    )


def test_user_of_the_whole_gpu_is_known_beside_users_of_shares() -> None:
    document = sharing_topology("n1", DGX, shares={share(1): "uid-a"}, used_by={1: "uid-b"})
    found = parse_gpu_node(document)
    assert isinstance(found, GpuNode)
    assert [(each.uid, each.share) for each in found.users] == [
        ("uid-a", share(1)),
        ("uid-b", None),
    ]


def test_topology_of_an_older_agent_offers_no_shares() -> None:
    document = sharing_topology("n1", DGX)
    del document["status"]["sharing"]
    found = parse_gpu_node(document)
    assert isinstance(found, GpuNode)
    assert (found.most_pods_per_gpu, found.not_shareable) == (0, 0)


def test_mask_of_shares_is_that_of_their_gpus() -> None:
    assert known_mask(DGX, [share(1, 2), share(1, 3), UUIDS[4], "GPU-gone::1"]) == gpus(1, 4)


def test_pods_may_have_shares_of_one_gpu() -> None:
    found = usage(placed("a", 1, 0), placed("b", 1, 3), placed("c", 2, 0))
    assert (found.used, found.shared, found.in_shares) == (gpus(1, 2), 0, gpus(1, 2))
    assert found.shares == {share(1, 0), share(1, 3), share(2, 0)}
    assert found.state.in_shares == gpus(1, 2)
    assert [each.shares for each in found.occupants] == [
        {share(1, 0)},
        {share(1, 3)},
        {share(2, 0)},
    ]


def test_two_pods_with_one_share_or_a_share_of_a_whole_gpu_are_an_error() -> None:
    assert usage(placed("a", 1), placed("b", 1)).shared == gpus(1)
    for pods in ((placed("a", 1), bound("b", 1)), (bound("b", 1), placed("a", 1))):
        assert usage(*pods).shared == gpus(1)
    assert usage(placed("a", 1), bound("b", 2)).shared == 0
    assert usage(placed("a", 1), placed("b", 1), placed("c", 2)).shared == gpus(1)


def test_observed_shares_are_in_use_until_their_pod_is_known_to_have_stopped() -> None:
    shares = {share(1, 2): "uid-a"}
    assert usage(shares=shares).shares == {share(1, 2)}
    assert usage(shares=shares, stopped=["uid-a"]).shares == frozenset()
    found = usage(placed("a", 1, 0), shares=shares)
    assert found.shares == {share(1, 0), share(1, 2)}
    ended = usage(ended=[placed("a", 1, 2, phase="Failed")], shares=shares)
    assert (ended.used, ended.deleted, ended.shares) == (gpus(1), gpus(1), frozenset({share(1, 2)}))
    assert ended.state.in_shares == gpus(1)


def test_pod_of_another_scheduler_has_the_shares_that_the_agent_reports() -> None:
    other = sharing_pod("a", node="n1")
    assert usage(other).unknown == 1
    found = usage(other, shares={share(3, 1): "uid-a"})
    assert (found.unknown, found.used, found.shares) == (0, gpus(3), frozenset({share(3, 1)}))
    (occupant,) = found.occupants
    assert (occupant.gpus, occupant.unknown) == (gpus(3), 0)


def test_invalid_annotation_blocks_the_node_until_the_share_is_observed() -> None:
    torn = sharing_pod("a", node="n1", annotations={GPUS_ANNOTATION: "{"})
    assert usage(torn).blocked is not None
    found = usage(torn, shares={share(3, 1): "uid-a"})
    assert (found.blocked, found.shares) == (None, frozenset({share(3, 1)}))


def claim(name: str, *devices: GpuUuid, node: str = "n1") -> Claim:
    return Claim(f"uid-{name}", "default", name, "7", node, devices)


def test_claims_of_shares_are_shares_in_use() -> None:
    claims = [
        claim("a", share(1, 2)),
        claim("b", share(2, 0)),
        claim("b", share(3, 0)),
        claim("c", share(4), node="n2"),
        claim("d", UUIDS[5]),
    ]
    view = pod_view(sharing_pod("a"))
    found = claimants(claims, node(), {"uid-a": view})
    assert [(each.uid, each.gpus, each.shares, each.pod) for each in found] == [
        ("uid-a", gpus(1), {share(1, 2)}, view),
        ("uid-b", gpus(2, 3), {share(2, 0), share(3, 0)}, None),
        ("uid-d", gpus(5), frozenset(), None),
    ]
    here = usage(placed("e", 1, 0), reserved=found)
    assert (here.used, here.shared) == (gpus(1, 2, 3, 5), 0)
    assert here.shares == {share(1, 0), share(1, 2), share(2, 0), share(3, 0)}


def test_lost_pod_with_a_claim_of_a_share_is_a_sharing_pod() -> None:
    lost = claimed_pod(claim("a", share(1, 2)))
    assert lost.containers == (GpuContainer("", 1, shared=True),)
    assert lost.shares
    found = node_usage(node(), [], (), ended=[lost])
    assert (found.deleted, found.shares) == (gpus(1), frozenset({share(1, 2)}))
    assert not claimed_pod(claim("b", UUIDS[1], UUIDS[2])).shares


def test_usage_without_shares_has_none() -> None:
    found = usage(pod("a", 1), bound("b", 1))
    assert (found.shares, found.state.in_shares, found.state.not_shared) == (frozenset(), 0, None)


def test_states_with_and_without_shares_are_not_equal() -> None:
    assert usage(placed("a", 1)).state.key != usage(bound("a", 1)).state.key


def test_two_shares_of_a_pod_of_another_scheduler_are_both_in_use() -> None:
    other = sharing_pod("a", node="n1", containers=[share_container(shares=2)])
    found = usage(other, shares={share(3, 0): "uid-a", share(4, 0): "uid-a"})
    assert (found.unknown, found.used) == (0, gpus(3, 4))


@pytest.mark.parametrize("annotations", [{}, {GPUS_ANNOTATION: '{"v":1,'}])
def test_ended_pod_without_a_valid_annotation_keeps_its_observed_share(
    annotations: dict[str, str],
) -> None:
    requested = [share_container()]
    over = pod("a", node="n1", phase="Failed", annotations=annotations, containers=requested)
    found = usage(ended=[over], shares={share(1): "uid-a"})
    (occupant,) = found.occupants
    assert found.shares == occupant.shares == {share(1)}
