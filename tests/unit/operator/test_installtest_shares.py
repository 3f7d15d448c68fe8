"""``helm test`` lets two pods share a GPU, checks what they have, and removes them."""

import json
from typing import Any

import pytest

from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from gputopo_kube.blocking_http import HttpRequest, HttpResponse
from gputopo_kube.sync import SyncApi
from gputopo_operator.installtest import share_run, shares
from gputopo_operator.installtest.settings import InstallTestSettings
from gputopo_operator.installtest.verdict import InstallCheck, InstallVerdict
from support.operator.installation import Document, node_topology

GPU = "GPU-n1-0"
SETTINGS = InstallTestSettings(
    namespace="gpus",
    release="links",
    sharing="Together",
    image="localhost/operator:1",
    share_seconds=0.2,
)
FIRST, SECOND = shares.PODS


def topology(**gpu: Any) -> Document:
    """Return a node with one GPU that pods can share."""
    found = node_topology("n1", (True,))
    found["spec"] = {"gpus": [{"uuid": GPU, "model": "A100"}]}
    found["status"]["gpus"][0] |= {"uuid": GPU, **gpu}
    found["status"]["sharing"] = {"maxPodsPerGPU": 3}
    return found


class SharingCluster:
    """A stand-in for the API server, which places pods at once.

    Attributes:
        devices: what each pod gets; by default shares of one GPU.
        log: what each pod shows; by default what it must have.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Document] = {}
        self.written: list[tuple[str, str]] = []
        self.bodies: dict[str, Document] = {}
        self.topologies = [topology()]
        self.devices = {name: f"{GPU}::{number}" for number, name in enumerate(shares.PODS)}
        self.log: dict[str, Any] = {
            "env": {"CUDA_VISIBLE_DEVICES": GPU, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=5000M"},
            "pipe": ["control"],
        }
        self.phase = "Running"
        self.forbidden = ""
        self.late_logs = 0
        self.terminating: dict[str, Document] = {}

    def send(self, request: HttpRequest) -> HttpResponse:
        status, body = self._respond(request)
        return HttpResponse(status, "", json.dumps(body).encode())

    def _respond(self, request: HttpRequest) -> tuple[int, Document]:
        path = request.path
        if request.method != "GET":
            self.written.append((request.method, path.rsplit("/", 1)[-1]))
        if self.forbidden and self.forbidden in path:
            return 403, {"message": "not permitted"}
        if path.endswith("gputopologies"):
            return 200, {"items": self.topologies}
        if path.endswith("/log"):
            self.late_logs -= 1
            return (400, {"message": "starting"}) if self.late_logs >= 0 else (200, self.log)
        if request.method == "POST":
            return self._create(path, request.body or {})
        if request.method == "PATCH":
            self.bodies["status"] = request.body or {}
            return 200, {}
        stores = (self.terminating,) if request.method == "GET" else (self.objects,)
        found = next((each.pop(path) for each in stores if path in each), None)
        found = found or self.objects.get(path)
        return (200, found) if found else (404, {"message": "not found"})

    def _create(self, path: str, body: Document) -> tuple[int, Document]:
        name = body["metadata"]["name"]
        self.bodies[name] = json.loads(json.dumps(body))
        if body["kind"] == "Pod":
            body["status"] = {"phase": self.phase, "conditions": [{}, {"message": "no GPU"}]}
            containers = {"main": [each for each in [self.devices[name]] if each]}
            annotation = {"uid": "u", "node": "n1", "generation": 1, "containers": containers}
            body["metadata"]["annotations"][GPUS_ANNOTATION] = json.dumps(annotation)
        self.objects[f"{path}/{name}"] = body
        return 201, body


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SharingCluster:
    monkeypatch.setattr(share_run, "_FACTS_SECONDS", 0.0)
    monkeypatch.setattr(share_run, "_POLL_SECONDS", 0.01)
    return SharingCluster()


def check(
    cluster: SharingCluster, settings: InstallTestSettings = SETTINGS, *, allowed: bool = True
) -> InstallCheck:
    api = SyncApi(cluster.send, "https://test")
    return share_run.check_shares(api, settings, lambda _: allowed)


def test_two_pods_share_a_gpu_and_nothing_is_left(cluster: SharingCluster) -> None:
    cluster.late_logs = 1
    found = check(cluster)
    assert found == InstallCheck(
        "shared GPU", InstallVerdict.PASSED, f"2 pods have shares of {GPU}, and reach MPS"
    )
    assert cluster.objects == {}
    container = cluster.bodies[FIRST]["spec"]["containers"][0]
    assert container["image"] == "localhost/operator:1"
    assert container["resources"]["limits"][f"{RESOURCE}-share"] == "1"
    assert cluster.bodies["status"]["status"]["facts"]["sharing"][0]["beside"] == [
        "gpus/gputopo-test-share"
    ]
    compile(container["command"][2], "program", "exec")


def test_objects_of_an_interrupted_test_are_removed_first(cluster: SharingCluster) -> None:
    path = f"/api/v1/namespaces/gpus/pods/{FIRST}"
    cluster.objects[path] = {"metadata": {"name": FIRST}}
    assert check(cluster).verdict is InstallVerdict.PASSED
    assert cluster.written[:4] == [
        *(("DELETE", name) for name in (shares.PROFILE, FIRST, SECOND)),
        ("POST", "gpuprofiles"),
    ]


def test_test_waits_until_old_pods_have_ended(cluster: SharingCluster) -> None:
    path = f"/api/v1/namespaces/gpus/pods/{FIRST}"
    cluster.terminating = {path: {"metadata": {"name": FIRST}}}
    assert check(cluster).verdict is InstallVerdict.PASSED
    assert cluster.terminating == {}


def test_it_is_skipped_where_no_pods_can_share(cluster: SharingCluster) -> None:
    off = SETTINGS.model_copy(update={"sharing": "Off"})
    assert check(cluster, off).details == "sharing.enabled is false"
    assert "admissionPolicies.enabled" in check(cluster, allowed=False).details
    without = topology()
    del without["status"]["sharing"]
    not_ready = topology()
    not_ready["status"]["conditions"][0]["status"] = "False"
    silent: Document = {"metadata": {"name": "n2"}}
    used = [topology(podUID="u"), topology(sharingFault="x"), topology(healthy=False)]
    unknown = topology(uuid="GPU-other")
    empty = topology()
    del empty["status"]["gpus"]
    cluster.topologies = [without, not_ready, silent, *used, unknown, empty]
    found = check(cluster)
    assert (found.verdict, cluster.written) == (InstallVerdict.SKIPPED, [])
    assert found.details == "no node has an idle GPU now that pods can share"


@pytest.mark.parametrize(
    ("changed", "details"),
    [
        ({"devices": {FIRST: GPU, SECOND: f"{GPU}::0"}}, f"{FIRST}: its annotation"),
        ({"devices": {FIRST: "", SECOND: f"{GPU}::0"}}, f"{FIRST}: its annotation"),
        ({"devices": dict.fromkeys(shares.PODS, f"{GPU}::0")}, "not different shares of one GPU"),
        ({"log": {}}, f"{FIRST}: the container has no GPU, but the annotation names {GPU}::0"),
        ({"log": {"env": {"CUDA_VISIBLE_DEVICES": GPU}}}, "no limit for its GPU memory"),
        ({"phase": "Pending"}, f"{FIRST} does not run: Pending: no GPU"),
        ({"late_logs": 9999}, f"{FIRST}: the container has no GPU"),
        ({"forbidden": "gpuprofiles"}, "not permitted"),
    ],
)
def test_what_is_missing_fails_and_nothing_is_left(
    cluster: SharingCluster, changed: dict[str, Any], details: str
) -> None:
    for name, value in changed.items():
        setattr(cluster, name, value)
    found = check(cluster)
    assert found.verdict is InstallVerdict.FAILED
    assert details in found.details
    assert cluster.objects == {}


def test_missing_socket_fails(cluster: SharingCluster) -> None:
    cluster.log["pipe"] = []
    assert "no directory with the socket of MPS" in check(cluster).details


def test_two_gpus_are_right_only_if_the_installation_prefers_them(cluster: SharingCluster) -> None:
    other = "GPU-n1-1"
    cluster.devices[SECOND] = f"{other}::0"
    pods = [
        {
            "metadata": {
                "name": name,
                "annotations": {
                    GPUS_ANNOTATION: json.dumps(
                        {
                            "uid": "u",
                            "node": "n1",
                            "generation": 1,
                            "containers": {"main": [cluster.devices[name]]},
                        }
                    )
                },
            }
        }
        for name in shares.PODS
    ]
    logs = [
        {**cluster.log, "env": {**cluster.log["env"], "CUDA_VISIBLE_DEVICES": gpu}}
        for gpu in (GPU, other)
    ]
    assert shares.judge_shares(pods, logs, "Apart").verdict is InstallVerdict.PASSED
    assert shares.judge_shares(pods, logs, "Together").verdict is InstallVerdict.FAILED
    pods[0]["metadata"]["annotations"] = {GPUS_ANNOTATION: "wrong"}
    assert "annotation" in shares.judge_shares(pods, logs, "Apart").details


def test_pod_without_a_status_does_not_run() -> None:
    assert shares.why_not_running({}) == "Unknown"
