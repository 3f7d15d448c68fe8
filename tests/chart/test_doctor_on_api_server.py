"""``gputopo doctor`` and ``who-has`` on a real API server, with the chart as Helm installs it.

No controller, kubelet or agent runs: the tests write their objects.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputopo import catalogue
from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION
from gputopo.api.topology import to_spec
from gputopo_cli.cluster.doctor.installation import POLICIES
from support.cli.command_line import Done, process
from support.control_plane import api_server
from support.control_plane.api_server import ONE_GPU, PODS, TOPOLOGIES, ApiServer, service_account
from support.helm_chart import CHART, Helm

SYSTEM = "/api/v1/namespaces/gputopo-system"
APPS = "/apis/apps/v1/namespaces/gputopo-system"
MAP = "ConfigMap gputopo-system/gputopo-scheduler"
EXTENDER = service_account("gputopo-extender")
GPUS = [gpu.uuid for gpu in catalogue.named("dgx1-v100", node="d1").gpus]
READY = [{"type": "Ready", "status": "True"}]
STARTED = "2026-01-01T00:00:00Z"

# The node has no address of a kubelet.
NO_KUBELET = ("kubelets", "warning", "Node d1")

Found = tuple[str, str, str]
"""Check, severity, object."""


@pytest.fixture(scope="module")
def cluster(
    kubernetes_binaries: Path, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """A server of its own, since every object on it counts: one node, one pod with a GPU."""
    with api_server.running(kubernetes_binaries, tmp_path_factory.mktemp("doctor")) as server:
        helm.install(server.kubeconfig)
        api_server.wait_for_policies(server)
        _node(server)
        _topology(server)
        _started(server, "deviceplugin", node="d1")
        _started(server, "kube-scheduler", component="scheduler")
        for name in ("operator", "scheduler"):
            path = f"{APPS}/deployments/gputopo-{name}"
            wanted = _must(server.get(path))["spec"]["replicas"]
            _write_status(server, path, {"replicas": wanted, "readyReplicas": wanted})
        _placed(server)
        yield server


def _must(response: api_server.ApiResponse) -> dict[str, Any]:
    assert response.accepted, response.message
    return response.body


def _write_status(server: ApiServer, path: str, status: object) -> None:
    _must(server.merge(f"{path}/status", {"status": status}))


def _node(server: ApiServer) -> None:
    gpus = {"gputopo.io/gpu": "8"}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "d1"}}
    _must(server.create("/api/v1/nodes", body))
    status = {"conditions": READY, "capacity": gpus, "allocatable": gpus}
    _write_status(server, "/api/v1/nodes/d1", status)


def _topology(server: ApiServer) -> None:
    topology = {
        "apiVersion": "gputopo.io/v1alpha1",
        "kind": "GPUTopology",
        "metadata": {"name": "d1"},
        "spec": to_spec(catalogue.named("dgx1-v100", node="d1")).to_json(),
    }
    _must(server.create(TOPOLOGIES, topology))


def _observe(server: ApiServer, held: dict[str, Any] | None) -> None:
    """Write what the agent would: the first GPU is held so, the others are free."""
    said = {
        "observedGeneration": 1,
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": "Fine",
                "message": "",
                "lastTransitionTime": STARTED,
            }
            for kind in ("Ready", "GPUsHealthy", "AllocationsAsPlaced")
        ],
        "gpus": [
            {"uuid": uuid, "healthy": True, **((held or {}) if uuid == GPUS[0] else {})}
            for uuid in GPUS
        ],
    }
    _write_status(server, f"{TOPOLOGIES}/d1", said)


def _started(server: ApiServer, container: str, *, component: str = "", node: str = "") -> None:
    """Make a pod of the installation that has been running for long."""
    labels = {
        "app.kubernetes.io/part-of": "gputopo",
        "app.kubernetes.io/component": component or container,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": container, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": container, "image": "none"}]},
    }
    _must(server.create(f"{SYSTEM}/pods", pod))
    running = {"name": container, "state": {"running": {"startedAt": "2099-01-01T00:00:00Z"}}}
    more = {"ready": True, "restartCount": 0, "image": "none", "imageID": "none"}
    status = {"phase": "Running", "conditions": READY, "containerStatuses": [{**running, **more}]}
    _write_status(server, f"{SYSTEM}/pods/{container}", status)


def _placed(server: ApiServer) -> None:
    """Make a pod, bind it as the extender does, and let its node take it."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train"},
        "spec": {
            "schedulerName": "gputopo",
            "containers": [{"name": "main", "image": "none", "resources": ONE_GPU}],
        },
    }
    uid = _must(server.create(PODS, pod))["metadata"]["uid"]
    given = GpusAnnotation(uid=uid, node="d1", generation=1, containers={"main": [GPUS[0]]})
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "train", "annotations": {GPUS_ANNOTATION: given.dump()}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "d1"},
    }
    _must(server.create(f"{PODS}/train/binding", binding, user=EXTENDER))
    _write_status(server, f"{PODS}/train", {"phase": "Running", "startTime": STARTED})
    _observe(server, _train(server))


