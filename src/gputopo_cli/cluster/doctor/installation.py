"""Check the objects of the chart: definitions, policies, workloads, versions."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from gputopo.api.names import GROUP, VERSION
from gputopo_cli.cluster.doctor import installed
from gputopo_cli.cluster.doctor.configuration import CONTAINER
from gputopo_cli.cluster.doctor.model import (
    CheckedCluster,
    Finding,
    ObjectKind,
    error,
    object_name,
    warning,
)
from gputopo_kube.document import Document, true_condition

DEFINITIONS: Final = tuple(
    f"{kind}.{GROUP}" for kind in ("gpuensembles", "gpujobs", "gpuprofiles", "gputopologies")
)

POLICIES: Final = (
    "own-dry-runs",
    "own-leases",
    "own-topology",
    "pod-fields",
    "scheduler-name",
    "environment",
    "measured-pods",
    "operator-fields",
)
_INSTALL: Final = "install the chart: docs/start/install.md"
_APPLY: Final = "kubectl apply --server-side -f crds/"
_OLDEST_KUBERNETES: Final = (1, 31)  # has everything that the chart uses

_RELEASE: Final = re.compile(r"v?(\d+)\.(\d+)\.\S+")
_WORKLOADS: Final = (
    (ObjectKind.DEPLOYMENTS, "Deployment", "operator"),
    (ObjectKind.DEPLOYMENTS, "Deployment", "scheduler"),
    (ObjectKind.DAEMON_SETS, "DaemonSet", "deviceplugin"),
)
_PROGRAMS: Final = ("operator", "extender", "deviceplugin")  # names of our containers


def check_definitions(snapshot: CheckedCluster) -> Iterator[Finding]:
    """Yield CRDs that are missing, or in which our API version is not served or not stored."""
    existing = {
        document["metadata"]["name"]: document for document in snapshot[ObjectKind.DEFINITIONS]
    }
    # Helm does not install the chart while CRDs exist that another client has created.
    todo = _INSTALL if installed.is_missing(snapshot) else _APPLY
    for name in DEFINITIONS:
        problem = _definition_problem(existing.get(name))
        if problem is not None:
            yield error(f"CustomResourceDefinition {name}", problem, todo)


def _definition_problem(definition: Document | None) -> str | None:
    if definition is None:
        return "is missing"
    versions = {each["name"]: each for each in definition["spec"]["versions"]}
    ours = versions.get(VERSION)
    if ours is None or not (ours["served"] and ours["storage"]):
        return f"does not serve and store {VERSION}; it has {', '.join(versions)}"
    if true_condition(definition, "Established") is None:
        return "is not established"
    return None


def check_policies(snapshot: CheckedCluster) -> Iterator[Finding]:
    """Yield admission policies that are missing, or allow requests that they should deny."""
    bindings, existing = snapshot[ObjectKind.BINDINGS], snapshot[ObjectKind.POLICIES]
    if not existing:
        problem = (
            "no policy is installed, so users who may change a pod can give it any GPU of its node"
        )
        enable = installed.upgrade(snapshot, "admissionPolicies.enabled=true")
        todo = _INSTALL if installed.is_missing(snapshot) else enable
        yield warning("ValidatingAdmissionPolicies", problem, todo)
        return
    upgrade = installed.upgrade(snapshot)
    for part in POLICIES:
        if not any(policy["metadata"]["name"].endswith(f"-{part}") for policy in existing):
            yield error(f"ValidatingAdmissionPolicy gputopo-{part}", "is missing", upgrade)
    for policy in existing:
        name = policy["metadata"]["name"]
        for kind, problem in _policy_problems(policy, bindings):
            # Helm does not revert changes that were made by other clients.
            todo = f"kubectl delete --ignore-not-found {kind.lower()} {name} && {upgrade}"
            yield error(f"{kind} {name}", problem, todo)


def _policy_problems(policy: Document, bindings: Sequence[Document]) -> Iterator[tuple[str, str]]:
    if policy["spec"].get("failurePolicy") != "Fail":
        problem = "failurePolicy is not Fail: if the policy cannot be evaluated, it allows requests"
        yield "ValidatingAdmissionPolicy", problem
    denies = any(
        binding["spec"]["policyName"] == policy["metadata"]["name"]
        and "Deny" in binding["spec"]["validationActions"]
        for binding in bindings
    )
    if not denies:
        yield (
            "ValidatingAdmissionPolicyBinding",
            "no binding denies the requests that the policy rejects",
        )


def check_workloads(snapshot: CheckedCluster) -> Iterator[Finding]:
    """Yield operators and schedulers that are missing or not ready, and unfinished rollouts."""
    for kind, kind_name, component in _WORKLOADS:
        found = installed.find_parts(snapshot, kind, component)
        if not found:
            missing = f"no such {kind_name} has the label {installed.OURS}"
            yield error(f"{kind_name} of {component}", missing, _INSTALL)
        for each in found:
            problem = _rollout(each) if kind is ObjectKind.DAEMON_SETS else _replicas(each)
            if problem is not None:
                yield error(object_name(kind_name, each), problem, _describe(each, component))


def _replicas(deployment: Document) -> str | None:
    wanted = deployment["spec"].get("replicas", 1)
    ready = (deployment.get("status") or {}).get("readyReplicas", 0)
    if wanted and ready >= wanted:
        return None
    return f"{ready} of {wanted} replicas are ready"


def _rollout(daemon_set: Document) -> str | None:
    status = daemon_set.get("status") or {}
    wanted, updated = (status.get(f"{which}NumberScheduled", 0) for which in ("desired", "updated"))
    return None if updated >= wanted else f"{updated} of {wanted} pods are updated"


def _describe(workload: Document, component: str) -> str:
    namespace = workload["metadata"]["namespace"]
    return f"kubectl -n {namespace} describe pods -l app.kubernetes.io/component={component}"


def check_versions(snapshot: CheckedCluster) -> Iterator[Finding]:
    """Yield programs with another version than this program, and a Kubernetes that is too old."""
    for name, version in _versions(snapshot):
        if version != snapshot.version:
            problem = f"has version {version}, but this program has version {snapshot.version}"
            todo = f"{installed.upgrade(snapshot)}, or install version {version} of this program"
            yield warning(name, problem, todo)
    server = _release(snapshot[ObjectKind.SERVER][0]["gitVersion"])
    if server is not None and server < _OLDEST_KUBERNETES:
        problem = f"has version {_dotted(server)}, but {_dotted(_OLDEST_KUBERNETES)} is required"
        yield error("Kubernetes", problem, "upgrade the cluster")
    for deployment, release in _kube_schedulers(snapshot):
        if server is not None and release != server:
            problem = (
                f"runs kube-scheduler {_dotted(release)}, but the cluster has {_dotted(server)}"
            )
            yield warning(
                object_name("Deployment", deployment), problem, installed.upgrade(snapshot)
            )


def _versions(snapshot: CheckedCluster) -> Iterator[tuple[str, str]]:
    """Yield each program of gputopo with its version: the image's tag, else the chart's version."""
    for kind, kind_name, component in _WORKLOADS:
        for workload in installed.find_parts(snapshot, kind, component):
            chart = installed.labels(workload).get("app.kubernetes.io/version", "")
            for container in installed.containers(workload):
                if container["name"] in _PROGRAMS:
                    tag = _tag(container)
                    version = tag.removeprefix("v") if _RELEASE.fullmatch(tag) else chart
                    yield f"{object_name(kind_name, workload)}: {container['name']}", version


def _kube_schedulers(snapshot: CheckedCluster) -> Iterator[tuple[Document, tuple[int, int]]]:
    for deployment in installed.find_parts(snapshot, ObjectKind.DEPLOYMENTS, "scheduler"):
        for container in installed.containers(deployment):
            release = _release(_tag(container))
            if container["name"] == CONTAINER and release is not None:
                yield deployment, release


def _tag(container: Document) -> str:
    tag: str = container["image"].partition("@")[0].rpartition("/")[2].partition(":")[2]
    return tag


def _release(version: str) -> tuple[int, int] | None:
    found = _RELEASE.fullmatch(version)
    return (int(found[1]), int(found[2])) if found else None


def _dotted(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"
