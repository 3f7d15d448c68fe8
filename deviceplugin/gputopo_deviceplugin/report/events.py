"""Kubernetes events of the agent: what happened to a pod or to this node. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from gputopo_kube.pods import PodView

COMPONENT: Final = "gputopo-deviceplugin"
_LONGEST_MESSAGE: Final = 1024


def refused(pod: PodView, node: str, reason: str, now: str) -> dict[str, Any]:
    """Return the event of a pod that was refused its GPUs."""
    return _event(_reference(pod), node, "GPUsRefused", reason, now, kind="Warning")


def differs(pod: PodView, node: str, message: str, now: str) -> dict[str, Any]:
    """Return the event of a pod that has other GPUs than it was given."""
    return _event(_reference(pod), node, "GPUsDiffer", message, now, kind="Warning")


def health_changed(
    node: Mapping[str, Any], uuid: str, fault: str | None, now: str
) -> dict[str, Any]:
    """Return the event of a GPU of this node that became unhealthy or healthy."""
    metadata = node["metadata"]
    about = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}
    if fault is None:
        return _event(
            about, metadata["name"], "GPUHealthy", f"{uuid} is healthy again", now, kind="Normal"
        )
    return _event(about, metadata["name"], "GPUUnhealthy", f"{uuid}: {fault}", now, kind="Warning")


def _reference(pod: PodView) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.key.name,
        "namespace": pod.key.namespace,
        "uid": pod.uid,
    }


def _event(
    about: dict[str, Any], node: str, reason: str, message: str, now: str, *, kind: str
) -> dict[str, Any]:
    namespace = about.get("namespace", "default")
    return {
        "metadata": {"generateName": f"{about['name']}.", "namespace": namespace},
        "involvedObject": about,
        "reason": reason,
        "message": message[:_LONGEST_MESSAGE],
        "type": kind,
        "source": {"component": COMPONENT, "host": node},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
    }
