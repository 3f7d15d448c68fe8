"""Which changes of pods, GPUProfiles and GPUTopologies need a new decision about a node."""

from typing import Any
from unittest.mock import MagicMock

import kopf
import pytest

from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.sized_pods import SizedPods
from gputopo_operator.controller.tuning_queue import TuningQueue
from gputopo_operator.decision.reports import sizes_differ
from gputopo_operator.model.workloads import NodeReport, WatchedPod
from gputopo_operator.parse.reports import parse_report
from gputopo_operator.parse.watched import parse_watched_pod, profile_fingerprint
from gputopo_operator.settings import OperatorSettings
from support.builders.gpujobs import observed_topology
from support.tuning.api_cluster import LINEAR, profile_object, sized_pod

TRAIN = ObjectKey("default", "train")


def watched(name: str = "a", node: str | None = "n1", **fields: Any) -> WatchedPod:
    document = sized_pod(name, node=node)
    for part, changes in fields.items():
        document[part] |= changes
    return parse_watched_pod(document)


def annotated(**annotations: Any) -> WatchedPod:
    return parse_watched_pod(sized_pod("a", **annotations))


def test_pod_is_reduced_to_its_node_and_profile() -> None:
    found = parse_watched_pod(sized_pod("a", profile="train"))
    assert (found.uid, found.node, found.profile) == ("uid-a", "n1", TRAIN)
    assert (watched(node=None).node, watched().profile) == ("", None)


CONDITION = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
CONTAINER = {"name": "main", "allocatedResources": {"cpu": "2"}}


@pytest.mark.parametrize(
    "changed",
    [
        watched(status={"phase": "Failed"}),
        watched(status={"conditions": [CONDITION]}),
        watched(status={"containerStatuses": [CONTAINER]}),
        watched(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        watched(metadata={"labels": {"gputopo.io/profiling-active": "true"}}),
        watched(spec={"containers": [{"name": "main", "image": "x"}]}),
        annotated(mode="Proportional"),
        annotated(resources_max="cpu=2"),
        annotated(profiling_state="{}"),
        annotated(profile="train"),
    ],
)
def test_change_that_can_change_the_decision_is_seen(changed: WatchedPod) -> None:
    pods = SizedPods()
    pods.change("*", watched(), deleted=False)
    assert pods.change("*", changed, deleted=False) == {"n1"}


@pytest.mark.parametrize(
    "same",
    [
        watched(),
        watched(metadata={"resourceVersion": "9"}),
        watched(status={"conditions": [{"type": "Ready", "status": "True"}]}),
        watched(status={"containerStatuses": []}),
        annotated(resources="{}"),
    ],
)
def test_other_changes_and_writes_of_the_operator_are_ignored(same: WatchedPod) -> None:
    pods = SizedPods()
    pods.change("*", watched(), deleted=False)
    assert pods.change("*", same, deleted=False) == set()


def test_arrival_move_and_departure_concern_the_nodes_of_a_pod() -> None:
    pods = SizedPods()
    assert not pods
    assert pods.change("*", watched(node=None), deleted=False) == set()
    assert pods
    assert pods.change("*", watched(), deleted=False) == {"n1"}
    assert pods.nodes() == {"n1"}
    assert pods.change("*", watched(), deleted=True) == {"n1"}
    assert pods.change("*", watched(), deleted=True) == {"n1"}
    assert not pods


def test_list_reports_the_nodes_of_all_differences() -> None:
    pods = SizedPods()
    assert pods.replace("one", [watched("a"), watched("b", "n2")]) == {"n1", "n2"}
    assert pods.replace("one", [watched("a"), watched("b", "n2")]) == set()
    assert pods.replace("other", [watched("c", "n3")]) == {"n3"}
    assert pods.replace("one", [watched("a", "n4")]) == {"n1", "n2", "n4"}
    assert pods.nodes() == {"n4", "n3"}


def test_new_facts_concern_the_nodes_with_pods_of_the_profile() -> None:
    pods = SizedPods()
    named = parse_watched_pod(sized_pod("a", profile="train"))
    pods.replace("*", [named, watched("b", "n2")])
    assert pods.profile_changed(TRAIN, 1) == {"n1"}
    assert pods.profile_changed(TRAIN, 1) == set()
    assert pods.profile_changed(ObjectKey("other", "train"), 1) == set()
    assert pods.profile_changed(TRAIN, None) == {"n1"}
    assert pods.profile_changed(TRAIN, None) == set()


def test_other_pods_with_gpus_concern_only_nodes_with_sized_pods() -> None:
    nodes, added = NodeStore(), list[str]()
    found: Any = MagicMock(settings=OperatorSettings(), nodes=nodes)
    found.queue.return_value.add_later = lambda name, _: added.append(name)
    queue = TuningQueue(found)
    queue.watch(kopf.OperatorRegistry())
    queue._sized.replace("*", [watched()])
    free, used = observed_topology("n1", {}), observed_topology("n1", {"GPU-1": "uid-b"})
    for kind, topology in (
        *(("ADDED", free), ("MODIFIED", used), ("MODIFIED", used)),
        *(("ADDED", observed_topology("n2", {})), ("DELETED", used)),
    ):
        nodes.reports.follow({"type": kind, "object": topology})
    assert added == ["n1", "n1", "n1"]


def test_new_rates_of_measured_limits_wait_for_the_next_round() -> None:
    def fingerprint(raw: dict[str, Any]) -> int:
        return profile_fingerprint(raw["spec"], raw.get("status") or {})

    before = fingerprint(profile_object("train", LINEAR))
    assert fingerprint(profile_object("train", dict.fromkeys(LINEAR, 5))) == before
    assert fingerprint(profile_object("train", {1: 5})) != before
    assert fingerprint(profile_object("train", LINEAR, memoryFloor="4Gi")) != before
    assert fingerprint({"spec": {}}) != before


def test_users_and_health_of_gpus_count() -> None:
    def report(gpu: dict[str, Any], **status: Any) -> NodeReport:
        topology = observed_topology("n1", {"GPU-1": "uid-a"})
        topology["status"]["gpus"][0] |= gpu
        return parse_report({**topology, "status": {**topology["status"], **status}})

    before = report({})
    assert not sizes_differ(before, report({"container": "main"}))
    assert not sizes_differ(before, report({}, observedPodsVersion="7"))
    assert sizes_differ(before, report({"podUID": "uid-b"}))
    assert sizes_differ(before, report({"healthy": False}))
    assert sizes_differ(before, report({}, gpus=[]))
    assert sizes_differ(before, report({"healthy": "perhaps"}))
    assert sizes_differ(
        before, report({}, sizedCapacity={"milliCPU": 8000, "memory": 2**30, "gpus": 1})
    )


def test_profiles_that_no_sized_pod_names_are_not_kept() -> None:
    pods = SizedPods()
    train = annotated(profile="train")
    for number in range(100):
        assert pods.profile_changed(ObjectKey("default", f"p{number}"), number) == set()
    assert not pods._profiles
    pods.change("*", train, deleted=False)
    assert pods.profile_changed(TRAIN, 1) == {"n1"}
    pods.replace("*", [train])
    assert pods.profile_changed(TRAIN, 1) == set()
    pods.change("*", train, deleted=True)
    assert not pods._profiles
    assert not pods._named
