"""A node, its pods and their GPUProfiles as the input of sizing running pods."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from gputopo.api.names import PROFILING_LABEL, TUNED_LABEL
from gputopo.api.profiling import CpuAmounts, ProfiledPoint, ProfilingState
from gputopo.api.tuning import Amounts, ResourcesMode, TunedRecord
from gputopo.tuning.model import ContainerAmounts, Dataset, TunedNode, TunedPod
from gputopo_kube.document import ObjectKey
from gputopo_kube.tuned_node import (
    NodePod,
    parse_node_pods,
    parse_sizing_facts,
    parse_tuned_node,
)
from support.builders.objects import pod
from support.tuning.api_cluster import GIB, node_object, profile_object, sized_container, sized_pod

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
START = "2026-01-01T11:00:00Z"


def parsed(*documents: dict[str, Any], namespaces: Sequence[str] = ()) -> list[NodePod]:
    return parse_node_pods(documents, "gputopo.io/gpu", namespaces, NOW)


def tuned(document: dict[str, Any]) -> TunedPod:
    [found] = parsed(document)
    assert found.tuned is not None
    return found.tuned


def node_of(*documents: dict[str, Any], facts: Any = None, **node: Any) -> TunedNode:
    pods = parsed(*documents)
    return parse_tuned_node(node_object(**node), pods, "gputopo.io/gpu", facts or {}, {}, NOW)


def record(since: str = START, memory: int = 4 * GIB, last: int = 8 * GIB) -> str:
    return TunedRecord(
        uid="uid-a",
        floor=Amounts(1000, 2 * GIB),
        last=Amounts(2000, last),
        target=Amounts(1000, memory),
        since=since,
    ).dump()


def container_status(**fields: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "main", **fields}]}


def with_status(document: dict[str, Any], **status: Any) -> dict[str, Any]:
    document["status"] |= status
    return document


def test_amounts_of_a_pod_are_those_of_its_container_with_gpus() -> None:
    document = sized_pod("a", container=sized_container("1500m", "1Gi", gpus=2, limit="4"))
    document["spec"]["containers"].insert(0, {"name": "side", "image": "x"})
    found = tuned(document)
    assert found.spec == ContainerAmounts(Amounts(1500, GIB), 4000, GIB)
    assert (found.uid, found.name, found.gpus) == ("uid-a", "a", 2)
    assert found.mode is ResourcesMode.AUTO
    assert not found.obstacle
    assert not found.measuring


def test_pod_without_label_or_mode_or_in_another_namespace_is_not_sized() -> None:
    unlabelled, fixed = sized_pod("a"), sized_pod("b", mode="Fixed")
    unlabelled["metadata"]["labels"] = {}
    assert [each.tuned for each in parsed(unlabelled, fixed, pod("c"))] == [None] * 3
    assert [each.tuned for each in parsed(sized_pod("d"), namespaces=["other"])] == [None]
    [served] = parsed(sized_pod("e"), namespaces=["other", "default"])
    assert served.tuned is not None
    assert served.container == "main"


def test_pod_that_is_deleted_counts_as_another_pod_and_an_ended_pod_not_at_all() -> None:
    deleted, ended = sized_pod("a"), with_status(sized_pod("b"), phase="Failed")
    deleted["metadata"]["deletionTimestamp"] = START
    [found] = parsed(deleted, ended)
    assert found.tuned is None
    node = node_of(deleted, ended)
    assert (node.gpus, node.others) == (3, Amounts(1000, 4 * GIB))


def test_upper_bounds_and_record_come_from_annotations() -> None:
    found = tuned(sized_pod("a", resources_max="cpu=6,memory=16Gi", resources=record()))
    assert (found.most_milli_cpu, found.most_memory) == (6000, 16 * GIB)
    assert found.record is not None
    assert found.record.floor == Amounts(1000, 2 * GIB)


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"mode": "Best"}, "gputopo.io/resources-mode: 'Best' is not one of"),
        ({"resources_max": "gpu=1"}, "gputopo.io/resources-max: 'gpu=1'"),
    ],
)
def test_annotation_that_is_not_valid_is_an_obstacle(
    annotations: dict[str, Any], expected: str
) -> None:
    assert expected in tuned(sized_pod("a", **annotations)).obstacle


def test_record_that_cannot_be_parsed_is_no_obstacle() -> None:
    found = tuned(sized_pod("a", resources="{"))
    assert (found.obstacle, found.record) == ("", None)
    assert found.unreadable.startswith("gputopo.io/resources: ")


def test_obstacles_are_found_in_the_spec() -> None:
    two = sized_pod("a")
    two["spec"]["containers"].append({**sized_container(), "name": "other"})
    none = sized_pod("a", container={"name": "main", "image": "x"})
    init = sized_pod("a")
    init["spec"]["initContainers"] = init["spec"].pop("containers")
    init["spec"]["containers"] = [{"name": "main", "image": "x"}]
    whole = sized_pod("a")
    whole["spec"]["resources"] = {"requests": {"cpu": "1"}}
    restarts = sized_container(
        resizePolicy=[
            {"resourceName": "memory", "restartPolicy": "RestartContainer"},
            {"resourceName": "cpu", "restartPolicy": "RestartContainer"},
        ]
    )
    for document in (two, none, init):
        assert "only a pod with one container with GPUs is sized" in tuned(document).obstacle
    assert "resources of the whole pod" in tuned(whole).obstacle
    assert "restartPolicy NotRequired for cpu" in tuned(sized_pod("a", container=restarts)).obstacle


def test_state_of_a_resize_comes_from_the_status_of_the_container() -> None:
    spec = sized_pod("a", container=sized_container("3999m", "4Gi", limit="4"))
    assert tuned(spec).state.allocated is None
    assert tuned(spec).state.applied is None
    assert tuned(with_status(spec, **container_status())).state.applied is None
    before = {"cpu": "1999m", "memory": "8Gi"}
    limits = {"cpu": "2", "memory": "8Gi"}
    status = container_status(
        allocatedResources=before, resources={"requests": before, "limits": limits}
    )
    state = tuned(with_status(spec, **status)).state
    assert state.allocated == Amounts(1999, 8 * GIB)
    assert state.applied == Amounts(1999, 8 * GIB)


def test_limits_in_effect_decide_whether_a_resize_is_applied() -> None:
    """Kubelet rounds requests, and reports the new memory request while the limit is the old."""
    spec = sized_pod("a", container=sized_container("3999m", "4Gi", limit="4"))
    rounded = {"requests": {"cpu": "4", "memory": "4Gi"}, "limits": {"cpu": "4", "memory": "8Gi"}}
    state = tuned(with_status(spec, **container_status(resources=rounded))).state
    assert state.applied == Amounts(3999, 8 * GIB)
    without = {"requests": {"cpu": "4", "memory": "4Gi"}}
    state = tuned(with_status(spec, **container_status(resources=without))).state
    assert state.applied == Amounts(4000, 4 * GIB)


@pytest.mark.parametrize(
    ("type_", "reason", "status", "observed", "expected"),
    [
        ("PodResizePending", "Deferred", "True", None, "Deferred"),
        ("PodResizePending", "Infeasible", "True", 3, "Infeasible"),
        ("PodResizePending", "Infeasible", "True", 2, None),
        ("PodResizeInProgress", "Error", "True", None, "Error"),
        ("PodResizeInProgress", None, "True", None, None),
        ("PodResizePending", "Deferred", "False", None, None),
        ("Ready", "Error", "True", None, None),
    ],
)
def test_problem_of_the_newest_resize_is_found(
    type_: str, reason: str | None, status: str, observed: int | None, expected: str | None
) -> None:
    condition = {"type": type_, "status": status, "reason": reason, "message": "why"}
    if observed is not None:
        condition["observedGeneration"] = observed  # type: ignore[assignment]
    document = with_status(sized_pod("a"), conditions=[condition])
    document["metadata"]["generation"] = 3
    state = tuned(document).state
    assert state.problem == expected
    assert state.message == ("why" if expected else "")


def killed(when: str = "2026-01-01T11:30:00Z", reason: str = "OOMKilled") -> dict[str, Any]:
    return {"terminated": {"reason": reason, "finishedAt": when, "exitCode": 137}}


@pytest.mark.parametrize(
    ("status", "annotation", "expected"),
    [
        ({"lastState": killed()}, None, 4 * GIB),
        ({"state": killed()}, None, 4 * GIB),
        ({"lastState": killed(reason="Error")}, None, 0),
        ({"lastState": {"terminated": None}}, None, 0),
        ({}, None, 0),
        ({"lastState": killed(), "resources": {"limits": {"memory": "5Gi"}}}, None, 5 * GIB),
        ({"lastState": killed()}, record(), 4 * GIB),
        ({"lastState": killed("2026-01-01T10:00:00Z")}, record(), 8 * GIB),
    ],
)
def test_memory_limit_of_the_last_oom_kill_is_known(
    status: dict[str, Any], annotation: str | None, expected: int
) -> None:
    written: dict[str, Any] = {"resources": annotation} if annotation else {}
    document = sized_pod("a", **written)
    assert tuned(with_status(document, **container_status(**status))).out_of_memory_at == expected


def test_oom_kill_without_a_memory_limit_is_ignored() -> None:
    document = sized_pod("a")
    del document["spec"]["containers"][0]["resources"]["limits"]["memory"]
    document = with_status(document, **container_status(lastState=killed()))
    assert tuned(document).out_of_memory_at == 0


def profiling(*, restored: bool, points: Sequence[ProfiledPoint] = ()) -> str:
    amounts = CpuAmounts(request=6000, limit=6000)
    return ProfilingState(
        points=tuple(points),
        uid="uid-a",
        container="main",
        original=amounts,
        most_milli_cpu=8000,
        started=START,
        last=amounts,
        target=amounts,
        since=START,
        restored=restored,
    ).dump()


@pytest.mark.parametrize(("cpu", "expected"), [("2", 9), ("6", 30), ("3", 0)])
def test_rate_that_was_measured_with_the_current_limit_is_known(cpu: str, expected: int) -> None:
    points = [
        ProfiledPoint(milli_cpu=milli_cpu, micro_steps_per_second=rate, setting="s")
        for milli_cpu, rate in ((2000, 8), (6000, 30), (2000, 9))
    ]
    state = profiling(restored=True, points=points)
    found = tuned(sized_pod("a", profiling_state=state, container=sized_container(cpu)))
    assert found.profiled_micro_steps_per_second == expected


@pytest.mark.parametrize(
    ("annotations", "measuring", "own"),
    [
        ({"profiling_state": profiling(restored=False)}, True, 6000),
        ({"profiling_state": profiling(restored=True), "profiling": "CPUs"}, False, 0),
        ({"profiling_state": "{", "profiling": "CPUs"}, False, 0),
        ({"profiling": "Links"}, False, 0),
        ({"profiling": "CPUs"}, True, 0),
        ({"profiling": "CPUs", "profiling_seconds": "3599"}, False, 0),
        ({"profiling": "CPUs", "profiling_seconds": "3600"}, True, 0),
    ],
)
def test_pod_is_left_alone_while_its_cpus_are_measured(
    annotations: dict[str, Any], own: int, *, measuring: bool
) -> None:
    started = START if "profiling_seconds" in annotations else None
    found = tuned(with_status(sized_pod("a", **annotations), startTime=started))
    assert (found.measuring, found.own_milli_cpu) == (measuring, own)


def test_pod_is_left_alone_before_it_starts_and_while_it_has_the_label_of_a_measurement() -> None:
    assert tuned(with_status(sized_pod("a"), phase="Pending")).measuring
    labelled = sized_pod("a")
    labelled["metadata"]["labels"] = {TUNED_LABEL: "true", PROFILING_LABEL: "true"}
    assert tuned(labelled).measuring


def test_other_containers_and_pods_hold_the_larger_of_spec_and_allocated() -> None:
    own, other = sized_pod("a"), pod("b", gpus=1)
    own["spec"]["containers"].append(
        {"name": "side", "image": "x", "resources": {"requests": {"cpu": "250m"}}}
    )
    other["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    with_status(other, **container_status(allocatedResources={"cpu": "2"}))
    node = node_of(own, other, cpu=16, gpus=4)
    assert node.others == Amounts(2250, 0)
    assert node.allocatable == Amounts(16_000, 64 * GIB)
    assert node.gpus == 3
    assert [each.name for each in node.pods] == ["a"]


def test_gpus_of_a_sized_pod_count_even_if_they_became_unhealthy() -> None:
    assert node_of(sized_pod("a", container=sized_container(gpus=4)), gpus=3).gpus == 4


def test_facts_and_data_set_come_from_the_profile_of_the_pod() -> None:
    data = {"size": "100Gi", "storageMBps": 500, "bytesPerStep": 1000}
    raw = profile_object("train", {1: 10}, dataset=data, memoryFloor="4Gi")
    found = parse_sizing_facts(raw)
    assert found.dataset == Dataset(100 * GIB, 500, 4 * GIB, 1000)
    key = ObjectKey("default", "train")
    named, unnamed = sized_pod("a", profile="train"), sized_pod("b")
    fixed = sized_pod(
        "c",
        profile="train",
        container=sized_container(
            resizePolicy=[{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
        ),
    )
    first, second, third = node_of(named, unnamed, fixed, facts={key: found}).pods
    assert first.facts is not None
    assert [point.milli_cpu for point in first.facts.cpus[0].points] == [1000]
    assert first.dataset == found.dataset
    assert second.facts is None
    assert second.dataset is None
    assert third.facts is not None
    assert third.dataset is None


@pytest.mark.parametrize("spec", [{}, {"memoryFloor": "4Gi"}, {"dataset": 4}])
def test_incomplete_or_unknown_data_set_is_missing(spec: dict[str, Any]) -> None:
    raw = {**profile_object("train", {1: 10}), "spec": spec}
    assert parse_sizing_facts(raw).dataset is None
    assert parse_sizing_facts({**raw, "status": {}}).facts is None
    assert parse_sizing_facts(None).facts is None


def test_amounts_of_an_invalid_pod_count_as_far_as_they_can_be_parsed() -> None:
    document = sized_pod("a", container=sized_container("2", "4Gi", gpus=2))
    document["spec"]["containers"] += [{"name": 5}, "none"]
    document["spec"] |= {"overhead": {"cpu": "1"}, "initContainers": "none", "priority": "high"}
    held = {"cpu": "3", "memory": "4Gi"}
    document = with_status(document, **container_status(allocatedResources=held))
    [found] = parsed(document)
    assert found.tuned is None
    assert found.invalid.startswith("pod spec.")
    node = node_of(document)
    assert (node.gpus, node.others) == (2, Amounts(4000, 4 * GIB))


def test_unexpected_error_of_one_pod_leaves_only_this_pod_out() -> None:
    ended = {"terminated": {"reason": "OOMKilled", "finishedAt": "yesterday"}}
    wrong = with_status(sized_pod("a", resources=record()), **container_status(lastState=ended))
    [left_out, other] = parsed(wrong, sized_pod("b"))
    expected = "the pod cannot be parsed: ValueError: Invalid isoformat string: 'yesterday'"
    assert (left_out.obstacle, left_out.labelled) == (expected, True)
    assert other.tuned is not None
    node = node_of(wrong, sized_pod("b"))
    assert [each.name for each in node.pods] == ["b"]
    assert node.others.milli_cpu == 1000


def test_invalid_pod_that_has_ended_does_not_count() -> None:
    document = with_status(sized_pod("a"), phase="Succeeded")
    document["spec"]["priority"] = "high"
    assert parsed(document) == []
