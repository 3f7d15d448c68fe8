"""Pods and GPUTopology objects in the form of the API server."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gputopo.api.names import API_VERSION, AVOID_ANNOTATION, RESOURCE, SCHEDULER_NAME
from gputopo.api.topology import to_spec
from gputopo.topology.model import NodeTopology

Document = dict[str, Any]


def container(name: str, gpus: int | str = 0) -> Document:
    """Return a container that requests GPUs."""
    if not gpus:
        return {"name": name, "image": "busybox"}
    amounts = {RESOURCE: str(gpus)}
    return {"name": name, "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}


def pod(
    name: str,
    gpus: int = 1,
    *,
    namespace: str = "default",
    uid: str = "",
    node: str | None = None,
    phase: str = "Pending",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    containers: Iterable[Document] = (),
    init_containers: Iterable[Document] = (),
) -> Document:
    """Return a pod; its UID is ``uid-<name>`` by default."""
    document: Document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "resourceVersion": "1",
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "containers": list(containers) or [container("main", gpus)],
            "initContainers": list(init_containers),
        },
        "status": {"phase": phase},
    }
    if labels is not None:
        document["metadata"]["labels"] = dict(labels)
    if node is not None:
        document["spec"]["nodeName"] = node
    return document


def avoiding(level: str = "Socket", **labels: str) -> dict[str, str]:
    """Return the annotation of a pod that avoids pods with these labels."""
    return {AVOID_ANNOTATION: json.dumps([{"matchLabels": labels, "level": level}])}


def topology_object(
    name: str,
    topology: NodeTopology,
    *,
    generation: int = 1,
    unhealthy: Iterable[int] = (),
    used_by: Mapping[int, str] | None = None,
    not_ready: str | None = None,
    deleted: Iterable[int] = (),
    pods_version: int | None = None,
) -> Document:
    """Return a GPUTopology; ``used_by`` has the UID of the pod that uses each GPU index.

    The pods of the GPUs in ``deleted`` were deleted; ``pods_version`` is observedPodsVersion.
    ``not_ready`` is the reason of the agent's condition ``Ready=False``; None for no condition.
    """
    unhealthy_gpus, users, ended = set(unhealthy), used_by or {}, set(deleted)
    gpus: list[Document] = []
    for gpu in topology.gpus:
        seen: Document = {"uuid": gpu.uuid, "healthy": gpu.index not in unhealthy_gpus}
        if gpu.index in users:
            seen |= {"podUID": users[gpu.index], "pod": users[gpu.index], "container": "main"}
        if gpu.index in ended:
            seen |= {"namespace": "default", "podDeleted": True}
        gpus.append(seen)
    status: Document = {"observedGeneration": generation, "gpus": gpus}
    if pods_version is not None:
        status["observedPodsVersion"] = str(pods_version)
    if not_ready is not None:
        status["conditions"] = [condition("Ready", "False", not_ready)]
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUTopology",
        "metadata": {"name": name, "generation": generation, "uid": f"topology-{name}"},
        "spec": to_spec(topology).to_json(),
        "status": status,
    }


def at_version(document: Document, version: int) -> Document:
    """Return the object with another resource version."""
    return {**document, "metadata": {**document["metadata"], "resourceVersion": str(version)}}


def container_states(*states: str) -> list[Document]:
    """Return statuses of containers by their state; ``failed`` is terminated with exit code 1."""
    documents = {
        "running": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "waiting": {"waiting": {"reason": "PodInitializing"}},
        "terminated": {"terminated": {"exitCode": 0}},
        "failed": {"terminated": {"exitCode": 1}},
    }
    return [{"name": f"c{number}", "state": documents[it]} for number, it in enumerate(states)]


def condition(kind: str, status: str, reason: str) -> Document:
    """Return a condition of a status."""
    when = "2026-01-01T00:00:00Z"
    message = "the message"
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": when,
    }
