"""``gputopo who-has`` shows each difference between the annotations and kubelet with its reason."""

from collections.abc import Callable
from typing import Any

import pytest

from gputopo.api.names import GPUS_ANNOTATION
from support.api.static import StaticApi
from support.cli import healthy_cluster
from support.cli.command_line import Command
from support.cli.healthy_cluster import PODS, TOPOLOGIES, uuids
from support.cli.reachable import Serve
from support.cli.who_has import annotate, differences, seen, train


@pytest.fixture
def api(serve: Serve) -> StaticApi:
    return serve(healthy_cluster.users_of_gpus())


def _gone(api: StaticApi) -> None:
    del api.lists[PODS][0]


def _recreated(api: StaticApi) -> None:
    train(api)["metadata"]["uid"] = "uid-new"
    annotate(train(api), uid="uid-new")


def _ended(api: StaticApi) -> None:
    train(api)["status"]["phase"] = "Succeeded"


def _missing_allocation(api: StaticApi) -> None:
    for key in ("podUID", "namespace", "pod", "container"):
        del seen(api, 2)[key]


def _other_gpu(api: StaticApi) -> None:
    annotate(train(api), containers={"main": uuids("n1", 0, 3)})


def _unmanaged(api: StaticApi) -> None:
    del train(api)["metadata"]["annotations"]


def _copied(api: StaticApi) -> None:
    annotate(train(api), uid="uid-other")


def _another_node(api: StaticApi) -> None:
    annotate(api.lists[PODS][1], node="n1")


def _undecodable(api: StaticApi) -> None:
    annotate(train(api), v=2)


def _shared(api: StaticApi) -> None:
    api.lists[PODS].append(healthy_cluster.pod("twin", "n1", uuids("n1", 3)))


def _unknown_gpu(api: StaticApi) -> None:
    annotate(train(api), containers={"main": uuids("n1", 0, 3, 2), "side": ["GPU-x"]})


def _unpublished(api: StaticApi) -> None:
    del api.lists[TOPOLOGIES][1]


def _unreadable(api: StaticApi) -> None:
    api.lists[TOPOLOGIES][1]["spec"]["gpus"][0]["index"] = 99


def _contradicting(api: StaticApi) -> None:
    api.lists[TOPOLOGIES][1]["spec"]["gpus"][0]["index"] = 1


def _unreadable_status(api: StaticApi) -> None:
    api.lists[TOPOLOGIES][1]["status"]["gpus"][0]["healthy"] = "perhaps"


def _unbound(api: StaticApi) -> None:
    api.lists[PODS].append(healthy_cluster.pod("forged", "n1", uuids("n1", 7)))
    del api.lists[PODS][-1]["spec"]["nodeName"]


NO_POD = "kubelet's pod-resources list names a pod that does not exist"


NO_GPUS = ("n2", None, "serve", "the agent of this node has published no GPUs")


def of_train(difference: str, *indices: int | None) -> list[tuple[Any, ...]]:
    """Return differences of the GPUs of the pod default/train."""
    return [("n1", index, "train", difference) for index in indices or (0, 2, 3)]


def of_annotation(text: str) -> str:
    return f"{GPUS_ANNOTATION}: {text}"


def unreadable(text: str) -> list[tuple[Any, ...]]:
    """Return the differences of a node with an invalid GPUTopology."""
    return [("n2", None, None, f"its GPUTopology is invalid: {text}"), NO_GPUS]


