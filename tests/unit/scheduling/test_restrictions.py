"""Which free GPUs a pod may not use because of pods that it avoids."""

from dataclasses import replace
from typing import Any

import pytest

from gputopo.bandwidth.preserved import preserved_mb_per_s
from gputopo.catalogue import named
from gputopo.placement.model import Match
from gputopo.topology.model import GpuMask, mask_of
from gputopo_cluster.claims import Claim, claimants
from gputopo_cluster.occupants import Occupant
from gputopo_cluster.topologies import GpuNode, parse_gpu_node
from gputopo_cluster.usage import NodeUsage, Restriction, RestrictionKind, node_usage
from gputopo_kube.document import ObjectKey
from gputopo_scheduling.evaluation import (
    BESIDE_AVOIDED,
    BESIDE_STOPPING,
    Misfit,
    MisfitKind,
)
from gputopo_scheduling.node_fits import match_on
from gputopo_scheduling.restrictions import AvoidingPod, restricted_state
from support.builders.objects import Document, avoiding, pod, topology_object
from support.builders.requests import pod_view, request_of
from support.builders.topologies import gpus
from support.extender.ledgers import bound

DGX = named("dgx1-v100", node="n1")
FIRST, SECOND = gpus(0, 1, 2, 3), gpus(4, 5, 6, 7)


def labelled(document: Document, **labels: str) -> Document:
    document["metadata"]["labels"] = labels
    return document


def annotated(document: Document, annotations: dict[str, str]) -> Document:
    document["metadata"]["annotations"] |= annotations
    return document


def usage(*pods: Document, reserved: tuple[Occupant, ...] = (), **observed: Any) -> NodeUsage:
    ended = observed.pop("ended", ())
    found = parse_gpu_node(topology_object("n1", DGX, **observed))
    assert isinstance(found, GpuNode)
    views = [pod_view(each) for each in pods]
    return node_usage(found, views, reserved, ended=[pod_view(each) for each in ended])


def usable(here: NodeUsage, document: Document) -> int:
    state = restricted_state(here, AvoidingPod.of(pod_view(document)))
    return state.usable(state.free)


def of(here: NodeUsage, document: Document, size: int) -> Match | Misfit:
    return match_on(restricted_state(here, AvoidingPod.of(pod_view(document))), request_of(size))


NOISY = labelled(bound("noisy", 0), app="noisy")
QUIET = pod("quiet", 1, annotations=avoiding(app="noisy"))
APART = pod("apart", 1, annotations=avoiding("Node", app="noisy"))


def test_pod_gets_no_gpu_of_the_socket_or_node_of_a_pod_that_it_avoids() -> None:
    assert usable(usage(NOISY), QUIET) == SECOND
    assert usable(usage(NOISY), APART) == gpus()
    assert usable(usage(NOISY), pod("other", 1)) == DGX.mask & ~gpus(0)


@pytest.mark.parametrize("document", [QUIET, APART])
def test_rules_hold_in_both_directions(document: Document) -> None:
    running = annotated(bound("quiet", 5), document["metadata"]["annotations"])
    found = usable(usage(running), labelled(pod("new", 1), app="noisy"))
    assert found == (FIRST if document is QUIET else gpus())
    assert usable(usage(running), labelled(pod("new", 1), app="other")) == DGX.mask & ~gpus(5)


def test_rules_concern_pods_of_the_same_namespace_and_not_the_pod_itself() -> None:
    other = {**QUIET, "metadata": {**QUIET["metadata"], "namespace": "other"}}
    assert usable(usage(NOISY), other) == DGX.mask & ~gpus(0)
    itself = annotated(labelled(pod("noisy", 1), app="noisy"), avoiding(app="noisy"))
    assert usable(usage(NOISY), itself) == DGX.mask & ~gpus(0)


