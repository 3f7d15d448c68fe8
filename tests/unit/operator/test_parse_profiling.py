"""What the operator parses of measured pods, their nodes and pending pods."""

from typing import Any
from unittest.mock import Mock

import kopf
import pytest

from gputopo.api.names import PROFILING_LABEL, PROFILING_STATE_ANNOTATION
from gputopo.api.profiling import CpuAmounts, ProfilingState
from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.profiling_queue import ProfilingQueue
from gputopo_operator.parse.profiling import (
    available_milli_cpu,
    parse_profiled_pod,
    waiting_milli_cpu,
)
from gputopo_operator.parse.reports import profiled_pods
from gputopo_operator.settings import OperatorSettings
from support.builders.objects import pod
from support.profiling.cluster import NAME, measured_container

KEY = ObjectKey("default", NAME)
TIME = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([measured_container("a"), measured_container("b")], "only in a pod with one container"),
        ([{"name": "main", "image": "x"}], "only in a pod with one container"),
        (
            [
                measured_container(
                    resizePolicy=[
                        {"resourceName": "memory", "restartPolicy": "RestartContainer"},
                        {"resourceName": "cpu", "restartPolicy": "RestartContainer"},
                    ]
                )
            ],
            "set restartPolicy NotRequired for cpu",
        ),
        ([measured_container()], ""),
    ],
)
def test_obstacles_are_found_in_the_spec(containers: list[Any], expected: str) -> None:
    document = pod("train", containers=containers)
    document["metadata"]["annotations"] = {
        "gputopo.io/profile": "a",
        "gputopo.io/profiling": "CPUs",
    }
    profiled, _ = parse_profiled_pod(document, "gputopo.io/gpu")
    assert expected in profiled.obstacle
    assert bool(profiled.obstacle) == bool(expected)


def test_invalid_annotation_requests_nothing() -> None:
    document = pod("train", containers=[measured_container()])
    document["metadata"]["annotations"] = {"gputopo.io/profiling": "Memory"}
    profiled, _ = parse_profiled_pod(document, "gputopo.io/gpu")
    assert not profiled.requested
    assert "gputopo.io/profiling" in profiled.obstacle


def test_container_without_cpu_request_or_limit_has_no_cpus() -> None:
    without = measured_container()
    del without["resources"]["limits"]["cpu"]
    profiled, _ = parse_profiled_pod(pod("train", containers=[without]), "gputopo.io/gpu")
    assert profiled.cpu is None


def cpu_container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "x", "resources": {"requests": {"cpu": cpu}}, **more}


def test_cpus_of_other_pods_and_containers_are_not_available() -> None:
    node = {"status": {"allocatable": {"cpu": "16"}}}
    own = pod("own", containers=[cpu_container("main", "4"), cpu_container("side", "500m")])
    other = pod(
        "other",
        containers=[cpu_container("main", "1")],
        init_containers=[
            cpu_container("sidecar", "250m", restartPolicy="Always"),
            cpu_container("load", "3"),
        ],
    )
    other["spec"]["overhead"] = {"cpu": "100m"}
    ended = pod("ended", phase="Succeeded", containers=[cpu_container("main", "9")])
    pods = [own, other, ended]
    assert available_milli_cpu(node, pods, "uid-own", "main") == 16_000 - 500 - 3350
    assert available_milli_cpu({}, pods, "uid-own", "main") == 0


def test_init_container_that_has_ended_keeps_no_cpus_from_the_measured_container() -> None:
    node = {"status": {"allocatable": {"cpu": "16"}}}
    own = pod(
        "own",
        containers=[cpu_container("main", "4"), cpu_container("side", "500m")],
        init_containers=[
            cpu_container("sidecar", "250m", restartPolicy="Always"),
            cpu_container("load", "8"),
        ],
    )
    assert available_milli_cpu(node, [own], "uid-own", "main") == 16_000 - 500 - 250


