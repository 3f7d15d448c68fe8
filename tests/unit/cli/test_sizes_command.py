"""``gputopo sizes`` shows CPU and memory of running pods as the operator computes them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputopo.api.profiling import CpuAmounts, ProfilingState
from gputopo_cli.cluster.sizes.bars import WIDTH, draw_bar
from support.api.static import Document
from support.cli.command_line import Command
from support.cli.healthy_cluster import DEPLOYMENTS, NODES, PODS, TOPOLOGIES
from support.cli.reachable import Serve
from support.cli.sized_cluster import PROFILES, SINCE, applied, measurement, record, sized_cluster
from support.tuning.api_cluster import GIB, sized_container, sized_pod

GUIDE = Path(__file__).parents[3] / "docs/use/cli.md"


@pytest.fixture
def pods(serve: Serve, gputopo: Command) -> Callable[..., dict[str, Any]]:
    """Return a function that shows pods of a cluster with ``more`` pods, by name."""

    def show(*more: Document, **arguments: str) -> dict[str, Any]:
        serve(sized_cluster(*more, **arguments))
        found = gputopo("sizes -o json").document
        return {pod["name"]: pod for node in found for pod in node["pods"]}

    return show


def test_guide_shows_amounts_bars_and_reasons_of_each_pod(serve: Serve, gputopo: Command) -> None:
    serve(sized_cluster())
    shown = re.search(r"\$ kubectl gputopo sizes\n([^`]*)```", GUIDE.read_text())
    assert shown
    assert gputopo("sizes").out == shown[1]


def test_json_has_the_division_of_the_node_and_all_amounts(serve: Serve, gputopo: Command) -> None:
    serve(sized_cluster())
    [node] = gputopo("sizes --node n1 -n default -o json").document
    linear = node.pop("pods")[1]
    assert node == {
        "node": "n1",
        "gpus": 4,
        "allocatable": {"milliCPU": 8000, "memory": 64 * GIB},
        "forSizedPods": {"milliCPU": 7500, "memory": 64 * GIB},
        "sharePerGPU": {"milliCPU": 1875, "memory": 28 * GIB},
    }
    assert linear == {
        "namespace": "default",
        "name": "linear",
        "uid": "uid-linear",
        "mode": "Auto",
        "gpus": 1,
        "now": {"milliCPU": 6500, "memory": 4 * GIB},
        "target": None,
        "floor": {"milliCPU": 1000, "memory": 4 * GIB},
        "share": {"milliCPU": 1875, "memory": 4 * GIB},
        "max": {"milliCPU": 8000, "memory": 4 * GIB},
        "gainPercent": 550,
        "since": SINCE,
        "state": "Resized",
        "reason": "6,500m CPU: 247 % faster than with its share of 1,875m",
        "problem": None,
    }


def test_namespace_and_node_select_pods(serve: Serve, gputopo: Command) -> None:
    other = sized_pod("other", node="n2")
    other["metadata"]["namespace"] = "ml"
    serve(sized_cluster(other))
    for line, expected in (
        ("sizes", ["n1", "n2"]),
        ("sizes -n ml", ["n2"]),
        ("sizes --node n1", ["n1"]),
        ("sizes --node n1 -n ml", []),
    ):
        found = gputopo(f"{line} -o json").document
        assert [node["node"] for node in found] == expected
    assert gputopo("sizes --node n1 -n ml").out.startswith("no sized pods; docs/use/live-sizing.md")


def test_node_that_does_not_exist_is_rejected(serve: Serve, gputopo: Command) -> None:
    serve(sized_cluster())
    done = gputopo("sizes --node n9")
    assert (done.status, done.out) == (2, "")
    assert done.err == "gputopo: node: 'n9' is not the name of a node of the cluster\n"


def with_condition(document: Document, reason: str) -> Document:
    condition = {
        "type": "PodResizePending",
        "status": "True",
        "reason": reason,
        "message": "Node didn't have enough resource",
    }
    document["status"]["conditions"] = [condition]
    return document


def resized(name: str = "a", cpu: str = "2", **fields: Any) -> Document:
    """Return a pod with a record of a resize from 1 to 2 CPUs."""
    annotation = record(name, target=2000, **fields)
    return sized_pod(name, container=sized_container(cpu), resources=annotation)


def test_raise_that_kubelet_defers_is_shown_with_its_target(
    pods: Callable[..., dict[str, Any]], gputopo: Command
) -> None:
    deferred = applied(with_condition(resized(done=False), "Deferred"), cpu="1")
    found = pods(deferred)["a"]
    assert (found["state"], found["problem"]) == ("Deferred", "Node didn't have enough resource")
    assert (found["now"]["milliCPU"], found["target"]["milliCPU"]) == (1000, 2000)
    lines = gputopo("sizes").out.splitlines()
    [row] = [line for line in lines if line.endswith("Deferred")]
    assert row.split() == [
        *["default/a", "Auto", "1", "1", "->", "2", "1", "1.875", "8", "4Gi", "-", "Deferred"]
    ]
    [reason] = [line for line in lines if line.endswith("why; Node didn't have enough resource")]
    assert "====...|..." in reason


def test_rejected_resize_is_shown(pods: Callable[..., dict[str, Any]]) -> None:
    rejected = applied(resized("a", rejected=True, reason="the resize to 4000m is infeasible"))
    found = pods(rejected)["a"]
    assert (found["state"], found["problem"]) == ("Rejected", None)
    assert (found["reason"], found["target"]) == ("the resize to 4000m is infeasible", None)


@pytest.mark.parametrize(("rate", "expected"), [(10, "0 %"), (5, "-50 %"), (20, "+100 %")])
def test_gain_of_a_resize_is_relative_to_the_rate_before(
    serve: Serve, gputopo: Command, rate: int, expected: str
) -> None:
    cluster = sized_cluster()
    measured = [measurement("linear", rate=rate, milli_cpu=6500)]
    cluster.lists[TOPOLOGIES][0]["status"] = {"measurements": measured}
    serve(cluster)
    [row] = [line for line in gputopo("sizes").out.splitlines() if line.endswith(" Resized")]
    assert row.endswith(f"  {expected}  Resized")


def test_message_of_kubelet_is_not_repeated(
    pods: Callable[..., dict[str, Any]], gputopo: Command
) -> None:
    reason = "deferred for 60 s: Node didn't have enough resource"
    pods(applied(with_condition(resized(done=False, reason=reason), "Deferred"), cpu="1"))
    [line] = [line for line in gputopo("sizes").out.splitlines() if "enough resource" in line]
    assert line.endswith(f"  {reason}")


def test_amounts_of_a_burstable_pod_are_its_limits(pods: Callable[..., dict[str, Any]]) -> None:
    document = resized(done=False)
    document["spec"]["containers"][0]["resources"]["limits"]["memory"] = "6Gi"
    found = pods(applied(document, cpu="1"))["a"]
    assert found["now"] == {"milliCPU": 1000, "memory": 6 * GIB}
    assert found["target"] == {"milliCPU": 2000, "memory": 6 * GIB}
    assert found["floor"] == {"milliCPU": 1000, "memory": 6 * GIB}


def test_resize_in_progress_and_pinned_pod_are_shown(
    pods: Callable[..., dict[str, Any]], gputopo: Command
) -> None:
    progress = applied(resized("progress", done=False), cpu="1")
    pinned = applied(resized("pinned", pinned=True, reason="another client has resized the pod"))
    found = pods(progress, pinned)
    assert (found["progress"]["state"], found["progress"]["problem"]) == ("Resizing", None)
    assert found["pinned"]["state"] == "Pinned"
    assert found["pinned"]["reason"] == "another client has resized the pod"
    assert (found["pinned"]["share"], found["pinned"]["max"]) == (None, None)
    [row] = [line for line in gputopo("sizes").out.splitlines() if line.endswith("Pinned")]
    assert row.split() == [
        *["default/pinned", "Auto", "1", "2", "1", "-", "-", "4Gi", "-", "Pinned"]
    ]


def test_pod_that_cannot_be_resized_is_shown_with_the_remedy(
    pods: Callable[..., dict[str, Any]],
) -> None:
    container = sized_container()
    del container["resources"]["limits"]["cpu"]
    del container["resources"]["limits"]["memory"]
    found = pods(sized_pod("a", container=container), sized_pod("b", mode="Best"))
    assert found["a"]["state"] == "NotPossible"
    assert "set both under resources.requests and resources.limits" in found["a"]["reason"]
    assert found["a"]["now"] == {"milliCPU": 0, "memory": 0}
    assert "'Best' is not one of" in found["b"]["reason"]


def test_pod_that_has_not_started_or_is_measured_is_shown(
    pods: Callable[..., dict[str, Any]],
) -> None:
    starting, measured = sized_pod("starting"), sized_pod("measured", profiling="CPUs")
    starting["status"]["phase"] = "Pending"
    found = pods(starting, measured)
    assert found["starting"]["state"] == "NotRunning"
    assert found["measured"]["state"] == "Measuring"
    assert "measures the pod with several CPU limits" in found["measured"]["reason"]


def test_floor_of_a_measured_pod_is_what_it_gets_back(
    pods: Callable[..., dict[str, Any]], gputopo: Command
) -> None:
    own, more = CpuAmounts(request=1000, limit=1000), CpuAmounts(request=3000, limit=3000)
    state = ProfilingState(
        uid="uid-a",
        container="main",
        original=own,
        most_milli_cpu=4000,
        started=SINCE,
        last=own,
        target=more,
        since=SINCE,
    )
    measured = sized_pod("a", container=sized_container("3"), profiling_state=state.dump())
    found = pods(applied(measured))["a"]
    assert (found["state"], found["now"]["milliCPU"]) == ("Measuring", 3000)
    assert found["floor"] == {"milliCPU": 1000, "memory": 4 * GIB}
    assert "7.5 of 8 CPUs for sized pods" in gputopo("sizes").out


def test_pod_that_the_operator_has_not_resized_yet_shows_what_is_planned(
    pods: Callable[..., dict[str, Any]],
) -> None:
    found = pods(applied(sized_pod("new", mode="Proportional")), sizing_mechanism="tune")["new"]
    assert found["state"] == "NotResized"
    assert found["reason"].startswith("the operator has not resized the pod yet; planned: ")


def test_settings_of_the_operator_decide_which_pods_are_sized(
    pods: Callable[..., dict[str, Any]], serve: Serve, gputopo: Command
) -> None:
    assert pods(namespaces="ml,research") == {}
    assert set(pods(namespaces="ml,default")) == {"flat", "linear"}
    hidden = sized_cluster(namespaces="ml")
    hidden.forbid(DEPLOYMENTS, "deployments are forbidden")
    serve(hidden)
    assert len(gputopo("sizes -o json").document[0]["pods"]) == 2


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PROFILES, "cluster: gputopo is not installed: "),
        (NODES, "/api/v1/nodes is not here"),
        (DEPLOYMENTS, "/apis/apps/v1/deployments is not here"),
    ],
)
def test_cluster_that_cannot_be_read_is_reported(
    serve: Serve, gputopo: Command, path: str, expected: str
) -> None:
    cluster = sized_cluster()
    del cluster.lists[path]
    serve(cluster)
    done = gputopo("sizes")
    assert (done.status, done.out) == (2, "")
    assert expected in done.err


def test_pod_that_is_not_valid_does_not_hide_the_others(serve: Serve, gputopo: Command) -> None:
    cluster = sized_cluster()
    del cluster.lists[PODS][0]["metadata"]["uid"]
    serve(cluster)
    [node] = gputopo("sizes -o json").document
    assert [pod["name"] for pod in node["pods"]] == ["flat"]


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ((8000, 1000, 8000, 8000), "====" + "+" * 27 + "|"),
        ((1000, 1000, 1000, 8000), "===|" + "." * 28),
        ((500, 1000, 0, 8000), "|=" + "." * 30),
        ((4000, 2000, None, 4000), "=" * 16 + "+" * 16),
        ((9000, 9000, None, 8000), "=" * 32),
        ((0, 0, None, -500), "." * 32),
    ],
)
def test_bar_shows_floor_amount_and_share(
    amounts: tuple[int, int, int | None, int], expected: str
) -> None:
    assert draw_bar(*amounts) == expected
    assert len(expected) == WIDTH
