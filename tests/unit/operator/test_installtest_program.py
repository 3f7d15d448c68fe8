"""The requests of the program of ``helm test``, its exit status and its output."""

import json
import runpy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gputopo_kube.blocking_http import HttpRequest, HttpResponse
from gputopo_kube.errors import UnavailableError
from gputopo_kube.sync import SyncApi
from gputopo_operator.installtest import __main__ as program
from gputopo_operator.installtest import components, run
from gputopo_operator.installtest.settings import InstallTestSettings
from gputopo_operator.installtest.verdict import InstallCheck, InstallVerdict
from support.operator.installation import Document, chart_pod, node_topology, probe_server

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS = InstallTestSettings(namespace="gpus", release="links", scheduler_pods=1)


class Cluster:
    """A stand-in for the API server: responses by method and path."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []
        self.pods = [chart_pod(each.name, ip="192.0.2.1") for each in components.COMPONENTS]
        self.topologies: tuple[int, Document] = (200, {"items": [node_topology("n1", (True,))]})
        self.allowed = True
        self.create: Callable[[HttpRequest], tuple[int, Document]] = self._policies

    def send(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        status, body = self._respond(request)
        return HttpResponse(status, "", json.dumps(body).encode())

    def _respond(self, request: HttpRequest) -> tuple[int, Document]:
        if request.path.endswith("selfsubjectaccessreviews"):
            return 201, {"status": {"allowed": self.allowed}}
        if request.method == "POST":
            return self.create(request)
        return self.topologies if "gputopologies" in request.path else (200, {"items": self.pods})

    @staticmethod
    def _policies(request: HttpRequest) -> tuple[int, Document]:
        forged = request.body is not None and request.body["metadata"].get("annotations")
        return (422, {"message": "only the extender may"}) if forged else (201, {})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    # 192.0.2.1 is an address for documentation, which no machine has: nothing responds there.
    monkeypatch.setattr(run, "EndpointClient", Responding)
    return Cluster()


class Responding:
    """Stands for a client of probes that all succeed."""

    def __init__(self, **_: Any) -> None:
        pass

    async def read(self, url: str) -> bytes:
        assert url.startswith("http://192.0.2.1:")
        return b"ok"


def checks(cluster: Cluster) -> dict[str, InstallCheck]:
    return {
        check.name: check
        for check in run.run_checks(SyncApi(cluster.send, "https://test"), SETTINGS)
    }


def test_all_checks_pass_on_an_installation_that_works(cluster: Cluster) -> None:
    found = checks(cluster)
    assert {name: check.verdict for name, check in found.items()} == dict.fromkeys(
        [
            *("operator", "scheduler", "deviceplugin", "topologies"),
            *("GPUJob", "pod with a GPU", "forged placement"),
        ],
        InstallVerdict.PASSED,
    )
    listing = cluster.requests[0]
    assert listing.path == "/api/v1/namespaces/gpus/pods"
    assert listing.query["labelSelector"].endswith("app.kubernetes.io/instance=links")


def test_every_object_is_created_as_a_strict_dry_run_only(cluster: Cluster) -> None:
    checks(cluster)
    created = [
        request
        for request in cluster.requests
        if request.method == "POST" and "reviews" not in request.path
    ]
    assert len(created) == 3
    for request in created:
        assert request.query == {"dryRun": "All", "fieldValidation": "Strict"}


def test_object_without_a_right_is_skipped_and_not_created(cluster: Cluster) -> None:
    cluster.allowed = False
    found = checks(cluster)
    for name in ("GPUJob", "pod with a GPU", "forged placement"):
        assert found[name].verdict is InstallVerdict.SKIPPED
        assert "admissionPolicies.enabled" in found[name].details
    assert not [each for each in cluster.requests if "dryRun" in each.query]


def test_unavailable_api_server_and_forbidden_topologies_fail_their_checks(
    cluster: Cluster,
) -> None:
    cluster.create = lambda _: (503, {"message": "etcd is not available"})
    cluster.topologies = (403, {"message": "not permitted"})
    found = checks(cluster)
    assert found["topologies"].verdict is InstallVerdict.FAILED
    assert "not permitted" in found["topologies"].details
    # An unknown result is no rejection: the forged pod does not pass by it.
    for name in ("GPUJob", "pod with a GPU", "forged placement"):
        assert found[name].verdict is InstallVerdict.FAILED
        assert "etcd is not available" in found[name].details


def test_probes_are_called_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    with probe_server("/readyz") as port:
        local = [replace(each, port=port) for each in components.COMPONENTS]
        monkeypatch.setattr(components, "COMPONENTS", local)
        # The servers of this test listen on loopback, which no pod's address may be.
        monkeypatch.setattr(
            components, "pod_url", lambda _, port, path: f"http://127.0.0.1:{port}{path}"
        )
        found = checks(cluster)
    assert found["operator"].verdict is InstallVerdict.PASSED
    assert found["scheduler"].verdict is InstallVerdict.FAILED
    assert "status 503" in found["scheduler"].details


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> Cluster:
    class Connected:
        def __init__(self, *_: object) -> None:
            pass

        def __enter__(self) -> SyncApi:
            return SyncApi(cluster.send, "https://test")

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(program, "connected", Connected)
    return cluster


def exit_status(monkeypatch: pytest.MonkeyPatch, *more: str) -> object:
    arguments = ["--namespace=gpus", "--release=links", "--scheduler-pods=1", *more]
    monkeypatch.setattr("sys.argv", ["installtest", *arguments])
    with pytest.raises(SystemExit) as ended:
        program.main()
    return ended.value.code


def test_program_prints_its_checks_and_ends_with_1_if_one_failed(
    connection: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_status(monkeypatch) == 0
    assert capsys.readouterr().out.startswith("RESULT   CHECK")
    connection.pods = []
    assert exit_status(monkeypatch, "--output=json") == 1
    assert json.loads(capsys.readouterr().out)["checks"][0]["verdict"] == "failed"


def test_program_reports_wrong_settings_and_a_lost_api_server_in_one_line(
    connection: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--scheduler-pods" in str(exit_status(monkeypatch, "--scheduler-pods=-1"))

    def unavailable(_: HttpRequest) -> HttpResponse:
        raise UnavailableError("no route to host")

    monkeypatch.setattr(connection, "send", unavailable)
    status = exit_status(monkeypatch)
    assert status == "gputopo-installtest: API server: no route to host"


def test_module_is_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["installtest"])
    with pytest.raises(SystemExit, match="--namespace"):
        runpy.run_path(str(program.__file__), run_name="__main__")
