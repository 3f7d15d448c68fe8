"""What the operator parses of measured pods, their nodes and pending pods."""

from typing import Any

import pytest

from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.profiling_queue import ProfiledPods
from gputopo_operator.parse_profiling import (
    available_milli_cpu,
    parse_profiled_pod,
    profiled_pods,
    waiting_milli_cpu,
)
from support.builders.objects import pod
from support.profiling.cluster import NAME, measured_container

KEY = ObjectKey("default", NAME)
RESIZE = "/pods/train-1/resize"


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


def test_another_pod_in_an_unknown_format_does_not_stop_a_measurement() -> None:
    node = {"status": {"allocatable": {"cpu": "16"}}}
    newer = pod("newer", containers=[cpu_container("main", "2")])
    newer["spec"]["schedulingGroup"] = "a-name"
    assert available_milli_cpu(node, [newer], "uid-own", "main") == 14_000
    assert waiting_milli_cpu({"items": [newer]}) is None


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
    assert profiled_pods(status, ()) == found
    assert profiled_pods(status, ("b", "a")) == found
    assert profiled_pods(status, ("b",)) == {}
    assert profiled_pods({}, ()) == {}


def test_report_of_a_node_advances_only_pods_with_a_new_sample() -> None:
    pods, one, two = ProfiledPods(()), ObjectKey("a", "one"), ObjectKey("a", "two")
    status: dict[str, Any] = {"measurements": [measurement("one", "CPUs")]}
    assert pods.changed("n1", status) == [one]
    assert pods.changed("n1", status) == []
    status["measurements"].append(measurement("two", "CPUs"))
    assert pods.changed("n1", status) == [two]
    status["samples"] = [{"podUID": "uid-one", "time": "1"}]
    assert pods.changed("n1", status) == [one]
    status["samples"] = []  # newer samples of other pods have replaced it
    assert pods.changed("n1", status) == []
    assert pods.changed("n1", {}) == []
    assert pods.changed("n1", status) == [one, two]
