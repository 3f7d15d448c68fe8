"""How the parts of an installation are found: by the labels and arguments that the chart gives."""

from typing import Final

from gputopo.api.names import RESOURCE
from gputopo_cli.cluster.doctor.model import Kind, NotCheckedError, Snapshot
from gputopo_kube.document import Document

OURS: Final = "app.kubernetes.io/part-of=gputopo"
"""Selects what the chart installs."""

_COMPONENT: Final = "app.kubernetes.io/component"


def parts(snapshot: Snapshot, kind: Kind, component: str) -> list[Document]:
    """Return the objects of a component: operator, scheduler or deviceplugin.

    Raises:
        NotCheckedError: where the kind could not be read.
    """
    return [
        document
        for document in snapshot[kind]
        if labels(document).get(_COMPONENT) == component and is_ours(document)
    ]


def containers(workload: Document) -> list[Document]:
    """Return the containers of a Deployment or DaemonSet, sidecars included."""
    pod = workload["spec"]["template"]["spec"]
    beside = pod.get("initContainers") or ()
    sidecars = [each for each in beside if each.get("restartPolicy") == "Always"]
    return [*sidecars, *pod["containers"]]


def labels(document: Document) -> dict[str, str]:
    """Return the labels of an object."""
    found: dict[str, str] = document["metadata"].get("labels") or {}
    return found


def is_ours(document: Document) -> bool:
    """Return whether the chart installed an object."""
    name, _, value = OURS.partition("=")
    return labels(document).get(name) == value


def resource(snapshot: Snapshot) -> str:
    """Return the extended resource that the agents serve; the usual one where none is told."""
    return _told(snapshot, Kind.DAEMON_SETS, "deviceplugin", "--resource=") or RESOURCE


def competitors(snapshot: Snapshot) -> frozenset[str]:
    """Return the resources that the agents step back from."""
    told = _told(snapshot, Kind.DAEMON_SETS, "deviceplugin", "--competing-resources=")
    return frozenset(filter(None, told.split(",")))


def scheduler_name(snapshot: Snapshot) -> str:
    """Return the scheduler that GPUJobs ask for; empty where none is told."""
    return _told(snapshot, Kind.DEPLOYMENTS, "operator", "--scheduler-name=")


def upgrade(snapshot: Snapshot, *settings: str) -> str:
    """Return the command that brings the installation back to what the chart says."""
    release, namespace = "gputopo", "gputopo-system"
    for deployment in snapshot.documents.get(Kind.DEPLOYMENTS, ()):
        release = labels(deployment).get("app.kubernetes.io/instance", release)
        namespace = deployment["metadata"]["namespace"]
    more = "".join(f" --set {setting}" for setting in settings)
    return f"helm upgrade --reset-then-reuse-values {release} charts/gputopo -n {namespace}{more}"


def _told(snapshot: Snapshot, kind: Kind, component: str, flag: str) -> str:
    try:
        workloads = parts(snapshot, kind, component)
    except NotCheckedError:
        return ""
    arguments = [
        argument
        for workload in workloads
        for container in containers(workload)
        for argument in container.get("args") or ()
    ]
    return next((text.removeprefix(flag) for text in arguments if text.startswith(flag)), "")
