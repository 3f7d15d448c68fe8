"""The admission policies: who may set the GPUs of a pod, request GPUs, and publish a topology."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gputopo.api.names import GPUS_ANNOTATION, INVALIDATED_ANNOTATION, PLACEMENT_ANNOTATION
from support.control_plane.api_server import (
    ADMIN,
    LEASES,
    ONE_GPU,
    PODS,
    TOPOLOGIES,
    ApiResponse,
    ApiServer,
    User,
    service_account,
)

ALICE = User("alice")
EXTENDER = service_account("gputopo-extender")
KUBELET = User("system:node:n1", ("system:nodes",))
COLLECTOR = service_account("generic-garbage-collector", namespace="kube-system")
AGENT = service_account("gputopo-deviceplugin", node="n1")

GPUS = json.dumps({"v": 1, "uid": "u", "node": "n1", "containers": {"main": ["GPU-a"]}})
SUBRESOURCES = ("status", "binding", "resize", "ephemeralcontainers")
POD_RESOURCES = ("pods", *(f"pods/{subresource}" for subresource in SUBRESOURCES))
_number = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def people(server: ApiServer) -> None:
    """A node, and a user who may do everything with pods."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    assert server.create("/api/v1/nodes", node).accepted
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "all-of-pods"},
        "rules": [{"apiGroups": [""], "resources": ["bindings", *POD_RESOURCES], "verbs": ["*"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "all-of-pods"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "all-of-pods",
        },
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    assert server.create(f"{rbac}/clusterroles", role).accepted
    assert server.create(f"{rbac}/clusterrolebindings", binding).accepted


def pod(*, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{next(_number)}", "annotations": annotations or {}},
        "spec": {
            "schedulerName": "gputopo",
            "containers": [{"name": "main", "image": "busybox", "resources": ONE_GPU}],
            **spec,
        },
    }


def binding(name: str, annotations: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


@pytest.fixture
def waiting(server: ApiServer) -> Iterator[str]:
    """Name of a pod that waits for its GPUs."""
    response = server.create(PODS, pod(), user=ALICE)
    assert response.accepted, response.message
    name = str(response.body["metadata"]["name"])
    yield name
    server.delete(f"{PODS}/{name}")


@pytest.fixture
def placed(server: ApiServer, waiting: str) -> str:
    """Name of a pod that the extender has bound."""
    annotations = {GPUS_ANNOTATION: GPUS, PLACEMENT_ANNOTATION: "{}"}
    response = server.create(f"{PODS}/{waiting}/binding", binding(waiting, annotations), EXTENDER)
    assert response.accepted, response.message
    return waiting


def is_rejected_for_the_extender_only(response: ApiResponse) -> bool:
    return (
        response.status == 403
        and "only system:serviceaccount:gputopo-system:gputopo-extender may set this annotation"
        in response.message
    )


def test_extender_sets_the_annotations_in_the_binding(server: ApiServer, placed: str) -> None:
    bound = server.get(f"{PODS}/{placed}").body
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"][GPUS_ANNOTATION] == GPUS


@pytest.mark.parametrize("user", [ALICE, ADMIN], ids=["user", "administrator"])
@pytest.mark.parametrize("annotation", [GPUS_ANNOTATION, PLACEMENT_ANNOTATION])
def test_copied_manifest_is_rejected(server: ApiServer, user: User, annotation: str) -> None:
    response = server.create(PODS, pod(annotations={annotation: GPUS}), user)
    assert is_rejected_for_the_extender_only(response), response.body
    assert (
        f"metadata.annotations[{annotation}]: {GPUS} may not replace (nothing)" in response.message
    )
    assert "remove this annotation" in response.message


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize("value", ["other", "", None], ids=["change", "empty", "remove"])
@pytest.mark.parametrize("user", [ALICE, ADMIN, KUBELET], ids=["user", "administrator", "kubelet"])
def test_other_users_cannot_change_the_gpus_of_a_running_pod(
    server: ApiServer, placed: str, subresource: str, value: str | None, user: User
) -> None:
    change = {"metadata": {"annotations": {GPUS_ANNOTATION: value}}}
    response = server.merge(f"{PODS}/{placed}{subresource}", change, user)
    if user is KUBELET and not subresource:
        assert response.status == 403  # kubelets have no right to the main resource at all
    else:
        assert is_rejected_for_the_extender_only(response), response.body
        assert "leave this annotation unchanged" in response.message
    annotations = server.get(f"{PODS}/{placed}").body["metadata"]["annotations"]
    assert annotations[GPUS_ANNOTATION] == GPUS


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_other_users_cannot_set_the_gpus_of_a_waiting_pod(
    server: ApiServer, waiting: str, subresource: str
) -> None:
    change = {"metadata": {"annotations": {GPUS_ANNOTATION: GPUS}}}
    response = server.merge(f"{PODS}/{waiting}{subresource}", change, ALICE)
    assert is_rejected_for_the_extender_only(response), response.body


@pytest.mark.parametrize("subresource", ["resize", "ephemeralcontainers"])
def test_other_subresources_cannot_set_the_annotation(
    server: ApiServer, placed: str, subresource: str
) -> None:
    whole = server.get(f"{PODS}/{placed}").body
    whole["metadata"]["annotations"][GPUS_ANNOTATION] = "other"
    response = server.request("PUT", f"{PODS}/{placed}/{subresource}", whole, user=ALICE)
    assert response.accepted, "the server itself drops what these subresources may not change"
    assert server.get(f"{PODS}/{placed}").body["metadata"]["annotations"][GPUS_ANNOTATION] == GPUS


@pytest.mark.parametrize("path", ["{pods}/{name}/binding", "{namespace}/bindings"])
def test_other_users_cannot_set_the_annotations_in_a_binding(
    server: ApiServer, waiting: str, path: str
) -> None:
    path = path.format(pods=PODS, name=waiting, namespace=PODS.removesuffix("/pods"))
    for user in (ALICE, ADMIN):
        response = server.create(path, binding(waiting, {GPUS_ANNOTATION: GPUS}), user)
        assert is_rejected_for_the_extender_only(response), response.body
    assert "nodeName" not in server.get(f"{PODS}/{waiting}").body["spec"]


def test_changes_that_keep_the_annotations_are_accepted(server: ApiServer, placed: str) -> None:
    path = f"{PODS}/{placed}"
    assert server.merge(path, {"metadata": {"labels": {"a": "b"}}}, ALICE).accepted
    assert server.merge(path, {"metadata": {"annotations": {"note": "x"}}}, ALICE).accepted
    status = {"status": {"phase": "Running"}}
    response = server.merge(f"{path}/status", status, KUBELET)
    assert response.accepted, response.message
    resize = {"spec": {"containers": [{"name": "main", "image": "busybox", "resources": ONE_GPU}]}}
    response = server.merge(f"{path}/resize", resize, ALICE)
    assert response.accepted, response.message
    response = server.delete(path, COLLECTOR)
    assert response.accepted, response.message


INIT = [{"name": "warm", "image": "busybox", "resources": ONE_GPU}]
SIDECAR = [{**INIT[0], "restartPolicy": "Always"}]
CPU_ONLY = [{"name": "main", "image": "busybox"}]


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulerName": "default-scheduler"},
        {"schedulerName": "default-scheduler", "containers": CPU_ONLY, "initContainers": INIT},
        {"schedulerName": "default-scheduler", "containers": CPU_ONLY, "initContainers": SIDECAR},
        {"schedulerName": "default-scheduler", "containers": [*CPU_ONLY, *INIT]},
    ],
    ids=["main container", "init container", "sidecar", "second container"],
)
@pytest.mark.parametrize("user", [ALICE, ADMIN], ids=["user", "administrator"])
def test_gpu_pod_of_another_scheduler_is_rejected(
    server: ApiServer, user: User, spec: dict[str, Any]
) -> None:
    response = server.create(PODS, pod(**spec), user)
    assert response.status == 422, response.body
    assert (
        "spec.schedulerName: 'default-scheduler' cannot choose GPUs for gputopo.io/gpu; "
        "set spec.schedulerName to 'gputopo'" in response.message
    )


def test_a_pod_without_gpus_chooses_its_scheduler(server: ApiServer) -> None:
    response = server.create(
        PODS, pod(schedulerName="default-scheduler", containers=CPU_ONLY), ALICE
    )
    assert response.accepted, response.message


@pytest.mark.parametrize(
    "name",
    [
        "deployment-with-annotations",
        "deployment-measured",
        "deployment-auto",
        "deployment-sharing",
    ],
)
def test_example_of_other_pods_is_accepted(server: ApiServer, name: str) -> None:
    path = Path(__file__).parents[2] / "examples" / f"{name}.yaml"
    template = yaml.safe_load(path.read_text())["spec"]["template"]
    template["metadata"]["name"] = name
    response = server.create(PODS, {"apiVersion": "v1", "kind": "Pod", **template}, ALICE)
    assert response.accepted, response.message


def test_gpu_pod_with_a_node_name_is_rejected(server: ApiServer) -> None:
    response = server.create(PODS, pod(nodeName="n1"), ALICE)
    assert response.status == 422, response.body
    assert "spec.nodeName: 'n1' bypasses the scheduler" in response.message
    assert "nodeSelector {kubernetes.io/hostname: n1}" in response.message


def mirror_pod(server: ApiServer) -> dict[str, Any]:
    node = server.get("/api/v1/nodes/n1").body
    mirror = pod(
        annotations={"kubernetes.io/config.mirror": "hash"},
        nodeName="n1",
        schedulerName="default-scheduler",
        automountServiceAccountToken=False,
    )
    mirror["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "name": "n1",
            "uid": node["metadata"]["uid"],
            "controller": True,
        }
    ]
    return mirror