def _train(server: ApiServer) -> dict[str, str]:
    uid = _must(server.get(f"{PODS}/train"))["metadata"]["uid"]
    return {"podUID": uid, "namespace": "default", "pod": "train", "container": "main"}


def gputopo(server: ApiServer, line: str, kubeconfig: Path | None = None) -> Done:
    done = process(*line.split(), KUBECONFIG=str(kubeconfig or server.kubeconfig))
    assert "Traceback" not in done.err
    return done


def findings(server: ApiServer) -> list[Found]:
    document = gputopo(server, "doctor --settle 0 -o json").document
    assert document["notChecked"] == 0
    return [
        (check["check"], found["severity"], found["object"])
        for check in document["checks"]
        for found in check["findings"]
    ]


def test_healthy_installation_has_no_errors(cluster: ApiServer) -> None:
    assert findings(cluster) == [NO_KUBELET]
    assert gputopo(cluster, "doctor --settle 0").status == 0


def test_kubectl_plugin_shows_the_user_of_a_gpu(
    cluster: ApiServer, kubernetes_binaries: Path
) -> None:
    programs = str(Path(sys.executable).parent)
    done = subprocess.run(
        [kubernetes_binaries / "kubectl", "gputopo", "who-has", "--gpu", "0", "-o", "json"],
        env={**os.environ, "PATH": programs, "KUBECONFIG": str(cluster.kubeconfig)},
        capture_output=True,
        check=True,
    )
    (row,) = json.loads(done.stdout)
    assert (row["node"], row["uuid"], row["difference"]) == ("d1", GPUS[0], None)
    assert (row["pod"]["name"], row["pod"]["since"]) == ("train", STARTED)
    assert (row["intendedRank"], row["observed"]) == (0, True)


def test_doctor_finds_differing_users_of_gpus(cluster: ApiServer) -> None:
    user = {**_train(cluster), "podUID": "another"}
    _observe(cluster, user)
    assert findings(cluster) == [NO_KUBELET, ("placements", "error", "Pod default/train")]
    done = gputopo(cluster, "who-has --pod default/train")
    assert (
        "DIFFERS: kubelet's pod-resources list has an earlier pod of this name, another" in done.out
    )
    _observe(cluster, _train(cluster))
    assert findings(cluster) == [NO_KUBELET]


def test_doctor_finds_a_changed_configuration_and_a_scheduler_with_the_old_one(
    cluster: ApiServer,
) -> None:
    path = f"{SYSTEM}/configmaps/gputopo-scheduler"
    text = _must(cluster.get(path))["data"]["config.yaml"]
    broken = text.replace("ignorable: false", "ignorable: true")
    assert broken != text
    status = _must(cluster.get(f"{SYSTEM}/pods/kube-scheduler"))["status"]["containerStatuses"]
    status[0]["state"]["running"]["startedAt"] = STARTED
    _write_status(cluster, f"{SYSTEM}/pods/kube-scheduler", {"containerStatuses": status})
    _must(cluster.merge(path, {"data": {"config.yaml": broken}}))
    older = ("scheduler", "error", "Pod gputopo-system/kube-scheduler")
    assert findings(cluster) == [("scheduler", "error", MAP), older, NO_KUBELET]
    assert gputopo(cluster, "doctor --settle 0").status == 3
    _must(cluster.merge(path, {"data": {"config.yaml": text}}))
    assert findings(cluster) == [older, NO_KUBELET]
    status[0]["state"]["running"]["startedAt"] = "2099-01-01T00:00:00Z"
    _write_status(cluster, f"{SYSTEM}/pods/kube-scheduler", {"containerStatuses": status})