@pytest.mark.parametrize(
    ("break_", "found"),
    [
        (_gone, of_train(NO_POD)),
        (
            _recreated,
            of_train("kubelet's pod-resources list has an earlier pod of this name, uid-train"),
        ),
        (_ended, of_train("the pod has ended, but is still in kubelet's pod-resources list")),
        (_missing_allocation, of_train("missing from kubelet's pod-resources list", 2)),
        (_other_gpu, of_train(f"{GPUS_ANNOTATION} does not name this GPU", 2)),
        (_unmanaged, of_train(f"the pod has no annotation {GPUS_ANNOTATION}")),
        (
            _copied,
            of_train(
                of_annotation("uid is uid-other, but the pod's uid is uid-train"),
                0,
                2,
                3,
                None,
            ),
        ),
        (
            _another_node,
            [
                ("n2", index, "serve", of_annotation("node is n1, but the pod's node is n2"))
                for index in (5, None)
            ],
        ),
        (_undecodable, of_train(of_annotation("v: 2: Input should be 1"), 0, 2, 3, None)),
        (
            _shared,
            [
                ("n1", 3, "train", "this GPU was also chosen for default/twin"),
                ("n1", 3, "twin", "this GPU was also chosen for default/train"),
            ],
        ),
        (_unknown_gpu, of_train("the node has no such GPU", None)),
        (_unpublished, [NO_GPUS]),
        (
            _unreadable,
            unreadable("spec.gpus[0].index: 99: Input should be less than or equal to 63"),
        ),
        (_contradicting, unreadable("gpus[].index: 1 occurs more than once")),
        (
            _unreadable_status,
            unreadable(
                "status.gpus[0].healthy: 'perhaps': Input should be a valid boolean, unable to"
                " interpret input"
            ),
        ),
        (
            _unbound,
            [("", None, "forged", of_annotation("node is n1, but the pod's node is none"))],
        ),
    ],
)
def test_difference_is_shown_with_its_reason(
    api: StaticApi,
    gputopo: Command,
    break_: Callable[[StaticApi], None],
    found: list[tuple[Any, ...]],
) -> None:
    break_(api)
    assert differences(gputopo) == found
    shown = gputopo("who-has").out
    assert shown.count("DIFFERS: ") == len(found)
    count = "1 DIFFERS" if len(found) == 1 else f"{len(found)} DIFFER"
    assert shown.endswith(f"; {count}\n")


def test_node_without_a_topology_is_shown_if_a_pod_has_its_gpus(
    api: StaticApi, gputopo: Command
) -> None:
    _unpublished(api)
    assert gputopo("who-has n2").out.endswith("0 GPUs, 0 in use; 1 DIFFERS\n")


def test_user_without_a_known_container_and_uid_is_shown(api: StaticApi, gputopo: Command) -> None:
    for key in ("podUID", "namespace", "container"):
        del seen(api, 0)[key]
    seen(api, 0)["pod"] = "static"
    rows = gputopo("who-has n1 --gpu 0 -o json").document
    assert [row["pod"]["name"] for row in rows] == ["static", "train"]
    assert rows[0]["pod"]["container"] is None
    assert rows[0]["difference"] == NO_POD


@pytest.mark.parametrize("start", [None, "2026-01-02T03:04:05Z"])
def test_pod_that_its_node_has_not_admitted_is_starting(
    api: StaticApi, gputopo: Command, start: str | None
) -> None:
    status = train(api)["status"]
    status["phase"] = "Pending"
    status["startTime"] = start
    for index in (0, 2, 3):
        for key in ("podUID", "namespace", "pod", "container"):
            del seen(api, index)[key]
    since = start or "2026-01-02T03:04:04Z"
    lines = [line.split() for line in gputopo("who-has --pod default/train").out.splitlines()]
    assert [line[5:] for line in lines[1:4]] == [
        [since, "rank", rank, "-", "starting"] for rank in ("0", "2", "1")
    ]
    assert differences(gputopo) == []


def test_a_pod_that_is_not_bound_yet_has_no_since(api: StaticApi, gputopo: Command) -> None:
    _unbound(api)
    status = api.lists[PODS][-1]["status"]
    del status["startTime"]
    status["conditions"][0]["status"] = "False"
    (row,) = gputopo("who-has --pod default/forged -o json").document
    assert row["pod"]["since"] is None