def test_kubelet_can_create_mirror_pods_that_request_gpus(server: ApiServer) -> None:
    response = server.create(PODS, mirror_pod(server), KUBELET)
    assert response.accepted, response.message


def test_users_cannot_create_mirror_pods(server: ApiServer) -> None:
    assert server.create(PODS, mirror_pod(server), ALICE).status == 422


ALL = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
ORDER = {"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"}
FROM_FIELD = {
    "name": "NVIDIA_VISIBLE_DEVICES",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
}
FROM_CONFIG_MAP = [{"configMapRef": {"name": "settings"}}]
GPU_MAIN = [{"name": "main", "image": "busybox", "resources": ONE_GPU}]
REMEDY = "remove this variable, because gputopo sets it in containers that request"


def with_env(container: dict[str, Any], *env: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**container, "env": [{"name": "A", "value": "all"}, *env]}]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            {"containers": with_env(GPU_MAIN[0], ALL)},
            "containers[main].env[NVIDIA_VISIBLE_DEVICES]",
        ),
        (
            {"containers": with_env(GPU_MAIN[0], ORDER)},
            "containers[main].env[CUDA_VISIBLE_DEVICES]",
        ),
        (
            {"containers": with_env(GPU_MAIN[0], {"name": ALL["name"], "value": "void"})},
            "containers[main].env[NVIDIA_VISIBLE_DEVICES]",
        ),
        ({"containers": with_env(GPU_MAIN[0], FROM_FIELD)}, "containers[main].env[NVIDIA_"),
        ({"initContainers": with_env(INIT[0], ALL)}, "initContainers[warm].env[NVIDIA_"),
        ({"initContainers": with_env(SIDECAR[0], ORDER)}, "initContainers[warm].env[CUDA_"),
        (
            {"containers": [*GPU_MAIN, *with_env({"name": "log", "image": "busybox"}, ALL)]},
            "containers[log].env[NVIDIA_VISIBLE_DEVICES]",
        ),
        (
            {"containers": [*GPU_MAIN, *with_env({"name": "log", "image": "busybox"}, FROM_FIELD)]},
            "containers[log].env[NVIDIA_VISIBLE_DEVICES]",
        ),
    ],
    ids=[
        *("all GPUs", "other order", "no GPUs", "value from a field", "init container", "sidecar"),
        *("container without GPUs", "container without GPUs from a field"),
    ],
)
@pytest.mark.parametrize("user", [ALICE, ADMIN], ids=["user", "administrator"])
def test_a_gpu_pod_that_sets_visible_devices_is_rejected(
    server: ApiServer, user: User, spec: dict[str, Any], field: str
) -> None:
    response = server.create(PODS, pod(**spec), user)
    assert response.status == 422, response.body
    assert f"spec.{field}" in response.message
    assert REMEDY in response.message


