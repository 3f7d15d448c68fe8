"""The nodes, their GPUs, and the pods of the run. Pure."""

import random
from collections.abc import Mapping
from typing import Any

from gputopo.api.names import API_VERSION, RESOURCE
from gputopo.api.topology import to_spec
from gputopo.api.v1alpha1 import GPUTopologyStatus, ObservedGpu
from gputopo.catalogue import named

Object = dict[str, Any]

GPUS_PER_NODE = 8
LABEL = "gputopo.io/scale"
_TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
_WEIGHT_OF_SIZE = {1: 34, 2: 26, 3: 10, 4: 14, 5: 4, 6: 3, 7: 2, 8: 7}


def node(name: str) -> Object:
    """Return a node for kwok; without the label ``kubernetes.io/os`` no DaemonSet of ours fits."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", RESOURCE: str(GPUS_PER_NODE)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {LABEL: "node", "kubernetes.io/hostname": name},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": [_TAINT]},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def topology(name: str, server: str) -> tuple[Object, Object]:
    """Return a node's GPUTopology like the agent's first version: object and status."""
    found = named(server, node=name)
    body = {
        "apiVersion": API_VERSION,
        "kind": "GPUTopology",
        "metadata": {"name": name, "labels": {LABEL: "node"}},
        "spec": to_spec(found).to_json(),
    }
    status = GPUTopologyStatus(
        observed_generation=1,
        fingerprint=found.fingerprint,
        gpus=[ObservedGpu(uuid=gpu.uuid, healthy=True) for gpu in found.gpus],
    )
    return body, {"status": status.to_json()}


def sizes(count: int, *, mixed: bool, seed: int) -> list[int]:
    """Return the GPUs of each pod."""
    if not mixed:
        return [1] * count
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    return rng.choices(list(_WEIGHT_OF_SIZE), weights=list(_WEIGHT_OF_SIZE.values()), k=count)


def pod(name: str, gpus: int, scheduler: str) -> Object:
    """Return a pod that fits only on nodes of kwok."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
            "nodeSelector": {LABEL: "node"},
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {"limits": {RESOURCE: str(gpus)}},
                }
            ],
        },
    }


def wanted(pod: Mapping[str, Any]) -> int:
    """Return the number of requested GPUs of a pod of the run."""
    return int(pod["spec"]["containers"][0]["resources"]["limits"][RESOURCE])
