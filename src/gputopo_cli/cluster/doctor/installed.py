"""Find the parts of an installation by the labels and arguments that the chart sets."""

from typing import Final

from gputopo.api.names import RESOURCE
from gputopo_cli.cluster.doctor.model import CheckedCluster, NotCheckedError, ObjectKind
from gputopo_kube.document import Document

OURS: Final = "app.kubernetes.io/part-of=gputopo"
"""Selector of the objects that the chart installs."""

_COMPONENT: Final = "app.kubernetes.io/component"


def find_parts(snapshot: CheckedCluster, kind: ObjectKind, component: str) -> list[Document]:
    """Return the objects of a component: operator, scheduler or deviceplugin.

    Raises:
        NotCheckedError: if the kind could not be read.
    """
    return [
        document
        for document in snapshot[kind]
        if labels(document).get(_COMPONENT) == component and is_ours(document)
    ]


def containers(workload: Document) -> list[Document]:
    """Return the containers of a Deployment or DaemonSet, sidecars included."""
    pod = workload["spec"]["template"]["spec"]
    inits = pod.get("initContainers") or ()
    sidecars = [each for each in inits if each.get("restartPolicy") == "Always"]
    return [*sidecars, *pod["containers"]]


def labels(document: Document) -> dict[str, str]:
    """Return the labels of an object."""
    found: dict[str, str] = document["metadata"].get("labels") or {}
    return found


def is_ours(document: Document) -> bool:
    """Return whether gputopo's chart installed an object."""
    name, _, value = OURS.partition("=")
    return labels(document).get(name) == value


def gpu_resource(snapshot: CheckedCluster) -> str:
    """Return the extended resource that the agents serve."""
    return _find_flag(snapshot, ObjectKind.DAEMON_SETS, "deviceplugin", "--resource=") or RESOURCE


def shares_gpus(snapshot: CheckedCluster) -> bool:
    """Return whether the agents offer shares of GPUs."""
    flag = "--shares-per-gpu="
    return _find_flag(snapshot, ObjectKind.DAEMON_SETS, "deviceplugin", flag) not in {"", "0"}


def competitors(snapshot: CheckedCluster) -> frozenset[str]:
    """Return the GPU resources of other plugins, as in the agents' ``--competing-resources``."""
    resources = _find_flag(
        snapshot, ObjectKind.DAEMON_SETS, "deviceplugin", "--competing-resources="
    )
    return frozenset(filter(None, resources.split(",")))


def scheduler_name(snapshot: CheckedCluster) -> str:
    """Return the name of the scheduler that GPUJobs use; empty if it is unknown."""
    return _find_flag(snapshot, ObjectKind.DEPLOYMENTS, "operator", "--scheduler-name=")


def is_missing(snapshot: CheckedCluster) -> bool:
    """Return whether the cluster has no Deployment of the chart; False if that is unknown."""
    deployments = snapshot.documents.get(ObjectKind.DEPLOYMENTS)
    return deployments is not None and not any(map(is_ours, deployments))


def upgrade(snapshot: CheckedCluster, *settings: str) -> str:
    """Return the helm command that restores the installation to the state of the chart."""
    release, namespace = "gputopo", "gputopo-system"
    for deployment in snapshot.documents.get(ObjectKind.DEPLOYMENTS, ()):
        release = labels(deployment).get("app.kubernetes.io/instance", release)
        namespace = deployment["metadata"]["namespace"]
    options = "".join(f" --set {setting}" for setting in settings)
    return (
        f"helm upgrade --reset-then-reuse-values {release} charts/gputopo -n {namespace}{options}"
    )


def _find_flag(snapshot: CheckedCluster, kind: ObjectKind, component: str, flag: str) -> str:
    try:
        workloads = find_parts(snapshot, kind, component)
    except NotCheckedError:
        return ""
    arguments = [
        argument
        for workload in workloads
        for container in containers(workload)
        for argument in container.get("args") or ()
    ]
    return next((text.removeprefix(flag) for text in arguments if text.startswith(flag)), "")
