"""What kube-scheduler counts for a pod."""

from typing import Any

import pytest

from gputopo_kube.podmodel import parse_pod_object
from gputopo_kube.podrequests import counted_requests
from support.builders.objects import pod


def container(name: str = "main", **requests: str) -> dict[str, Any]:
    return {"name": name, "image": "x", "resources": {"requests": requests}}


def counted(document: dict[str, Any], only: str = "") -> dict[str, int]:
    return dict(counted_requests(parse_pod_object(document), only))


def resized(problem: str = "", **status: Any) -> dict[str, Any]:
    document = pod("a", containers=[container(cpu="4", memory="1Ki"), container("side", cpu="1")])
    document["status"]["containerStatuses"] = [{"name": "main", **status}]
    condition = {"type": "PodResizePending", "status": "True", "reason": problem}
    document["status"]["conditions"] = [condition] if problem else []
    return document


def test_containers_sidecars_and_overhead_add_up() -> None:
    document = pod(
        "a",
        containers=[container(cpu="1"), container("other", cpu="500m")],
        init_containers=[
            {**container("sidecar", cpu="250m"), "restartPolicy": "Always"},
            container("small", cpu="1"),
        ],
    )
    document["spec"]["overhead"] = {"cpu": "100m", "memory": "1"}
    assert counted(document) == {"cpu": 1850, "memory": 1000}


def test_largest_init_container_counts_if_it_needs_more() -> None:
    document = pod(
        "a",
        containers=[container(cpu="1", memory="8")],
        init_containers=[container("load", cpu="3", memory="2"), container("check", cpu="2")],
    )
    assert counted(document) == {"cpu": 3000, "memory": 8000}
    started = counted_requests(parse_pod_object(document), started=True)
    assert started == {"cpu": 1000, "memory": 8000}


def test_limit_counts_without_a_request_and_invalid_quantities_are_0() -> None:
    main = {"name": "main", "image": "x", "resources": {"limits": {"cpu": "2", "memory": "much"}}}
    assert counted(pod("a", containers=[main])) == {"cpu": 2000}
    assert counted(pod("a", containers=[{"name": "main", "image": "x"}])) == {}


def test_requests_of_the_pod_replace_those_of_its_containers() -> None:
    document = pod("a", containers=[container(cpu="1", memory="1")])
    document["spec"]["resources"] = {"requests": {"cpu": "8"}}
    assert counted(document) == {"cpu": 8000, "memory": 1000}


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        ({}, 5000),
        ({"allocatedResources": {"cpu": "6", "example.com/a": "1"}}, 7000),
        ({"resources": {"requests": {"cpu": "8"}}, "allocatedResources": {"cpu": "6"}}, 9000),
        ({"allocatedResources": {"cpu": "2"}}, 5000),
        ({"allocatedResources": {"cpu": "2"}, "problem": "Deferred"}, 5000),
        ({"allocatedResources": {"cpu": "2"}, "problem": "Infeasible"}, 3000),
        ({"problem": "Infeasible"}, 5000),
    ],
)
def test_larger_of_spec_and_allocated_counts_unless_the_resize_is_infeasible(
    status: dict[str, Any], cpu: int
) -> None:
    assert counted(resized(**status)) == {"cpu": cpu, "memory": 1024_000}


def test_one_container_is_counted_alone() -> None:
    assert counted(resized(allocatedResources={"cpu": "6"}), "main") == {
        "cpu": 6000,
        "memory": 1024_000,
    }