def test_cpus_that_kube_scheduler_counts_during_a_resize_are_not_available() -> None:
    node = {"status": {"allocatable": {"cpu": "16"}}}
    whole = pod("whole", containers=[cpu_container("main", "1")])
    whole["spec"]["resources"] = {"requests": {"cpu": "3"}}
    shrinking = pod("shrinking", containers=[cpu_container("main", "1")])
    shrinking["status"]["containerStatuses"] = [
        {"name": "main", "allocatedResources": {"cpu": "4"}}
    ]
    infeasible = pod("infeasible", containers=[cpu_container("main", "64")])
    infeasible["status"]["containerStatuses"] = [
        {"name": "main", "allocatedResources": {"cpu": "2"}}
    ]
    infeasible["status"]["conditions"] = [
        {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    ]
    pods = [whole, shrinking, infeasible]
    assert available_milli_cpu(node, pods, "uid-own", "main") == 16_000 - 3000 - 4000 - 2000
    assert available_milli_cpu(node, pods, "uid-shrinking", "main") == 16_000 - 3000 - 2000
    assert waiting_milli_cpu({"items": [whole]}) == (3000,)


NODE = {"status": {"allocatable": {"cpu": "16"}}}


def cpus(milli_cpu: int) -> CpuAmounts:
    return CpuAmounts(request=milli_cpu, limit=milli_cpu)


def lent_pod(*containers: Any, labels: dict[str, str] | None = None, **fields: Any) -> Any:
    """Return a pod whose measurement has lowered its 4 CPUs to 1, as far as its annotation says."""
    original = fields.pop("original", cpus(4000))
    values = {
        "uid": "uid-lent",
        "container": "main",
        "original": original,
        "most_milli_cpu": 4000,
        "started": TIME,
        "last": original,
        "target": cpus(1000),
        "since": TIME,
    }
    state = ProfilingState.model_validate(values | fields)
    annotations = {PROFILING_STATE_ANNOTATION: state.dump()}
    parts = [*containers] or [measured_container(cpu="1")]
    document = pod("lent", containers=parts, annotations=annotations)
    document["metadata"]["labels"] = {PROFILING_LABEL: "true"} if labels is None else labels
    return document


def test_lowered_request_counts_once_while_kubelet_has_not_applied_it() -> None:
    lent = lent_pod()
    assert available_milli_cpu(NODE, [lent], "uid-own", "main") == 12_000
    lent["status"]["containerStatuses"] = [{"name": "main", "allocatedResources": {"cpu": "4"}}]
    assert available_milli_cpu(NODE, [lent], "uid-own", "main") == 12_000


@pytest.mark.parametrize(
    "forged",
    [
        lent_pod(cpu_container("main", "1")),
        lent_pod(measured_container(cpu="1"), measured_container("second", cpu="0")),
        lent_pod(measured_container(cpu="4", request="1"), target={"request": 1000, "limit": 4000}),
        lent_pod(labels={}),
        lent_pod(container="other"),
        lent_pod(restored=True),
        lent_pod(uid="uid-copied"),
    ],
    ids=["no GPU", "two containers", "Burstable", "no label", "container", "restored", "copied"],
)
def test_pod_that_cannot_be_measured_claims_no_cpus(forged: Any) -> None:
    assert available_milli_cpu(NODE, [forged], "uid-own", "main") == 15_000


def test_claims_of_other_pods_leave_the_cpus_that_a_pod_has() -> None:
    huge = cpus(10**9)
    forged = lent_pod(original=huge, last=huge)
    own = pod("own", containers=[measured_container(cpu="4")])
    assert available_milli_cpu(NODE, [forged, own], "uid-own", "main") == 4000
    measured = lent_pod(original=cpus(6000), last=cpus(6000))
    text = measured["metadata"]["annotations"][PROFILING_STATE_ANNOTATION]
    own = pod(
        "own",
        containers=[measured_container(cpu="1")],
        annotations={PROFILING_STATE_ANNOTATION: text.replace("uid-lent", "uid-own")},
    )
    own["metadata"]["labels"] = {PROFILING_LABEL: "true"}
    assert available_milli_cpu(NODE, [forged, own], "uid-own", "main") == 6000


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (lent_pod(cpu_container("main", "1")), "only in a pod with one container"),
        (lent_pod(container="other"), "its CPUs do not fit"),
        (lent_pod(), ""),
        # Another client has resized the pod, which ends the measurement.
        (lent_pod(measured_container(cpu="3", request="2")), ""),
    ],
)
def test_state_that_the_operator_cannot_have_written_is_not_used(
    document: Any, expected: str
) -> None:
    document["metadata"]["annotations"] |= {"gputopo.io/profile": "a"}
    profiled, _ = parse_profiled_pod(document, "gputopo.io/gpu")
    assert expected in profiled.obstacle
    assert (profiled.state is None) == bool(profiled.obstacle) == bool(expected)


