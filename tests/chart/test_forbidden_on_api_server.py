"""Requests that no account of the installation may send, tried for each account."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION
from support.control_plane.api_server import (
    LEASES,
    ONE_GPU,
    PODS,
    TOPOLOGIES,
    ApiServer,
    User,
    service_account,
)

NODE = "guarded"
POD = f"{PODS}/guarded"
SYSTEM = "/api/v1/namespaces/gputopo-system"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
SOME_POD: dict[str, Any] = {
    "metadata": {"name": "intruder"},
    "spec": {"containers": [{"name": "main", "image": "busybox"}]},
}
FORGED = json.dumps({"v": 1, "uid": "u", "node": NODE, "containers": {"main": ["GPU-x"]}})
LABEL = {"metadata": {"labels": {"by": "intruder"}}}


def annotated(annotation: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {annotation: FORGED}}}


FOR_ALL: dict[str, tuple[str, str, Any]] = {
    "read a Secret": ("GET", f"{SYSTEM}/secrets/registry", None),
    "list all Secrets": ("GET", "/api/v1/secrets", None),
    "make a Secret": ("POST", f"{SYSTEM}/secrets", {"metadata": {"name": "x"}}),
    "make a pod": ("POST", PODS, SOME_POD),
    "delete a pod": ("DELETE", POD, None),
    "change a pod": ("PATCH", POD, LABEL),
    "run a command in a pod": ("POST", f"{POD}/exec?command=id", {}),
    "attach to a pod": ("POST", f"{POD}/attach", {}),
    "forward a port": ("POST", f"{POD}/portforward", {}),
    "add a container to a pod": ("PATCH", f"{POD}/ephemeralcontainers", LABEL),
    "resize a pod": ("PATCH", f"{POD}/resize", LABEL),
    "read logs": ("GET", f"{POD}/log", None),
    "forge a placement on a pod": ("PATCH", POD, annotated(GPUS_ANNOTATION)),
    "forge a placement in a status": ("PATCH", f"{POD}/status", annotated(GPUS_ANNOTATION)),
    "forge figures in a status": ("PATCH", f"{POD}/status", annotated(PLACEMENT_ANNOTATION)),
    "change a node": ("PATCH", f"/api/v1/nodes/{NODE}", LABEL),
    "taint away a node": ("PATCH", f"/api/v1/nodes/{NODE}/status", LABEL),
    "delete a node": ("DELETE", f"/api/v1/nodes/{NODE}", None),
    "change another node's GPUTopology": ("PATCH", f"{TOPOLOGIES}/{NODE}", LABEL),
    "change another node's health": ("PATCH", f"{TOPOLOGIES}/{NODE}/status", {"status": {}}),
    "delete a GPUTopology": ("DELETE", f"{TOPOLOGIES}/{NODE}", None),
    "take another's Lease": ("PATCH", f"{LEASES}/of-another", LABEL),
    "take the default scheduler's Lease": (
        "PATCH",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler",
        LABEL,
    ),
    "delete claims": ("DELETE", f"{LEASES}/gputopo-claims", None),
    "act as another": ("POST", f"{SYSTEM}/serviceaccounts/default/token", {"spec": {}}),
    "grant itself rights": ("POST", f"{RBAC}/clusterrolebindings", {"metadata": {"name": "x"}}),
    "widen its role": ("PATCH", f"{RBAC}/clusterroles/gputopo-extender", {"rules": []}),
    "lift a policy": ("DELETE", f"{POLICIES}/gputopo-pod-fields", None),
    "change a CRD": (
        "PATCH",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpujobs.gputopo.io",
        LABEL,
    ),
    "change the scheduler's configuration": (
        "PATCH",
        f"{SYSTEM}/configmaps/gputopo-scheduler",
        LABEL,
    ),
    "read other ConfigMaps": ("GET", "/api/v1/namespaces/kube-system/configmaps", None),
    "read who may log in": ("GET", "/api/v1/serviceaccounts", None),
}
ACCOUNTS = {
    "gputopo-operator": service_account("gputopo-operator"),
    "gputopo-extender": service_account("gputopo-extender"),
    "gputopo-deviceplugin": service_account("gputopo-deviceplugin", node="elsewhere"),
    "gputopo-web": service_account("gputopo-web"),
}
NEEDED = {
    # kube-scheduler ends victims of preemption; it and the extender share the account.
    ("gputopo-extender", "delete a pod"),
}
BINDING: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Binding",
    "metadata": {"name": "guarded", "annotations": {GPUS_ANNOTATION: FORGED}},
    "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
}


@pytest.fixture(scope="module", autouse=True)
def guarded(server: ApiServer) -> Iterator[None]:
    """What must not be touched: objects of each kind, so that no 404 hides a right."""
    spec = {**SOME_POD["spec"], "schedulerName": "gputopo"}
    spec["containers"] = [{**spec["containers"][0], "resources": ONE_GPU}]
    kube_leases = LEASES.replace("gputopo-system", "kube-system")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    made: dict[str, dict[str, Any]] = {
        f"/api/v1/nodes/{NODE}": {"metadata": {"name": NODE}},
        f"{TOPOLOGIES}/{NODE}": {
            "apiVersion": "gputopo.io/v1alpha1",
            "kind": "GPUTopology",
            "metadata": {"name": NODE},
            "spec": {"gpus": []},
        },
        POD: {"metadata": {"name": "guarded"}, "spec": spec},
        f"{SYSTEM}/secrets/registry": {"metadata": {"name": "registry"}},
        f"{LEASES}/of-another": {**lease, "metadata": {"name": "of-another"}},
        f"{LEASES}/gputopo-claims": {**lease, "metadata": {"name": "gputopo-claims"}},
        f"{kube_leases}/kube-scheduler": {**lease, "metadata": {"name": "kube-scheduler"}},
    }
    for path, body in made.items():
        response = server.create(path.rpartition("/")[0], body)
        assert response.accepted, response.message
    yield
    for path in made:
        assert server.delete(path).accepted


def tried(server: ApiServer, user: User, method: str, path: str, body: object) -> int:
    if method == "PATCH":
        return server.merge(path, body, user).status
    if method == "DELETE":
        # Asked as a dry run: what is allowed by mistake shall not take the objects away.
        return server.request(method, f"{path}?dryRun=All", body, user=user).status
    return server.request(method, path, body, user=user).status


@pytest.mark.parametrize("what", FOR_ALL)
@pytest.mark.parametrize("account", ACCOUNTS)
def test_forbidden_requests_are_rejected(server: ApiServer, account: str, what: str) -> None:
    status = tried(server, ACCOUNTS[account], *FOR_ALL[what])
    if (account, what) in NEEDED:
        assert status == 200, "no longer allowed: leave the exception out"
    else:
        assert status == 403


@pytest.mark.parametrize("account", sorted(ACCOUNTS.keys() - {"gputopo-extender"}))
@pytest.mark.parametrize("path", [f"{POD}/binding", f"{PODS.removesuffix('/pods')}/bindings"])
def test_only_the_extender_binds(server: ApiServer, account: str, path: str) -> None:
    assert server.create(path, BINDING, ACCOUNTS[account]).status == 403


def test_extender_binds_through_one_path_only(server: ApiServer) -> None:
    path = f"{PODS.removesuffix('/pods')}/bindings"
    assert server.create(path, BINDING, ACCOUNTS["gputopo-extender"]).status == 403
