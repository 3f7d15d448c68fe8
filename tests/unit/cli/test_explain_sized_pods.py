"""``gputopo explain`` shows why a pod that gputopo sizes has its CPUs and memory."""

from collections.abc import Callable
from typing import Any

import pytest

from support.api.static import Document, StaticApi
from support.cli.command_line import Command
from support.cli.healthy_cluster import NODES, PODS, TOPOLOGIES
from support.cli.reachable import Serve
from support.cli.sized_cluster import applied, record, sized_cluster
from support.explain.placed import placed_pod
from support.tuning.api_cluster import sized_container, sized_pod

SCREEN = """
CPU AND MEMORY                                  WHY
now             6.5 CPUs, 4Gi                   limits that kubelet has applied
floor           1 CPU, 4Gi                      the pod was created with it and never gets less
share           1.875 CPUs, 4Gi                 1 GPU x 1.875 CPUs, the share of a GPU of n1, \
within floor and maximum
maximum         8 CPUs, 4Gi                     what the node has
curve           1: 10, 2: 20, 4: 40, 8: 80      measured steps/s by CPUs, from the pod's GPUProfile
recomputed      6.5 CPUs, 4Gi                   the spec has these amounts: 6,500m CPU: \
247 % faster than with its share of 1,875m
Sized           Resized                         kubelet has applied the newest resize; 6,500m CPU: \
247 % faster than with its share of 1,875m
"""

Show = Callable[..., Any]


@pytest.fixture
def serve_pods(serve: Serve) -> Serve:
    """Serve each pod of the lists also by its name, with its node."""

    def serve_objects(api: StaticApi) -> StaticApi:
        api.objects = {
            f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}": pod
            for pod in api.lists[PODS]
        }
        api.objects[f"{NODES}/n1"] = api.lists[NODES][0]
        api.objects[f"{TOPOLOGIES}/n1"] = api.lists[TOPOLOGIES][0]
        return serve(api)

    return serve_objects


@pytest.fixture
def sized(serve_pods: Serve, gputopo: Command) -> Show:
    """Return a function that returns name, value and reason of each line about a pod."""

    def show(name: str, *more: Document) -> dict[str, tuple[str, str]]:
        serve_pods(sized_cluster(*more))
        sizing = gputopo(f"explain {name} -o json").document["sizing"]
        return {part["name"]: (part["value"], part["why"]) for part in sizing["parts"]}

    return show


def test_amounts_bounds_curve_and_recomputed_amounts_are_shown(
    serve_pods: Serve, gputopo: Command
) -> None:
    serve_pods(sized_cluster())
    done = gputopo("explain linear")
    assert done.status == 0
    lines = done.out.partition("\nCPU AND MEMORY")[2].splitlines()
    shown = [line.split("  ") for line in lines]
    expected = [line.split("  ") for line in SCREEN.partition("\nCPU AND MEMORY")[2].splitlines()]
    assert [[part for part in line if part] for line in shown] == [
        [part for part in line if part] for line in expected
    ]


def test_json_has_the_amounts_of_sizes_and_whether_they_agree(
    serve_pods: Serve, gputopo: Command
) -> None:
    serve_pods(sized_cluster())
    sizing = gputopo("explain linear -o json").document["sizing"]
    assert sizing["now"] == {"milliCPU": 6500, "memory": 4 * 2**30}
    assert (sizing["state"], sizing["recomputedAgrees"]) == ("Resized", True)


def test_amounts_that_the_operator_would_change_are_reported(sized: Show) -> None:
    stale = sized_pod(
        "stale",
        profile="linear",
        container=sized_container("2"),
        resources=record("stale", target=2000),
    )
    found = sized("stale", applied(stale))
    assert found["recomputed"][1].startswith("DIFFERS from the spec: ")


def test_resize_in_flight_has_a_target(sized: Show) -> None:
    raised = sized_pod(
        "raised",
        container=sized_container("2", gpus=2),
        resources=record("raised", target=2000, done=False),
        resources_max="cpu=3",
    )
    found = sized("raised", applied(raised, cpu="1"))
    assert found["now"][0] == "1 CPU, 4Gi"
    assert found["target"] == ("2 CPUs, 4Gi", "newest resize, not applied yet")
    assert found["maximum"] == (
        "3 CPUs, 4Gi",
        "requested with gputopo.io/resources-max or resources.max",
    )
    assert found["share"][1].startswith("2 GPUs x ")
    assert found["Sized"][0] == "Resizing"
    assert "curve" not in found


def test_failed_raise_bounds_the_maximum(sized: Show) -> None:
    failed = sized_pod(
        "failed", resources=record("failed", target=1000, rejected=True, most_milli_cpu=2500)
    )
    found = sized("failed", applied(failed))
    assert found["maximum"] == ("2.5 CPUs, 4Gi", "the most that an earlier resize has permitted")


def test_pinned_pod_has_neither_share_nor_maximum(sized: Show) -> None:
    pinned = sized_pod("pinned", resources=record("pinned", target=1000, pinned=True))
    found = sized("pinned", applied(pinned))
    assert not {"share", "maximum"} & found.keys()
    assert found["Sized"] == ("Pinned", "gputopo does not resize the pod any more; why")
    assert found["recomputed"][1].startswith("the spec has these amounts: unchanged: ")


def test_missing_permission_makes_the_sizes_unknown(serve_pods: Serve, gputopo: Command) -> None:
    api = serve_pods(sized_cluster())
    api.forbid(PODS, "pods is forbidden")
    done = gputopo("explain linear")
    assert done.status == 0
    assert "\nCPU and memory: unknown: the objects of the node cannot be read: " in done.out
    assert "pods is forbidden" in gputopo("explain linear -o json").document["sizing"]["unknown"]


@pytest.mark.parametrize("ended", [True, False])
def test_pod_that_has_ended_has_no_sizes(
    serve_pods: Serve, gputopo: Command, *, ended: bool
) -> None:
    cluster = sized_cluster(sized_pod("gone"))
    for document in cluster.lists[PODS]:
        if ended or document["metadata"]["name"] == "gone":
            document["status"] |= {"phase": "Succeeded"}
    serve_pods(cluster)
    assert (
        "unknown: the pod has ended, or the operator does not size" in gputopo("explain gone").out
    )


def test_pod_that_gputopo_does_not_size_has_no_such_lines(
    serve_pods: Serve, gputopo: Command
) -> None:
    serve_pods(sized_cluster(placed_pod(2)))
    assert "CPU and memory" not in gputopo("explain train").out
    assert gputopo("explain train -o json").document["sizing"] is None
