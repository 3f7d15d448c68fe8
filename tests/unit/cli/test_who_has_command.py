"""``gputopo who-has`` compares the annotations with kubelet's pod-resources list."""

import re
from pathlib import Path

import pytest

from gputopo.api.names import GPUS_ANNOTATION
from support.api.kubeconfig import write_kubeconfig
from support.api.static import StaticApi
from support.cli import healthy_cluster
from support.cli.command_line import Command
from support.cli.healthy_cluster import PODS, TOPOLOGIES, uuids
from support.cli.reachable import Serve
from support.cli.who_has import seen, train

ROOT = Path(__file__).parents[3]


@pytest.fixture
def api(serve: Serve) -> StaticApi:
    return serve(healthy_cluster.users_of_gpus())


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
            "share": None,
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
