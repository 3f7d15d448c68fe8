"""``who-has``, ``explain``, ``place --live``, ``profile`` and ``doctor`` show shares of GPUs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gputopo.api.names import RESOURCE
from support.api.static import Document, StaticApi
from support.builders.live import gpu_user
from support.cli import live_cluster
from support.cli.broken_cluster import change, findings
from support.cli.command_line import Command
from support.cli.healthy_cluster import (
    CONFIG_MAPS,
    CONFIGURATION,
    DAEMON_SETS,
    NODES,
    PODS,
    TOPOLOGIES,
    installation,
)
from support.cli.reachable import Serve
from support.shares import (
    LARGE,
    SHARES,
    SMALL,
    share,
    sharing_node,
    sharing_pod,
    sharing_topology,
    two_on_one_gpu,
)

QUOTAS = "/api/v1/resourcequotas"
NAMESPACED = "/api/v1/namespaces/default/pods"
PROFILES = f"{live_cluster.OWN}/gpuprofiles"


def shared_gpu(pods: Mapping[str, Document] | None = None) -> StaticApi:
    """Return a node whose GPU 0 is shared by ``first``; the other GPUs are in use."""
    api = live_cluster.live_cluster()
    first = sharing_pod("first", share(0))
    new = sharing_pod("new")
    api.objects = {f"{NAMESPACED}/new": new}
    api.lists |= {
        live_cluster.TOPOLOGIES: [sharing_topology({share(0): "first"})],
        live_cluster.NODES: [sharing_node("n1")],
        PODS: [first, gpu_user("whole", "n1", 1, 7), new, *(pods or {}).values()],
        PROFILES: [SMALL, LARGE],
    }
    return api


def test_who_has_shows_each_share_of_a_gpu(serve: Serve, gputopo: Command) -> None:
    second = sharing_pod("second", share(1))
    api = serve(shared_gpu({"second": second}))
    users = {share(0): "first", share(1): "second"}
    api.lists[live_cluster.TOPOLOGIES] = [sharing_topology(users)]
    found = gputopo("who-has n1 --gpu 0").out.splitlines()
    assert found[0].split() == [
        *("NODE", "GPU", "SHARE", "UUID", "POD", "CONTAINER", "SINCE", "INTENDED", "OBSERVED"),
        "STATE",
    ]
    assert [line.split()[:3] for line in found[1:3]] == [["n1", "0", "0"], ["n1", "0", "1"]]
    assert [line.endswith("as intended") for line in found[1:3]] == [True, True]
    assert found[-1] == "1 GPU, 1 in use (1 shared); no differences"
    all_gpus = gputopo("who-has").out.splitlines()
    assert all_gpus[3].split()[:3] == ["n1", "1", "-"]
    assert all_gpus[-1].startswith("8 GPUs, 8 in use (1 shared)")
    [row] = gputopo(f"who-has --gpu {share(1)} -o json").document
    assert (row["share"], row["index"], row["pod"]["name"]) == (share(1), 0, "second")


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (sharing_pod("twin", share(0)), ["first", "twin"]),
        (gpu_user("twin", "n1", 0, 1), ["first", "twin"]),
    ],
)
def test_a_share_that_was_chosen_twice_or_beside_its_gpu_differs(
    serve: Serve, gputopo: Command, other: Document, named: list[str]
) -> None:
    api = serve(shared_gpu({"other": other}))
    assert api.url
    rows = gputopo("who-has --gpu 0 -o json").document
    assert sorted(row["pod"]["name"] for row in rows) == named
    assert all("this GPU was also chosen for default/" in row["difference"] for row in rows)


def test_a_share_without_pod_or_intention_differs(serve: Serve, gputopo: Command) -> None:
    api = serve(shared_gpu())
    users = {share(0): "first", share(1): "gone", share(2): "whole"}
    api.lists[live_cluster.TOPOLOGIES] = [sharing_topology(users)]
    differing = {
        row["share"]: row["difference"]
        for row in gputopo("who-has --gpu 0 -o json").document
        if row["difference"]
    }
    assert differing == {
        share(1): "kubelet's pod-resources list names a pod that does not exist",
        share(2): "gputopo.io/gpus does not name this GPU",
    }


def test_explain_shows_the_shared_gpus_of_a_pending_pod(serve: Serve, gputopo: Command) -> None:
    api = serve(shared_gpu())
    assert api.url
    shown = gputopo("explain pod/new").out
    assert "SHARED GPU  BESIDE         MAY SHARE  SUMMED SPEED  WHY" in shown
    assert "n1 0        default/first  yes                1.60  predicted summed speed" in shown
    [document] = gputopo("explain pod/new -o json").document["sharedGpus"]
    assert (document["node"], document["gpu"], document["beside"]) == ("n1", 0, ["default/first"])
    assert document["slowdowns"][1] == {
        "pod": "default/new",
        "percent": 25,
        "limitPercent": 100,
    }


def test_explain_shows_the_share_of_a_placed_pod(serve: Serve, gputopo: Command) -> None:
    _, second, topology = two_on_one_gpu()
    objects = {
        f"{NAMESPACED}/second": second,
        f"{live_cluster.TOPOLOGIES}/n1": topology,
    }
    api = serve(StaticApi(objects=objects))
    assert api.url
    shown = gputopo("explain second").out
    assert shown.startswith("pod default/second: a share of GPU ")
    assert "GPU memory         " in shown
    assert "predicted          default/first: 25 % longer " in shown
    found = gputopo("explain second -o json").document["share"]
    assert found["summedSpeed"] == 1.6
    assert found["slowdowns"][0] == {"pod": "default/first", "percent": 25}
    assert (found["ifSlow"], found["termination"]) == ("Report", "Client")
    assert found["besideThen"] == found["besideNow"] == ["default/first"]


def test_place_shows_the_gpu_that_a_job_would_share(
    serve: Serve, gputopo: Command, tmp_path: Path
) -> None:
    api = serve(shared_gpu())
    assert api.url
    manifest = tmp_path / "new.json"
    manifest.write_text(json.dumps(sharing_pod("new")))
    shown = gputopo(f"place --live -f {manifest}").out
    assert shown.startswith("GPU 0 of n1\n")
    assert "shares the GPU with default/first\n" in shown
    assert "MAY SHARE" in shown
    found = gputopo(f"place --live -f {manifest} -o json").document
    assert (found["uuids"], found["sharedGpu"]["beside"]) == ([share(1)], ["default/first"])


def test_place_chooses_a_share_for_an_unknown_workload(serve: Serve, gputopo: Command) -> None:
    api = serve(shared_gpu())
    done = gputopo("place --live --gpus 1 --share")
    assert done.status == 3
    assert "the speed of the pod beside the others is unknown" in done.out
    api.lists[PODS] = []
    api.lists[live_cluster.TOPOLOGIES] = [sharing_topology()]
    found = gputopo("place --live --gpus 1 --share -o json").document
    assert found["sharedGpu"] is None
    assert found["uuids"][0].endswith("::0")


def test_a_share_is_of_one_gpu(serve: Serve, gputopo: Command) -> None:
    assert serve(shared_gpu()).url
    done = gputopo("place --live --gpus 2 --share")
    assert (done.status, done.err) == (
        2,
        "gputopo: gpus: 2 is not allowed with --share; must be 1\n",
    )
    assert "leave out --gpus" in gputopo("place --live --share -f -").err


def test_profile_shows_the_speed_beside_others_on_one_gpu(serve: Serve, gputopo: Command) -> None:
    api = serve(StaticApi(lists={PROFILES: [SMALL], live_cluster.TOPOLOGIES: []}))
    assert api.url
    shown = " ".join(gputopo("profile show small").out.split())
    assert "speed while other workloads share the GPU" in shown
    assert "default/small, default/small 50 % 49..51 % 5" in shown


def sharing_installation() -> StaticApi:
    """Return a healthy installation that shares GPUs."""
    api = installation()
    args = api.lists[DAEMON_SETS][0]["spec"]["template"]["spec"]["containers"][0]["args"]
    args.append("--shares-per-gpu=3")
    managed = [{"name": RESOURCE, "ignoredByScheduler": False}, {"name": SHARES}]
    extender = {**CONFIGURATION["extenders"][0], "managedResources": managed}
    config: dict[str, Any] = {**CONFIGURATION, "extenders": [extender]}
    api.lists[CONFIG_MAPS][0]["data"] = {"config.yaml": json.dumps(config)}
    for node in api.lists[NODES]:
        node["status"]["allocatable"][SHARES] = "24"
    for topology in api.lists[TOPOLOGIES]:
        topology["status"]["sharing"] = {"maxPodsPerGPU": 3}
    api.lists[QUOTAS] = [quota({f"requests.{RESOURCE}": "8", f"requests.{SHARES}": "8"}), quota({})]
    return api


def quota(hard: Mapping[str, str]) -> Document:
    return {"metadata": {"namespace": "ml", "name": "gpus"}, "spec": {"hard": dict(hard)}}


def test_doctor_finds_nothing_in_a_healthy_installation_with_shares(
    serve: Serve, gputopo: Command
) -> None:
    assert serve(sharing_installation()).url
    assert findings(gputopo) == []


def test_doctor_checks_no_shares_without_sharing(serve: Serve, gputopo: Command) -> None:
    api = serve(installation())
    api.lists[QUOTAS] = [quota({f"requests.{RESOURCE}": "8"})]
    assert findings(gputopo) == []


def test_doctor_finds_an_extender_that_gets_no_sharing_pods(serve: Serve, gputopo: Command) -> None:
    api = serve(sharing_installation())
    api.lists[CONFIG_MAPS][0]["data"] = {"config.yaml": json.dumps(CONFIGURATION)}
    [(check, severity, _, problem)] = findings(gputopo)
    assert (check, severity) == ("scheduler", "error")
    assert problem == f"no extender has {SHARES} in managedResources, so sharing pods get no GPUs"


def test_doctor_finds_nodes_that_take_no_sharing_pods(serve: Serve, gputopo: Command) -> None:
    api = serve(sharing_installation())
    for gpu in api.lists[TOPOLOGIES][0]["status"]["gpus"][:2]:
        gpu["sharingFault"] = "the MPS component does not respond: no such file"
    api.lists[TOPOLOGIES][0]["status"]["gpus"][3]["wholeFault"] = "processes 12 use it"
    del api.lists[TOPOLOGIES][1]["status"]["sharing"]
    assert findings(gputopo) == [
        (
            *("shares", "error", "Node n1"),
            (
                "GPU 0, GPU 1: no further pod can share the GPU: "
                "the MPS component does not respond: no such file"
            ),
        ),
        (
            *("shares", "error", "Node n1"),
            "GPU 3: no pod can get the whole GPU: processes 12 use it",
        ),
        (
            *("shares", "warning", "Node n2"),
            "its agent offers no shares of GPUs, although sharing.enabled is true",
        ),
    ]


def test_doctor_finds_a_kubelet_without_shares_and_kubelets_that_take_gpus_by_numa_node(
    serve: Serve, gputopo: Command
) -> None:
    api = serve(sharing_installation())
    del api.lists[NODES][0]["status"]["allocatable"][SHARES]
    change(TOPOLOGIES, 1, "status", alignment={"policy": "restricted", "scope": "container"})(api)
    assert [each[1:] for each in findings(gputopo) if each[0] == "shares"] == [
        ("error", "Node n1", f"offers no {SHARES}, although its agent reports shares"),
        (
            *("warning", "Node n2"),
            "the node offers no shares of GPUs while kubelet takes GPUs by NUMA node",
        ),
    ]


@pytest.mark.parametrize(
    ("limited", "missing"), [(RESOURCE, SHARES), (SHARES, RESOURCE)], ids=["whole", "shares"]
)
def test_doctor_finds_quotas_of_one_resource_only(
    serve: Serve, gputopo: Command, limited: str, missing: str
) -> None:
    api = serve(sharing_installation())
    api.lists[QUOTAS] = [quota({f"requests.{limited}": "8"})]
    [(check, severity, where, problem)] = findings(gputopo)
    assert (check, severity, where) == ("shares", "warning", "ResourceQuota ml/gpus")
    assert problem == (
        f"limits requests.{limited}, but not requests.{missing}: users can exceed it with the other"
    )


def test_doctor_skips_topologies_that_are_invalid_or_without_node(
    serve: Serve, gputopo: Command
) -> None:
    api = serve(sharing_installation())
    api.lists[TOPOLOGIES][0]["spec"]["links"] = []
    api.lists[NODES].pop(1)
    assert [each for each in findings(gputopo) if each[0] == "shares"] == []
