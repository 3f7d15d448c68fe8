"""Each account works with exactly its rules: the API server's audit log of real components.

All components run with the tokens of their accounts. No request may be forbidden, and every rule
must be used, or be listed here with the reason why it is there.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.control_plane import api_server
from support.control_plane.api_server import AuditedRequest
from support.control_plane.component_work import (
    AGENT,
    EXTENDER,
    NODE_COUNT,
    OPERATOR,
    call_as_extender,
    run_agent,
    run_gpu_job,
    schedule,
)
from support.control_plane.components import running_operator
from support.control_plane.ensemble_work import run_ensemble
from support.control_plane.measured_pods import measure_pod
from support.control_plane.scheduler_pairs import put_nodes, running_pairs
from support.helm_chart import Helm, Object

Right = tuple[str, str, str]
"""API group, resource with its subresource, verb."""

NOT_SEEN_HERE: dict[str, dict[Right, str]] = {
    EXTENDER: {
        ("", "events", "patch"): "a series of leader-election events",
        ("events.k8s.io", "events", "patch"): "the second of two equal events within 6 minutes",
        ("resource.k8s.io", "devicetaintrules", "list"): "since Kubernetes 1.37",
        ("resource.k8s.io", "devicetaintrules", "watch"): "since Kubernetes 1.37",
        ("resource.k8s.io", "resourceclaims", "get"): "after a conflict of two writers",
        ("resource.k8s.io", "resourceclaims", "create"): "for extended resources of a DeviceClass",
        ("resource.k8s.io", "resourceclaims", "delete"): "of those, where the pod is not bound",
        ("resource.k8s.io", "resourceclaims/status", "patch"): "takes back a failed allocation",
        (
            "resource.k8s.io",
            "resourceclaims/binding",
            "update",
        ): "checked with its status",
        (
            "resource.k8s.io",
            "resourceclaims/binding",
            "patch",
        ): "checked with its status",
    },
    OPERATOR: {},
    AGENT: {
        ("gputopo.io", "gputopologies", "patch"): "GPUs or links of the node have changed",
        ("", "pods", "get"): "a pod that Allocate asks about before the watch has shown it",
    },
}
"""Rights that no run of this test uses for certain, and when they are used."""

LEFT_OUT: dict[tuple[str, str], tuple[str, str]] = {
    # (group, resource): verbs of the cluster's own roles that ours lack, and why.
    ("", "events"): ("update", "events are created and patched"),
    ("events.k8s.io", "events"): ("update", "events are created and patched"),
    ("coordination.k8s.io", "leases"): (
        "create get list update watch",
        "a Role has the two Leases of the installation",
    ),
    ("coordination.k8s.io", "leasecandidates"): (
        "create delete deletecollection get list patch update watch",
        "only for coordinated leader election",
    ),
    ("", "bindings"): ("create", "names no pod in the path; pods/binding does"),
    ("", "nodes"): ("get", "read by list and watch"),
    ("", "namespaces"): ("get", "read by list and watch"),
    ("", "pods"): ("get", "read by list and watch"),
    ("", "pods/status"): ("update", "patched"),
    ("", "pods/finalizers"): ("update", "for owner references that block, which it does not set"),
    ("", "services"): ("get list watch", "the default topology spread constraints are off"),
    ("", "replicationcontrollers"): (
        "get list watch",
        "the default topology spread constraints are off",
    ),
    ("apps", "replicasets"): ("get list watch", "the default topology spread constraints are off"),
    ("extensions", "replicasets"): (
        "get list watch",
        "the default topology spread constraints are off",
    ),
    ("apps", "statefulsets"): ("get list watch", "the default topology spread constraints are off"),
    ("policy", "poddisruptionbudgets"): ("get", "read by list and watch"),
    ("", "persistentvolumes"): ("get patch", "read by list and watch, written by update"),
    ("", "persistentvolumeclaims"): ("get patch", "read by list and watch, written by update"),
    ("storage.k8s.io", "storageclasses"): ("get", "read by list and watch"),
    ("storage.k8s.io", "csinodes"): ("get", "read by list and watch"),
    ("storage.k8s.io", "csidrivers"): ("get", "read by list and watch"),
    ("storage.k8s.io", "csistoragecapacities"): ("get", "read by list and watch"),
    ("storage.k8s.io", "volumeattachments"): ("get", "read by list and watch"),
    ("resource.k8s.io", "deviceclasses"): ("get", "read by list and watch"),
    ("resource.k8s.io", "resourceslices"): ("get", "read by list and watch"),
    ("resource.k8s.io", "resourceclaims"): ("patch", "written by update"),
    ("resource.k8s.io", "devicetaintrules"): ("get", "read by list and watch"),
    ("resource.k8s.io", "resourceclaims/status"): ("get list watch", "written only"),
}

SINCE: dict[Right, int] = {
    # Rights that kube-scheduler needs since this minor version; the chart gives them on all.
    **{("resource.k8s.io", "resourceclaims", verb): 36 for verb in ("create", "delete")},
    **{("resource.k8s.io", "resourceclaims/binding", verb): 36 for verb in ("update", "patch")},
    **{("resource.k8s.io", "devicetaintrules", verb): 37 for verb in ("get", "list", "watch")},
}


@dataclass(frozen=True, slots=True)
class Run:
    """All components at work, seen by the API server.

    Attributes:
        requests: those of the installation's accounts, by account.
        cluster_roles: of the API server's own roles for kube-scheduler, the rules.
        minor: version of the API server: 36 for 1.36.
    """

    rendered: list[Object]
    requests: dict[str, list[AuditedRequest]]
    cluster_roles: list[Object]
    minor: int


@pytest.fixture(scope="module")
def run(helm: Helm, kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("audited")
    with api_server.running(kubernetes_binaries, folder, audit=True) as server:
        helm.install(server.kubeconfig)
        api_server.wait_for_policies(server)
        put_nodes(server, NODE_COUNT)
        minor = int(server.get("/version").body["minor"])
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        cluster_roles = [
            rule
            for name in ("system:kube-scheduler", "system:volume-scheduler")
            for rule in server.get(f"{roles}/{name}").body["rules"]
        ]
        work = tmp_path_factory.mktemp("work")
        with running_pairs(
            server, helm, kubernetes_binaries, work, count=1, lease_seconds=30
        ) as pairs:
            schedule(server, pairs[0], work)
        with running_operator(server, work, resync_seconds=1.0):
            run_gpu_job(server)
            run_ensemble(server)
            measure_pod(server)
        asyncio.run(call_as_extender(work / "kubeconfig"))
        asyncio.run(run_agent(server, work))
    prefix = "system:serviceaccount:gputopo-system:"
    seen: dict[str, list[AuditedRequest]] = {EXTENDER: [], OPERATOR: [], AGENT: []}
    for request in api_server.audited(folder):
        if request.user.startswith(prefix):
            seen[request.user.removeprefix(prefix)].append(request)
    return Run(helm.render(), seen, cluster_roles, minor)


def rights_of(rules: list[Object]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def rules_of(rendered: list[Object], account: str) -> list[Object]:
    """Return the rules of all roles that are bound to an account."""
    bound_roles = {
        (each["roleRef"]["kind"], each["roleRef"]["name"])
        for each in rendered
        if each["kind"] in {"ClusterRoleBinding", "RoleBinding"}
        and account in {subject["name"] for subject in each["subjects"]}
    }
    return [
        rule
        for each in rendered
        if (each["kind"], each["metadata"]["name"]) in bound_roles
        for rule in each["rules"]
    ]


@pytest.mark.parametrize("account", NOT_SEEN_HERE)
def test_no_request_of_an_account_is_forbidden(run: Run, account: str) -> None:
    assert len(run.requests[account]) > 10
    assert [request for request in run.requests[account] if request.status == 403] == []


@pytest.mark.parametrize("account", NOT_SEEN_HERE)
def test_every_rule_is_used_or_has_its_reason(run: Run, account: str) -> None:
    given = rights_of(rules_of(run.rendered, account))
    used = {(each.group, each.resource, each.verb) for each in run.requests[account]}
    assert given - used - NOT_SEEN_HERE[account].keys() == set()
    assert NOT_SEEN_HERE[account].keys() - given == set(), "no longer given: leave it out here"


def test_kube_scheduler_has_no_rights_beyond_those_of_the_clusters_scheduler(run: Run) -> None:
    [role] = [
        each
        for each in run.rendered
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] == "gputopo-kube-scheduler"
    ]
    upstream, ours = rights_of(run.cluster_roles), rights_of(role["rules"])
    later = {right for right, since in SINCE.items() if run.minor < since}
    assert ours - upstream == later & ours
    left_out: dict[tuple[str, str], list[str]] = {}
    for group, resource, verb in sorted((upstream | later) - ours):
        left_out.setdefault((group, resource), []).append(verb)
    # A new version of Kubernetes that gives its scheduler more shows here what that is.
    assert {key: " ".join(verbs) for key, verbs in left_out.items()} == {
        key: verbs for key, (verbs, _) in LEFT_OUT.items()
    }
