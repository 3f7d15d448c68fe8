"""The annotations of a decision, and for which later views of its pod it is valid."""

import dataclasses
import json
from typing import Any

import pytest

from gputopo.alignment.accepted import Manager
from gputopo.alignment.model import ManagerPolicy, ManagerScope, numa_mask
from gputopo.api.annotations import GpusAnnotation, parse_gpus, parse_placement
from gputopo.api.names import (
    PATTERN_ANNOTATION,
    PLACEMENT_ANNOTATION,
    POSTPONED_ANNOTATION,
    PROFILE_ANNOTATION,
    RESOURCE,
    RETRY_ANNOTATION,
)
from gputopo.api.replay import RecordedNodes
from gputopo.catalogue import named
from gputopo.placement.model import Match, PlacementRequest, PolicyName
from gputopo.placement.place import place
from gputopo_cluster.claims import Claim
from gputopo_cluster.numa_rules import NumaRules
from gputopo_cluster.topologies import GpuNode
from gputopo_cluster.usage import NodeUsage, node_usage
from gputopo_extender.fencing.decide import decide, is_unchanged
from gputopo_kube.pods import PodView, parse_gpu_pod
from gputopo_scheduling.request import placement_request
from support.builders.objects import pod

TOPOLOGY = named("dgx1-v100", node="n1")
NODE = GpuNode("n1", 1, TOPOLOGY, TOPOLOGY.mask, ())
IDLE = node_usage(NODE, [], [])


def tree_of_five() -> tuple[PodView, PlacementRequest, Match]:
    record = parse_gpu_pod(pod("tree", 5, annotations={"gputopo.io/pattern": "Tree"}), RESOURCE)
    assert record is not None
    request = placement_request(record, resource=RESOURCE, default_policy=PolicyName.GREEDY)
    assert isinstance(request, PlacementRequest)
    match = place(TOPOLOGY, TOPOLOGY.mask, request)
    assert isinstance(match, Match)
    return record, request, match


def placement_of(
    record: PodView,
    request: PlacementRequest,
    match: Match,
    compared: RecordedNodes | None = None,
    usage: NodeUsage = IDLE,
) -> dict[str, object]:
    decision = decide(record, request, match, node="n1", usage=usage, compared=compared)
    assert parse_placement(decision.annotations) is not None
    figures: dict[str, object] = json.loads(decision.annotations[PLACEMENT_ANNOTATION])
    return figures


def test_decision_claims_its_gpus_for_one_version_of_the_pod_and_records_its_request() -> None:
    _, request, match = tree_of_five()
    profiled = parse_gpu_pod(pod("a", 5, annotations={PROFILE_ANNOTATION: "bert"}), RESOURCE)
    assert profiled is not None
    view = dataclasses.replace(profiled, version=7)
    decision = decide(view, request, match, node="n1", usage=IDLE, compared=None)
    uuids = tuple(TOPOLOGY.uuid_of[index] for index in match.gpus)
    assert decision.claim == Claim("uid-a", "default", "a", "7", "n1", uuids)
    assert parse_gpus(decision.annotations) == GpusAnnotation(
        uid="uid-a",
        node="n1",
        generation=1,
        containers={"main": list(uuids)},
        request={"profile": "bert"},
    )


def test_proved_rank_order_has_no_bound() -> None:
    tree, request, match = tree_of_five()
    figures = placement_of(tree, request, match)
    assert figures["exact"] is True
    assert "aggregateBoundMBps" not in figures


def test_unproved_rank_order_has_a_bound() -> None:
    tree, request, match = tree_of_five()
    cut_short = dataclasses.replace(match, bound_mb_per_s=match.aggregate_mb_per_s + 25_000)
    figures = placement_of(tree, request, cut_short)
    assert figures["exact"] is False
    assert figures["aggregateMBps"] == match.aggregate_mb_per_s
    assert figures["aggregateBoundMBps"] == match.aggregate_mb_per_s + 25_000


def test_decision_records_what_a_replay_needs() -> None:
    tree, request, match = tree_of_five()
    compared = RecordedNodes(compared=3, fitted=2, better=0, equal=1, score=10)
    figures = placement_of(tree, request, match, compared)
    assert figures["replay"] == {
        "fingerprint": TOPOLOGY.fingerprint,
        "size": 5,
        "free": [0, 1, 2, 3, 4, 5, 6, 7],
        "gpus": list(match.gpus),
        "patternFrom": "Annotation",
        "policyFrom": "Installation",
        "declared": "Auto",
        "nodes": {"compared": 3, "fitted": 2, "better": 0, "equal": 1, "score": 10},
    }


def test_decision_without_filter_records_no_other_nodes() -> None:
    replay = placement_of(*tree_of_five())["replay"]
    assert isinstance(replay, dict)
    assert "nodes" not in replay


def test_decision_records_the_policy_of_kubelets_topology_manager() -> None:
    manager = Manager(ManagerPolicy.RESTRICTED, ManagerScope.CONTAINER, numa_mask([0, 1]))
    node_of = tuple((gpu.index, gpu.numa_node or 0) for gpu in TOPOLOGY.gpus)
    usage = dataclasses.replace(IDLE, numa=NumaRules(manager, node_of, cpus=None))
    replay = placement_of(*tree_of_five(), usage=usage)["replay"]
    assert isinstance(replay, dict)
    assert replay["topologyManagerPolicy"] == "restricted"


KEEPS_THE_DECISION: list[dict[str, Any]] = [
    {},
    {"phase": "Running"},
    {"labels": (("app", "train"),)},
    {"annotations": {POSTPONED_ANNOTATION: "1", RETRY_ANNOTATION: "2"}},
]
CHANGES_THE_POD: list[dict[str, Any]] = [
    {"uid": "uid-created-again"},
    {"node": "n1"},
    {"phase": "Failed"},
    {"containers": ()},
    {"annotations": {PATTERN_ANNOTATION: "Ring"}},
]


@pytest.mark.parametrize("change", [*KEEPS_THE_DECISION, *CHANGES_THE_POD])
def test_decision_is_valid_only_for_newer_views_of_the_same_request(change: dict[str, Any]) -> None:
    before = parse_gpu_pod(pod("a", 2), RESOURCE)
    assert before is not None
    valid = [
        is_unchanged(dataclasses.replace(before, **change, version=before.version + newer), before)
        for newer in (-1, 0, 1)
    ]
    assert valid == [False, False, change in KEEPS_THE_DECISION]