@pytest.mark.parametrize("value", ["", "void", "none"])
def test_a_container_without_gpus_may_hide_them_from_its_image(
    server: ApiServer, value: str
) -> None:
    log = with_env({"name": "log", "image": "busybox"}, {"name": ALL["name"], "value": value})
    response = server.create(PODS, pod(containers=[*GPU_MAIN, *log]), ALICE)
    assert response.accepted, response.message


def test_pods_without_gpus_and_env_from_a_config_map_are_not_checked(server: ApiServer) -> None:
    monitor = with_env(CPU_ONLY[0], ALL)
    response = server.create(
        PODS, pod(schedulerName="default-scheduler", containers=monitor), ALICE
    )
    assert response.accepted, response.message
    response = server.create(
        PODS, pod(containers=[{**GPU_MAIN[0], "envFrom": FROM_CONFIG_MAP}]), ALICE
    )
    assert response.accepted, response.message


def debug(server: ApiServer, name: str, *env: dict[str, Any]) -> ApiResponse:
    """Add an ephemeral container to a pod, as `kubectl debug` does."""
    whole = server.get(f"{PODS}/{name}").body
    containers = whole["spec"].setdefault("ephemeralContainers", [])
    image = {"image": "busybox", "terminationMessagePolicy": "File"}
    containers.append({"name": f"debug-{len(containers)}", **image, "env": list(env)})
    path = f"{PODS}/{name}/ephemeralcontainers"
    return server.request("PUT", path, whole, user=ALICE)


