"""The random pods of a trial. Pure."""

import random
from dataclasses import dataclass
from typing import Any, Final

from gputopo.api.names import RESOURCE, SCHEDULER_NAME, SHARING_MEMORY_ANNOTATION
from gputopo.api.shares import share_resource

NAMESPACE: Final = "gputopo-sharing"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLIENT: Final = "/opt/trainer/fakemps/client.py"

_SHOW: Final = 'echo "$CUDA_VISIBLE_DEVICES"; echo "$CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"; '
_WHOLE: Final = _SHOW + "sleep {seconds:g}"
# A client runs until it is ended: by `timeout`, whose status is then 124, or by an error.
_SHARED: Final = (
    _SHOW + "timeout {seconds:g} python3 -u " + CLIENT + " --memory {memory}M; test $? = 124"
)


@dataclass(frozen=True, slots=True)
class RandomPod:
    """A pod of a trial.

    Attributes:
        gpus: number of whole GPUs; 0 for a share.
        memory_mib: declared GPU memory of a share; 0 for the default.
        seconds: how long its program runs.
    """

    name: str
    gpus: int
    memory_mib: int
    seconds: float


def draw(number: int, rng: random.Random, *, sharing: float) -> RandomPod:
    """Return a pod with a share, with the probability ``sharing``, or with 1 to 4 whole GPUs."""
    seconds = round(rng.uniform(1.0, 6.0), 1)
    if rng.random() < sharing:
        return RandomPod(f"s{number}", 0, rng.choice((0, 512, 2048, 6144, 12288)), seconds)
    return RandomPod(f"w{number}", rng.randint(1, 4), 0, seconds)


def manifest(pod: RandomPod, image: str) -> dict[str, Any]:
    """Return the pod; it prints its GPUs and its memory limit, and a share uses its memory."""
    resource = RESOURCE if pod.gpus else share_resource(RESOURCE)
    used = pod.memory_mib or 256
    command = (_WHOLE if pod.gpus else _SHARED).format(seconds=pod.seconds, memory=used)
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command],
        "resources": {"limits": {resource: pod.gpus or 1}},
    }
    annotations = {SHARING_MEMORY_ANNOTATION: f"{pod.memory_mib}Mi"} if pod.memory_mib else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name, "annotations": annotations},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 3,
            "containers": [container],
        },
    }
