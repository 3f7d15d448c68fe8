"""Pods that use GPUs during the whole run, and pods that are created in each state. Pure."""

from typing import Any

from gputopo.api.names import API_VERSION, RESOURCE, SCHEDULER_NAME, SENSITIVITY_ANNOTATION

Object = dict[str, Any]

NAMESPACE = "gputopo-upgrade"
KEPT = "kept"
"""Value of the label ``run`` of the pods that must survive."""

POD_COUNT = 8
_SLEEP = ["sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"]
_PODS = (1, 2, 3)
_REPLICAS, _GPUS_OF_REPLICA = 2, 1
_JOBS = {"kept-ring": (2, "Ring"), "kept-tree": (2, "Tree"), "kept-all": (2, "AllToAll")}


def kept_workloads(image: str) -> list[Object]:
    """Return three pods, a Deployment with two pods and three GPUJobs: 14 GPUs in 8 pods."""
    return [
        *(pod(f"kept-{gpus}", gpus, image, KEPT) for gpus in _PODS),
        deployment("kept", _REPLICAS, _GPUS_OF_REPLICA, image, KEPT),
        *(job(name, gpus, pattern, image, KEPT) for name, (gpus, pattern) in _JOBS.items()),
    ]


def new_workloads(image: str, run: str) -> list[Object]:
    """Return a pod and a GPUJob that are created in one state: 5 GPUs in 2 pods."""
    return [pod(f"{run}-pod", 2, image, run), job(f"{run}-job", 3, "Ring", image, run)]


def transition_workloads(image: str, run: str) -> list[Object]:
    """Return three pods of 1 GPU that are created while Helm replaces the components.

    A Deployment creates another pod if kubelet rejects one, because its node has no agent for some
    seconds.
    """
    return [deployment(run, 3, 1, image, run)]


def pod(name: str, gpus: int, image: str, run: str) -> Object:
    """Return a pod that runs until SIGTERM."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"run": run}},
        "spec": {**_spec(image, gpus), "schedulerName": SCHEDULER_NAME},
    }


def deployment(name: str, replicas: int, gpus: int, image: str, run: str) -> Object:
    """Return a Deployment whose pods run until SIGTERM."""
    labels = {"run": run, "deployment": name}
    template = {
        "metadata": {"labels": labels, "annotations": {SENSITIVITY_ANNOTATION: "Insensitive"}},
        "spec": {**_spec(image, gpus), "schedulerName": SCHEDULER_NAME},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def job(name: str, gpus: int, pattern: str, image: str, run: str) -> Object:
    """Return a GPUJob whose pod runs until SIGTERM."""
    spec = _spec(image, None)
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "gpusPerReplica": gpus,
            "communication": {"pattern": pattern},
            "template": {"metadata": {"labels": {"run": run}}, "spec": spec},
        },
    }


def _spec(image: str, gpus: int | None) -> Object:
    container: Object = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": _SLEEP,
    }
    if gpus is not None:
        container["resources"] = {"limits": {RESOURCE: str(gpus)}}
    return {"terminationGracePeriodSeconds": 1, "containers": [container]}
