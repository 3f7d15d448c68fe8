"""The account of ``helm test`` on a real API server: its rights, its limits, its dry runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gputopo_kube.credentials import connected
from gputopo_operator.installtest import run
from gputopo_operator.installtest.settings import InstallTestSettings
from gputopo_operator.installtest.verdict import InstallCheck, InstallVerdict
from support.control_plane.api_server import (
    ONE_GPU,
    TOPOLOGIES,
    ApiServer,
    service_account,
)
from support.control_plane.scheduler_pairs import wait_until
from support.helm_chart import Helm, Object

PODS = "/api/v1/namespaces/gputopo-system/pods"
JOBS = "/apis/gputopo.io/v1alpha1/namespaces/gputopo-system/gpujobs"
TESTER = service_account("gputopo-test")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
COLLECTIONS = {
    "ServiceAccount": "/api/v1/namespaces/gputopo-system/serviceaccounts",
    "Role": f"{RBAC}/namespaces/gputopo-system/roles",
    "RoleBinding": f"{RBAC}/namespaces/gputopo-system/rolebindings",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
}
SETTINGS = InstallTestSettings(namespace="gputopo-system", release="gputopo")


def create_hooks(server: ApiServer, hooks: list[Object]) -> None:
    for each in hooks:
        if each["kind"] in COLLECTIONS:
            response = server.create(COLLECTIONS[each["kind"]], each)
            assert response.accepted, response.message


def delete_hooks(server: ApiServer, hooks: list[Object]) -> None:
    for each in hooks:
        if each["kind"] in COLLECTIONS:
            server.delete(f"{COLLECTIONS[each['kind']]}/{each['metadata']['name']}")


def gpu_pod(name: str) -> Object:
    container = {"name": "main", "image": "busybox", "resources": ONE_GPU}
    spec = {"schedulerName": "gputopo", "containers": [container]}
    return {"metadata": {"name": name}, "spec": spec}


def is_limited(server: ApiServer) -> bool:
    """Whether the API server already enforces the policy own-dry-runs."""
    response = server.create(PODS, gpu_pod("really"), user=TESTER)
    if response.accepted:
        server.delete(f"{PODS}/really")
    return "dryRun" in response.message


@pytest.fixture(scope="module")
def tested(server: ApiServer, helm: Helm) -> Iterator[ApiServer]:
    """The API server with the account that ``helm test`` creates."""
    hooks = helm.render(hooks=True)
    create_hooks(server, hooks)
    wait_until(lambda: is_limited(server), seconds=60)
    yield server
    delete_hooks(server, hooks)


def checks(server: ApiServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[InstallCheck]:
    access = server.kubeconfig_of("gputopo-test", folder / "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(access))
    with connected(10, "test") as api:
        return run.run_checks(api, SETTINGS)


def test_dry_runs_are_accepted_and_a_forged_placement_is_rejected(
    tested: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {check.name: check for check in checks(tested, tmp_path, monkeypatch)}
    for name in ("GPUJob", "pod with a GPU", "forged placement"):
        assert found[name].verdict is InstallVerdict.PASSED, found[name]
    assert "gputopo.io/gpus" in found["forged placement"].details
    # No component runs here, and the test may read that.
    assert found["operator"].details.startswith("0 pods found, 1 expected")
    assert tested.get(PODS).body["items"] == []
    assert tested.get(JOBS).body["items"] == []


def test_account_of_the_test_can_create_nothing_that_stays(tested: ApiServer) -> None:
    job = {
        "apiVersion": "gputopo.io/v1alpha1",
        "kind": "GPUJob",
        "metadata": {"name": "really"},
        "spec": {
            "gpusPerReplica": 1,
            "template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}},
        },
    }
    for path, body in ((PODS, gpu_pod("really")), (JOBS, job)):
        response = tested.create(path, body, user=TESTER)
        assert response.status == 403
        assert "only with dryRun=All" in response.message


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/gputopo-system/secrets",
        "/api/v1/nodes",
        "/apis/apps/v1/namespaces/gputopo-system/deployments",
    ],
)
def test_account_of_the_test_reads_only_pods_of_its_namespace_and_topologies(
    tested: ApiServer, path: str
) -> None:
    assert tested.get(PODS, user=TESTER).accepted
    assert tested.get(TOPOLOGIES, user=TESTER).accepted
    assert tested.get(path, user=TESTER).status == 403


def test_without_policies_the_test_gets_no_right_to_create_and_skips_its_dry_runs(
    helm: Helm, nodes: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = helm.render({"admissionPolicies": {"enabled": False}}, hooks=True)
    create_hooks(nodes, hooks)
    try:
        found = {check.name: check for check in checks(nodes, tmp_path, monkeypatch)}
        for name in ("GPUJob", "pod with a GPU", "forged placement"):
            assert found[name].verdict is InstallVerdict.SKIPPED
        for path, body in ((PODS, gpu_pod("really")),):
            assert nodes.create(path, body, user=TESTER).status == 403
    finally:
        delete_hooks(nodes, hooks)


def test_rights_exist_only_during_a_test(helm: Helm) -> None:
    hooks = helm.render(hooks=True)
    assert {each["kind"] for each in hooks} == {*COLLECTIONS, "Pod"}
    for each in hooks:
        annotations = each["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "test"
        policies = annotations["helm.sh/hook-delete-policy"].split(",")
        # The log of the pod is read after the test.
        assert ("hook-succeeded" in policies) == (each["kind"] != "Pod")
    weights = [int(each["metadata"]["annotations"].get("helm.sh/hook-weight", 0)) for each in hooks]
    bindings = [each["kind"].endswith("Binding") for each in hooks]
    assert {weight for weight, binding in zip(weights, bindings, strict=True) if binding} == {-1}
    names = {each["metadata"]["name"] for each in helm.render()}
    assert "gputopo-test" not in names
    assert helm.render({"helmTest": {"enabled": False}}, hooks=True) == []