def test_an_ephemeral_container_that_sets_visible_devices_is_rejected(
    server: ApiServer, placed: str
) -> None:
    assert debug(server, placed).accepted
    response = debug(server, placed, ALL)
    assert response.status == 422, response.body
    assert "spec.ephemeralContainers[debug-1].env[NVIDIA_VISIBLE_DEVICES]" in response.message


def test_pod_that_is_older_than_the_policy_can_be_debugged(server: ApiServer, waiting: str) -> None:
    policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    binding_of_policy = server.get(f"{policy}/gputopo-environment").body
    assert server.delete(f"{policy}/gputopo-environment").accepted
    try:
        wait_until_accepted(lambda: debug(server, waiting, ALL))
    finally:
        del binding_of_policy["metadata"]["resourceVersion"]
        assert server.create(policy, binding_of_policy).accepted
    wait_until_rejected(server, pod(containers=with_env(GPU_MAIN[0], ALL)))
    response = debug(server, waiting)
    assert response.accepted, response.message


def wait_until_accepted(change: Callable[[], ApiResponse]) -> None:
    """Repeat the change until the API server has noticed that the policy is gone."""
    deadline = time.monotonic() + 30
    while not (response := change()).accepted:
        assert time.monotonic() < deadline, response.message
        time.sleep(0.2)


def wait_until_rejected(server: ApiServer, manifest: dict[str, Any]) -> None:
    """Wait until the API server applies the policy again."""
    deadline = time.monotonic() + 30
    while (response := server.create(PODS, manifest, ALICE)).accepted:
        assert time.monotonic() < deadline, "the policy is not in force"
        server.delete(f"{PODS}/{response.body['metadata']['name']}")
        time.sleep(0.2)


def topology(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "gputopo.io/v1alpha1",
        "kind": "GPUTopology",
        "metadata": {"name": name},
        "spec": {"gpus": []},
    }