def test_common_state_has_no_restrictions() -> None:
    here = usage(NOISY)
    assert restricted_state(here, AvoidingPod.of(pod_view(pod("a", 1)))).key == here.state.key
    assert restricted_state(here, AvoidingPod.of(pod_view(QUIET))).key != here.state.key


def test_pod_that_is_being_bound_by_another_extender_is_avoided_on_the_whole_node() -> None:
    unknown = Occupant("uid-x", ObjectKey("default", "x"), gpus(0))
    assert usable(usage(reserved=(unknown,)), pod("a", 1)) == gpus()
    other = Occupant("uid-x", ObjectKey("other", "x"), gpus(0))
    assert usable(usage(reserved=(other,)), pod("a", 1)) == DGX.mask & ~gpus(0)


def test_pod_whose_gpus_are_not_known_is_avoided_on_the_whole_node() -> None:
    elsewhere = labelled(pod("noisy", 1, node="n1"), app="noisy")
    assert usable(usage(elsewhere), QUIET) == gpus()
    assert usable(usage(elsewhere), pod("a", 1)) == DGX.mask


def test_misfit_names_pods_to_avoid_only_if_enough_gpus_are_free() -> None:
    assert of(usage(NOISY), QUIET, 5) == Misfit(MisfitKind.AVOID, BESIDE_AVOIDED)
    assert of(usage(NOISY), QUIET, 8) == Misfit(MisfitKind.BUSY, "too few free GPUs")
    assert isinstance(of(usage(NOISY), QUIET, 4), Match)


def test_pod_waits_for_pods_that_are_stopping() -> None:
    deleted = labelled(bound("noisy", 0), app="noisy")
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    stopping = Misfit(MisfitKind.DELETED_PODS, BESIDE_STOPPING)
    assert of(usage(deleted), QUIET, 5) == stopping
    ended = {**NOISY, "status": {"phase": "Succeeded"}}
    assert of(usage(ended=[ended]), QUIET, 5) == stopping
    assert of(usage(deleted, labelled(bound("more", 1), app="noisy")), QUIET, 5) == Misfit(
        MisfitKind.AVOID, BESIDE_AVOIDED
    )


def test_gpus_of_ended_pods_become_usable_with_their_sockets() -> None:
    state = restricted_state(usage(ended=[NOISY]), AvoidingPod.of(pod_view(APART)))
    (restriction,) = state.restrictions
    assert (restriction.gpus, restriction.lasting) == (DGX.mask, gpus())


def test_preserved_bandwidth_counts_gpus_that_only_this_pod_may_not_use() -> None:
    here = usage(NOISY)
    match = of(here, QUIET, 1)
    assert isinstance(match, Match)
    assert set(match.gpus) <= {4, 5, 6, 7}
    stay_free = GpuMask(here.free & ~mask_of(match.gpus))
    assert match.preserved_mb_per_s == preserved_mb_per_s(DGX, stay_free)


def test_two_claims_of_a_pod_are_one_occupant() -> None:
    node = parse_gpu_node(topology_object("n1", DGX))
    assert isinstance(node, GpuNode)
    uuids = [gpu.uuid for gpu in DGX.gpus]
    claims = [
        Claim(
            uid="u",
            namespace="default",
            name="claimant",
            version=str(version),
            node=where,
            gpus=(uuids[version],),
        )
        for version, where in enumerate(("n1", "n1", "n2"))
    ]
    (found,) = claimants(claims, node, {})
    assert found == Occupant("u", ObjectKey("default", "claimant"), gpus(0, 1))


def test_gpus_that_kubelet_would_take_may_be_beside_pods_to_avoid() -> None:
    state = usage(NOISY).state
    beside = Restriction(RestrictionKind.AVOID, FIRST, FIRST)
    taken = Restriction(RestrictionKind.NUMA, SECOND, SECOND)
    found = match_on(replace(state, restrictions=(beside, taken)), request_of(2))
    reason = "the GPUs that kubelet would take are beside pods to avoid"
    assert found == Misfit(MisfitKind.NUMA_BUSY, reason)