def test_commands_of_the_findings_restore_the_policies(
    cluster: ApiServer, kubernetes_binaries: Path, tmp_path: Path
) -> None:
    policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    _must(cluster.delete(f"{policy}ies/gputopo-own-topology"))
    opened = {"spec": {"failurePolicy": "Ignore"}}
    _must(cluster.merge(f"{policy}ies/gputopo-scheduler-name", opened))
    toothless = {"spec": {"validationActions": ["Warn"]}}
    _must(cluster.merge(f"{policy}ybindings/gputopo-pod-fields", toothless))
    document = gputopo(cluster, "doctor --settle 0 -o json").document
    restored = document["checks"][1]["findings"]
    assert [found["object"] for found in restored] == [
        "ValidatingAdmissionPolicy gputopo-own-topology",
        "ValidatingAdmissionPolicyBinding gputopo-pod-fields",
        "ValidatingAdmissionPolicy gputopo-scheduler-name",
    ]
    # Helm rejects an upgrade as long as there is a change that it did not make.
    for found in restored:
        done = subprocess.run(
            ["sh", "-c", found["todo"]],
            cwd=CHART.parents[1],
            env={
                "PATH": f"{kubernetes_binaries}:/usr/bin:/bin",
                "HOME": str(tmp_path),
                "KUBECONFIG": str(cluster.kubeconfig),
            },
            capture_output=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert findings(cluster) == [NO_KUBELET]


def test_doctor_finds_a_missing_agent(cluster: ApiServer) -> None:
    _must(cluster.delete(f"{SYSTEM}/pods/deviceplugin"))
    assert findings(cluster) == [("agents", "error", "Node d1"), NO_KUBELET]
    _started(cluster, "deviceplugin", node="d1")


def test_checks_without_permission_are_reported(cluster: ApiServer, tmp_path: Path) -> None:
    kubeconfig = _viewer(cluster, tmp_path / "viewer")
    document = gputopo(cluster, "doctor --settle 0 -o json", kubeconfig).document
    said = {check["check"]: check["notChecked"] for check in document["checks"]}
    made = {name for name, why in said.items() if why is None}
    assert made == {"agents", "environment", "placements", "shares"}
    assert said["kubelets"].startswith('no permission: nodes "d1" is forbidden: User "system:')
    assert gputopo(cluster, "who-has", kubeconfig).out.endswith("in use; no differences\n")


def _viewer(server: ApiServer, kubeconfig: Path) -> Path:
    """Return the kubeconfig of a user who may only list pods, nodes and topologies."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list"]},
        {"apiGroups": ["gputopo.io"], "resources": ["gputopologies"], "verbs": ["list"]},
    ]
    role = {"kind": "ClusterRole", "metadata": {"name": "little"}, "rules": rules}
    _must(server.create(f"{rbac}/clusterroles", {"apiVersion": rbac[6:], **role}))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "little"}
    subject = {"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}
    bound = {"metadata": {"name": "little"}, "roleRef": reference, "subjects": [subject]}
    binding = {"apiVersion": rbac[6:], "kind": "ClusterRoleBinding", **bound}
    _must(server.create(f"{rbac}/clusterrolebindings", binding))
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer"}}
    _must(server.create(accounts, account))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = _must(server.create(f"{accounts}/viewer/token", request))["status"]["token"]
    config = json.loads(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    kubeconfig.write_text(json.dumps(config))
    return kubeconfig


def test_doctor_checks_every_policy_of_the_chart(helm: Helm) -> None:
    rendered = {
        each["metadata"]["name"].removeprefix("gputopo-")
        for each in helm.render()
        if each["kind"] == "ValidatingAdmissionPolicy"
    }
    assert set(POLICIES) == rendered
