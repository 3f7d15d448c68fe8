"""The objects that are created and timed. Pure."""

from typing import Any

from gputopo.api.names import API_VERSION, RESOURCE, SCHEDULER_NAME

Object = dict[str, Any]

NAMESPACE = "gputopo-latency"
_CORE = f"/api/v1/namespaces/{NAMESPACE}"
PODS = f"{_CORE}/pods"
COLLECTIONS = {
    "Pod": PODS,
    "Job": f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs",
    "GPUJob": f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/gpujobs",
}
_COMMAND = ["sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"]


def plain_pod(name: str, image: str) -> Object:
    """Return a pod without GPUs, for the cluster's own scheduler."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": _spec(image)}


def gpu_pod(name: str, image: str) -> Object:
    """Return a pod with one GPU."""
    pod = plain_pod(name, image)
    pod["spec"]["schedulerName"] = SCHEDULER_NAME
    pod["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: "1"}}
    return pod


def plain_job(name: str, image: str) -> Object:
    """Return a Job of one pod without GPUs."""
    template = {"spec": {**_spec(image), "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template},
    }


def gpu_job(name: str, image: str) -> Object:
    """Return a GPUJob of one pod with one GPU."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUJob",
        "metadata": {"name": name},
        "spec": {"gpusPerReplica": 1, "template": {"spec": _spec(image)}},
    }


def _spec(image: str) -> Object:
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": _COMMAND,
    }
    return {"terminationGracePeriodSeconds": 1, "containers": [container]}