def test_another_pod_in_an_unknown_format_does_not_stop_a_measurement() -> None:
    node = {"status": {"allocatable": {"cpu": "16"}}}
    newer = pod("newer", containers=[cpu_container("main", "2")])
    newer["spec"]["schedulingGroup"] = "a-name"
    assert available_milli_cpu(node, [newer], "uid-own", "main") == 14_000
    pending = pod("pending", containers=[cpu_container("main", "1")])
    assert waiting_milli_cpu({"items": [newer, pending]}) == (2000, 1000)


def test_long_list_of_pending_pods_is_unknown() -> None:
    pending = pod("pending", containers=[cpu_container("main", "2")])
    assert waiting_milli_cpu({"items": [pending]}) == (2000,)
    assert waiting_milli_cpu({"metadata": {"continue": "x"}, "items": [pending]}) is None
    assert waiting_milli_cpu({}) == ()


def measurement(name: str, *profiling: str) -> dict[str, Any]:
    return {"namespace": "a", "pod": name, "podUID": f"uid-{name}", "profiling": [*profiling]}


def test_measured_pods_come_from_the_status_of_a_topology() -> None:
    measurements = [measurement("train", "CPUs", "Links"), measurement("other", "Links")]
    samples = [{"podUID": "uid-train", "time": "1"}, {"podUID": "uid-other", "time": "2"}]
    status = {"measurements": [*measurements, measurement("plain")], "samples": samples}
    found = {ObjectKey("a", "train"): frozenset({"uid-train", "1"})}
    assert profiled_pods(status) == found
    assert profiled_pods({}) == {}


class Advanced:
    """The pods that a report adds to the queue of measured pods."""

    def __init__(self, **settings: str) -> None:
        self.nodes = NodeStore()
        found: Any = Mock(settings=OperatorSettings.model_validate(settings), nodes=self.nodes)
        self._added: list[ObjectKey] = []
        found.queue.return_value.add = self._added.append
        ProfilingQueue(found).watch(kopf.OperatorRegistry())

    def changed(self, status: dict[str, Any], kind: str = "MODIFIED") -> list[str]:
        """Return the names of the pods that a new status of the node adds."""
        metadata = {"name": "n1", "uid": "uid-n1"}
        self.nodes.reports.follow(
            {"type": kind, "object": {"metadata": metadata, "status": status}}
        )
        names = [key.name for key in self._added]
        self._added.clear()
        return names


def test_report_of_a_node_advances_only_pods_with_a_new_sample() -> None:
    pods = Advanced()
    status: dict[str, Any] = {"measurements": [measurement("one", "CPUs")]}
    assert pods.changed(status) == ["one"]
    assert pods.changed(status) == []
    status["measurements"].append(measurement("two", "CPUs"))
    assert pods.changed(status) == ["two"]
    status["samples"] = [{"podUID": "uid-one", "time": "1"}]
    assert pods.changed(status) == ["one"]
    status["samples"] = []  # newer samples of other pods have replaced it
    assert pods.changed(status) == []
    assert pods.changed(status, "DELETED") == []
    assert pods.changed(status) == ["one", "two"]


def test_pods_in_namespaces_of_others_are_not_advanced() -> None:
    status = {"measurements": [measurement("one", "CPUs")]}
    assert Advanced(namespaces="b,a").changed(status) == ["one"]
    assert Advanced(namespaces="b").changed(status) == []


def test_unreadable_parts_of_a_report_hide_no_other_part() -> None:
    broken: list[Any] = [None, "text", {"podUID": 1, "profiling": ["CPUs"]}, {"profiling": "x"}]
    status = {
        "measurements": [*broken, measurement("train", "CPUs")],
        "samples": [None, {"time": 3}, {"podUID": "uid-train", "time": "1"}],
    }
    expected = {ObjectKey("a", "train"): frozenset({"uid-train", "1"})}
    assert profiled_pods(status) == expected
    assert profiled_pods({"measurements": "none", "samples": 3}) == {}
    nodes: list[Any] = [{}, {"status": "x"}, {"status": {"allocatable": []}}]
    for node in nodes:
        assert available_milli_cpu(node, [], "uid-own", "main") == 0
