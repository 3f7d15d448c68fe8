"""Manifests of pods and GPUJobs that request GPUs. Pure."""

from typing import Any

from gputopo.api.names import API_VERSION, RESOURCE, SCHEDULER_NAME

Object = dict[str, Any]

_LONG_GRACE_SECONDS = 600
_IGNORES_SIGTERM = ["sh", "-c", "trap '' TERM; sleep infinity"]
# Ends at once when it gets SIGTERM, and holds its GPUs until then.
_UNTIL_SIGTERM = ["sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"]


def pod(
    name: str, gpus: int, image: str, annotations: dict[str, str], node: str | None = None
) -> Object:
    """Return a pod that runs until SIGTERM."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "terminationGracePeriodSeconds": 2,
            "nodeSelector": {"kubernetes.io/hostname": node} if node else {},
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": _UNTIL_SIGTERM,
                    "resources": {"limits": {RESOURCE: str(gpus)}},
                }
            ],
        },
    }


def stubborn_pod(
    name: str, gpus: int, image: str, annotations: dict[str, str], node: str | None = None
) -> Object:
    """Return a pod that ignores SIGTERM and has ten minutes to end.

    Without ``Never``, a container that ended before kubelet knew of the deletion would start again.
    """
    made = pod(name, gpus, image, annotations, node)
    made["spec"]["restartPolicy"] = "Never"
    made["spec"]["terminationGracePeriodSeconds"] = _LONG_GRACE_SECONDS
    made["spec"]["containers"][0]["command"] = _IGNORES_SIGTERM
    return made


def job(name: str, gpus: int, image: str, seconds: float, pattern: str) -> Object:
    """Return a GPUJob of one pod that succeeds after some seconds."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", f"trap 'exit 1' TERM; sleep {seconds:.1f} & wait"],
    }
    template = {"spec": {"terminationGracePeriodSeconds": 2, "containers": [container]}}
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUJob",
        "metadata": {"name": name},
        "spec": {
            "gpusPerReplica": gpus,
            "communication": {"pattern": pattern},
            "template": template,
        },
    }
