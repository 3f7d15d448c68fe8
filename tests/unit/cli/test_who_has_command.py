"""``gputopo who-has`` compares the annotations with kubelet's pod-resources list."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputopo.api.names import GPUS_ANNOTATION
from support.api.kubeconfig import write_kubeconfig
from support.api.static import Document, StaticApi
from support.cli import healthy_cluster
from support.cli.command_line import Command
from support.cli.healthy_cluster import PODS, TOPOLOGIES, uuids
from support.cli.reachable import Serve

ROOT = Path(__file__).parents[3]


@pytest.fixture
def api(serve: Serve) -> StaticApi:
    return serve(healthy_cluster.users_of_gpus())


def train(api: StaticApi) -> Document:
    return api.lists[PODS][0]


def seen(api: StaticApi, index: int) -> Document:
    """Return the observed state of a GPU of n1."""
    (uuid,) = uuids("n1", index)
    gpus = api.lists[TOPOLOGIES][0]["status"]["gpus"]
    return next(gpu for gpu in gpus if gpu["uuid"] == uuid)


def annotate(pod: Document, **changed: Any) -> None:
    annotations = pod["metadata"]["annotations"]
    annotations[GPUS_ANNOTATION] = json.dumps(
        {**json.loads(annotations[GPUS_ANNOTATION]), **changed}
    )


def differences(gputopo: Command) -> list[tuple[Any, ...]]:
    rows = gputopo("who-has -o json").document
    return [
        (row["node"], row["index"], (row["pod"] or {}).get("name"), row["difference"])
        for row in rows
        if row["difference"]
    ]


def test_gpu_is_shown_with_its_intended_and_observed_user(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    assert gputopo("who-has n1 --gpu 3 -o json").document == [
        {
            "node": "n1",
            "index": 3,
            "uuid": uuids("n1", 3)[0],
            "unhealthy": None,
            "pod": {
                "namespace": "default",
                "name": "train",
                "uid": "uid-train",
                "container": "main",
                "since": "2026-01-02T03:04:05Z",
            },
            "intendedRank": 1,
            "observed": True,
            "difference": None,
            "podDeleted": False,
        }
    ]


def test_process_of_a_deleted_pod_is_shown_and_is_no_difference(
    api: StaticApi, gputopo: Command
) -> None:
    for index in (0, 2, 3):
        seen(api, index)["podDeleted"] = True
    for name_is_reused in (True, False):
        if not name_is_reused:
            del api.lists[PODS][0]
        else:
            train(api)["metadata"]["uid"] = "uid-new"
            del train(api)["metadata"]["annotations"][GPUS_ANNOTATION]
        (row,) = gputopo("who-has n1 --gpu 3 -o json").document
        assert (row["podDeleted"], row["observed"], row["difference"]) == (True, True, None)
        assert (row["pod"]["name"], row["pod"]["uid"]) == ("train", "uid-train")
    assert "process of a deleted pod" in gputopo("who-has n1").out


def test_a_free_gpu_has_no_pod(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    (row,) = gputopo("who-has n1 --gpu 1 -o json").document
    assert (row["pod"], row["intendedRank"], row["observed"]) == (None, None, False)


def test_all_gpus_of_all_nodes_are_shown_in_order(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    rows = gputopo("who-has -o json").document
    assert [(row["node"], row["index"]) for row in rows] == [
        (node, index) for node in ("n1", "n2") for index in range(8)
    ]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("n2", [("n2", index) for index in range(8)]),
        ("--gpu 5", [("n1", 5), ("n2", 5)]),
        (f"--gpu {uuids('n2', 5)[0]}", [("n2", 5)]),
        ("--pod default/train", [("n1", 0), ("n1", 2), ("n1", 3)]),
        ("n2 --pod ml/serve --gpu 5", [("n2", 5)]),
        ("--pod default/web", []),
    ],
)
def test_only_the_selected_gpus_are_shown(
    api: StaticApi, gputopo: Command, words: str, shown: list[tuple[str, int]]
) -> None:
    assert api.url
    rows = gputopo(f"who-has {words} -o json").document
    assert [(row["node"], row["index"]) for row in rows] == shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("n9", "node: 'n9': the cluster has no GPUTopology of this name"),
        ("--gpu 8", "gpu: '8' is not the UUID or index of a GPU of the selected nodes"),
        (
            f"n1 --gpu {uuids('n2', 5)[0]}",
            f"gpu: '{uuids('n2', 5)[0]}' is not the UUID or index of a GPU of the selected nodes",
        ),
        ("--pod train", "pod: 'train' is not the NAMESPACE/NAME of a pod of the cluster"),
        (
            "--pod default/gone",
            "pod: 'default/gone' is not the NAMESPACE/NAME of a pod of the cluster",
        ),
    ],
)
def test_query_for_a_missing_object_is_rejected(
    api: StaticApi, gputopo: Command, words: str, said: str
) -> None:
    assert api.url
    done = gputopo(f"who-has {words}")
    assert (done.status, done.out, done.err) == (2, "", f"gputopo: {said}\n")


def test_all_pages_of_a_list_are_read(api: StaticApi, gputopo: Command) -> None:
    api.page_size = 1
    assert gputopo("who-has").out.endswith("16 GPUs, 4 in use; no differences\n")


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


def test_unhealthy_gpu_is_shown_with_the_reason(api: StaticApi, gputopo: Command) -> None:
    seen(api, 7).update(healthy=False, reason="XID 79")
    seen(api, 6).update(healthy=False)
    lines = gputopo("who-has n1").out.splitlines()
    assert [" ".join(line.split()[8:]) for line in lines[7:9]] == [
        "unhealthy: unhealthy",
        "unhealthy: XID 79",
    ]


def test_gpu_that_is_missing_in_the_status_is_shown(api: StaticApi, gputopo: Command) -> None:
    del api.lists[TOPOLOGIES][1]["status"]
    assert "16 GPUs, 4 in use" in gputopo("who-has").out


def test_guide_shows_the_real_output(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    shown = re.search(
        r"\$ kubectl gputopo (who-has .*)\n([^`]*)```", (ROOT / "docs/use/cli.md").read_text()
    )
    assert shown
    assert gputopo(shown[1], program="kubectl-gputopo").out == shown[2]


@pytest.mark.parametrize("path", [PODS, TOPOLOGIES])
def test_missing_permission_is_reported(api: StaticApi, gputopo: Command, path: str) -> None:
    api.forbid(path, "you may not")
    done = gputopo("who-has")
    assert (done.status, done.err) == (2, "gputopo: API server: 403: you may not\n")


def test_cluster_without_gputopo_is_reported(api: StaticApi, gputopo: Command) -> None:
    del api.lists[TOPOLOGIES]
    done = gputopo("who-has")
    assert done.status == 2
    assert done.err == f"gputopo: cluster: gputopo is not installed: {TOPOLOGIES} is not here\n"


def test_a_cluster_without_topologies_is_no_error(api: StaticApi, gputopo: Command) -> None:
    api.lists[TOPOLOGIES].clear()
    api.lists[PODS].clear()
    assert gputopo("who-has").out == "0 GPUs, 0 in use; no differences\n"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"7"])
def test_server_that_is_not_an_api_server_is_reported(
    api: StaticApi, gputopo: Command, body: bytes
) -> None:
    api.rejections[TOPOLOGIES] = (200, body)
    done = gputopo("who-has")
    assert done.status == 2
    where = f"{api.url}: GET {TOPOLOGIES}"
    assert done.err == f"gputopo: API server: {where}: the response is not a JSON object\n"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}"])
def test_rejection_without_a_message_is_reported_by_its_code(
    api: StaticApi, gputopo: Command, body: bytes
) -> None:
    api.rejections[TOPOLOGIES] = (503, body)
    done = gputopo("who-has")
    assert done.err.startswith("gputopo: API server: 503: Service Unavailable")
    assert done.err.count("\n") == 1


def test_invalid_certificate_is_reported(api: StaticApi, gputopo: Command, tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "kubeconfig", api.url.replace("http", "https"))
    done = gputopo("who-has")
    assert done.status == 2
    assert done.err.startswith(f"gputopo: API server: {api.url.replace('http', 'https')}: ")
    assert done.err.count("\n") == 1