def test_an_agent_writes_the_topology_of_its_own_node(server: ApiServer) -> None:
    response = server.create(TOPOLOGIES, topology("n1"), AGENT)
    assert response.accepted, response.message
    path = f"{TOPOLOGIES}/n1"
    assert server.merge(path, {"spec": {"numaNodes": []}}, AGENT).accepted
    assert server.merge(f"{path}/status", {"status": {"fingerprint": "f"}}, AGENT).accepted
    assert server.delete(path, COLLECTOR).accepted


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize(
    ("agent", "whose"),
    [
        (AGENT, "is not the node of this agent, n1;"),
        (service_account("gputopo-deviceplugin"), "is not the node of this agent, whose token"),
    ],
    ids=["agent of another node", "token without a node"],
)
def test_agents_of_other_nodes_cannot_write_a_topology(
    server: ApiServer, agent: User, whose: str, subresource: str
) -> None:
    name = f"far-{next(_number)}"
    assert server.create(TOPOLOGIES, topology(name), ADMIN).accepted
    body: dict[str, Any] = {"spec": {"numaNodes": []}, "status": {"fingerprint": "f"}}
    response = server.merge(f"{TOPOLOGIES}/{name}{subresource}", body, agent)
    assert response.status == 403
    assert f"metadata.name: {name} {whose}" in response.message
    assert server.create(TOPOLOGIES, topology(f"{name}-new"), agent).status == 403


def test_user_without_a_role_for_topologies_cannot_write_one(server: ApiServer) -> None:
    assert server.create(TOPOLOGIES, topology("n9"), ALICE).status == 403
    assert server.create(TOPOLOGIES, topology("n9"), KUBELET).status == 403


def lease(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "annotations": {"a": "1"}},
    }


def test_extender_writes_its_claims_only_to_an_unchanged_lease(server: ApiServer) -> None:
    made = server.create(LEASES, lease("gputopo-claims"), EXTENDER)
    assert made.accepted, made.message
    assert server.create(LEASES, lease("gputopo-claims"), EXTENDER).status == 409
    version = made.body["metadata"]["resourceVersion"]
    change = {"metadata": {"resourceVersion": version, "annotations": {"a": "2"}}}
    assert server.merge(f"{LEASES}/gputopo-claims", change, EXTENDER).accepted
    assert server.merge(f"{LEASES}/gputopo-claims", change, EXTENDER).status == 409
    assert server.delete(f"{LEASES}/gputopo-claims").accepted


def test_extender_invalidates_a_binding_by_a_change_of_the_pod(
    server: ApiServer, waiting: str
) -> None:
    before = server.get(f"{PODS}/{waiting}").body["metadata"]["resourceVersion"]
    mark = {"metadata": {"annotations": {INVALIDATED_ANNOTATION: "once"}}}
    assert server.merge(f"{PODS}/{waiting}/status", mark, EXTENDER).accepted
    late = binding(waiting, {GPUS_ANNOTATION: GPUS})
    late["metadata"]["resourceVersion"] = before
    response = server.create(f"{PODS}/{waiting}/binding", late, EXTENDER)
    assert response.status == 409, response.body
    assert "nodeName" not in server.get(f"{PODS}/{waiting}").body["spec"]
    late["metadata"]["resourceVersion"] = server.get(f"{PODS}/{waiting}").body["metadata"][
        "resourceVersion"
    ]
    assert server.create(f"{PODS}/{waiting}/binding", late, EXTENDER).accepted


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        ("gputopo-system", "gputopo-operator"),
        ("kube-system", "kube-scheduler"),
        ("default", "gputopo-claims"),
    ],
)
def test_extender_cannot_write_other_leases(server: ApiServer, namespace: str, name: str) -> None:
    path = LEASES.replace("gputopo-system", namespace)
    assert server.create(path, lease(name), EXTENDER).status == 403
    assert server.create(path, lease(name), ADMIN).accepted
    change = {"metadata": {"annotations": {"a": "stolen"}}}
    assert server.merge(f"{path}/{name}", change, EXTENDER).status == 403
    whole = server.get(f"{path}/{name}").body
    whole["metadata"]["annotations"]["a"] = "stolen"
    assert server.request("PUT", f"{path}/{name}", whole, user=EXTENDER).status == 403
    assert server.delete(f"{path}/{name}", EXTENDER).status == 403
    assert server.get(f"{path}/{name}").body["metadata"]["annotations"] == {"a": "1"}
    assert server.delete(f"{path}/{name}").accepted
