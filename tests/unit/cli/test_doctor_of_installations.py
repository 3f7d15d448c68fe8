"""``gputopo doctor`` finds problems of definitions, policies, workloads and versions."""

from importlib.metadata import version

import pytest

from support.api.static import StaticApi
from support.cli.broken_cluster import OPERATOR, SCHEDULER, Break, both, change, findings, remove
from support.cli.command_line import Command
from support.cli.healthy_cluster import (
    BINDINGS,
    DAEMON_SETS,
    DEFINITIONS,
    DEPLOYMENTS,
    POLICIES,
    VERSION,
)


def _no_definition(api: StaticApi) -> None:
    del api.objects[f"{DEFINITIONS}/gpujobs.gputopo.io"]


def _other_version(api: StaticApi) -> None:
    definition = api.objects[f"{DEFINITIONS}/gpujobs.gputopo.io"]
    definition["spec"]["versions"] = [{"name": "v9", "served": True, "storage": True}]


def _unserved(api: StaticApi) -> None:
    versions = api.objects[f"{DEFINITIONS}/gpujobs.gputopo.io"]["spec"]["versions"]
    versions[0]["served"] = False
    versions.append({"name": "v9", "served": True, "storage": True})


def _unestablished(api: StaticApi) -> None:
    api.objects[f"{DEFINITIONS}/gpujobs.gputopo.io"]["status"] = {}


NOT_DENIED = "no binding denies the requests that the policy rejects"
GPUJOBS = "CustomResourceDefinition gpujobs.gputopo.io"


@pytest.mark.parametrize(
    ("break_", "problem"),
    [
        (_no_definition, "is missing"),
        (_other_version, "does not serve and store v1alpha1; it has v9"),
        (_unserved, "does not serve and store v1alpha1; it has v1alpha1, v9"),
        (_unestablished, "is not established"),
    ],
)
def test_definition_of_another_version_is_an_error(
    api: StaticApi, gputopo: Command, break_: Break, problem: str
) -> None:
    break_(api)
    assert findings(gputopo) == [("definitions", "error", GPUJOBS, problem)]
    todo = "  to do: kubectl apply --server-side -f crds/\n"
    assert todo in gputopo("doctor --settle 0").out


@pytest.mark.parametrize(
    ("break_", "severity", "where", "problem"),
    [
        (
            lambda api: api.lists[POLICIES].clear(),
            "warning",
            "",
            "no policy is installed, so users who may change a pod can give it any GPU of its node",
        ),
        (remove(POLICIES, 2), "error", " gputopo-pod-fields", "is missing"),
        (remove(POLICIES, 4), "error", " gputopo-environment", "is missing"),
        (
            change(POLICIES, 1, "spec", failurePolicy="Ignore"),
            "error",
            " gputopo-own-topology",
            "failurePolicy is not Fail: if the policy cannot be evaluated, it allows requests",
        ),
        (remove(BINDINGS, 3), "error", "Binding gputopo-scheduler-name", NOT_DENIED),
        (
            change(BINDINGS, 3, "spec", validationActions=["Warn", "Audit"]),
            "error",
            "Binding gputopo-scheduler-name",
            NOT_DENIED,
        ),
    ],
)
def test_policies_that_allow_forged_placements_are_reported(
    api: StaticApi, gputopo: Command, break_: Break, severity: str, where: str, problem: str
) -> None:
    break_(api)
    name = f"ValidatingAdmissionPolicy{where}" if where else "ValidatingAdmissionPolicies"
    assert findings(gputopo) == [("policies", severity, name, problem)]


@pytest.mark.parametrize(
    ("break_", "where", "problem"),
    [
        (
            remove(DEPLOYMENTS, OPERATOR),
            "Deployment of operator",
            "no such Deployment has the label app.kubernetes.io/part-of=gputopo",
        ),
        (
            change(DEPLOYMENTS, OPERATOR, status={}),
            "Deployment gputopo-system/gputopo-operator",
            "0 of 1 replicas are ready",
        ),
        (
            change(DEPLOYMENTS, SCHEDULER, "spec", replicas=0),
            "Deployment gputopo-system/gputopo-scheduler",
            "1 of 0 replicas are ready",
        ),
        (
            change(DAEMON_SETS, 0, "status", updatedNumberScheduled=1),
            "DaemonSet gputopo-system/gputopo-deviceplugin",
            "1 of 2 pods are updated",
        ),
    ],
)
def test_parts_that_are_missing_or_not_ready_are_errors(
    api: StaticApi, gputopo: Command, break_: Break, where: str, problem: str
) -> None:
    break_(api)
    assert findings(gputopo) == [("workloads", "error", where, problem)]


def _image(at: int, container: str, image: str) -> Break:
    return change(DEPLOYMENTS, at, "spec", "template", "spec", "containers", container, image=image)


SCHEDULER_DEPLOYMENT = "Deployment gputopo-system/gputopo-scheduler"
OWN = version("gputopo")


@pytest.mark.parametrize(
    ("break_", "severity", "where", "problem"),
    [
        (
            _image(OPERATOR, "0", "r.example:5000/operator:9.9.9@sha256:00"),
            "warning",
            "Deployment gputopo-system/gputopo-operator: operator",
            f"has version 9.9.9, but this program has version {OWN}",
        ),
        (
            change(DAEMON_SETS, 0, "metadata", "labels", **{"app.kubernetes.io/version": "9.9.9"}),
            "warning",
            "DaemonSet gputopo-system/gputopo-deviceplugin: deviceplugin",
            f"has version 9.9.9, but this program has version {OWN}",
        ),
        (
            _image(SCHEDULER, "0", "registry.k8s.io/kube-scheduler:v1.34.1"),
            "warning",
            SCHEDULER_DEPLOYMENT,
            "runs kube-scheduler 1.34, but the cluster has 1.36",
        ),
        (
            both(
                lambda api: api.objects[VERSION].update(gitVersion="v1.30.4-gke.7"),
                _image(SCHEDULER, "0", "mirror.example/kube-scheduler:v1.30.4"),
            ),
            "error",
            "Kubernetes",
            "has version 1.30, but 1.31 is required",
        ),
    ],
)
def test_differing_versions_are_reported(
    api: StaticApi, gputopo: Command, break_: Break, severity: str, where: str, problem: str
) -> None:
    break_(api)
    assert findings(gputopo) == [("versions", severity, where, problem)]


@pytest.mark.parametrize("image", ["mirror.example/scheduler:ours", "mirror.example/scheduler"])
def test_image_without_a_version_is_ignored(api: StaticApi, gputopo: Command, image: str) -> None:
    _image(SCHEDULER, "0", image)(api)
    api.objects[VERSION]["gitVersion"] = "a fork"
    assert findings(gputopo) == []
