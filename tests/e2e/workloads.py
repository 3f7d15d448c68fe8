"""Manifests that the end-to-end tests create, and functions that read the objects."""

from collections.abc import Mapping, Sequence
from typing import Any

from gputopo.api.annotations import parse_gpus
from gputopo.api.names import API_VERSION, RESOURCE, SCHEDULER_NAME
from showcase.kubectl import Object

SLEEP = ["sleep", "infinity"]


def gpu_pod(
    name: str,
    gpus: int,
    *,
    image: str,
    node: str | None = None,
    annotations: Mapping[str, str] | None = None,
    scheduler: str = SCHEDULER_NAME,
    command: Sequence[str] = SLEEP,
) -> Object:
    """Return a Pod of one container that requests ``gpus`` GPUs."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {
            "schedulerName": scheduler,
            **pod_spec(image, node=node, command=command, gpus=gpus),
        },
    }


def gpu_job(name: str, gpus: int, *, image: str, node: str | None = None, **spec: Any) -> Object:
    """Return a GPUJob; ``spec`` adds or replaces fields, ``command`` is the container's."""
    command = spec.pop("command", SLEEP)
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUJob",
        "metadata": {"name": name},
        "spec": {
            "gpusPerReplica": gpus,
            "template": {"spec": pod_spec(image, node=node, command=command)},
            **spec,
        },
    }


def pod_spec(
    image: str, *, node: str | None, command: Sequence[str], gpus: int | None = None
) -> Object:
    """Return the spec of a pod that ends immediately on SIGTERM."""
    container: Object = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
    }
    if gpus is not None:
        container["resources"] = {"limits": {RESOURCE: str(gpus)}}
    return {
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"kubernetes.io/hostname": node} if node else {},
        "containers": [container],
    }


def uuids(pod: Object) -> tuple[str, ...]:
    """Return the GPUs that the extender wrote for the pod, in rank order."""
    gpus = parse_gpus(pod["metadata"].get("annotations", {}))
    return tuple(uuid for ids in gpus.containers.values() for uuid in ids) if gpus else ()


def phase(pod: Object) -> str:
    """Return the phase of a pod."""
    return str(pod["status"].get("phase", ""))
