"""The random pods of a trial, and what kubelet can do with them. Pure."""

import random
from dataclasses import dataclass
from typing import Any, Final

from gputopo.api.names import RESOURCE, SCHEDULER_NAME

NAMESPACE: Final = "gputopo-numa"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")
GPUS_PER_NUMA_NODE: Final = 4

_SHOW: Final = (
    'echo "$CUDA_VISIBLE_DEVICES"; echo "$GPUTOPO_NUMA_NODES"; '
    "grep Cpus_allowed_list /proc/self/status; sleep {seconds:g}"
)


@dataclass(frozen=True, slots=True)
class RandomPod:
    """A pod of a trial.

    Attributes:
        cpus: exclusive CPUs, 0 or 1: a machine with 2 CPUs has one of them.
        seconds: how long its program runs.
    """

    name: str
    gpus: int
    cpus: int
    seconds: float


def draw(number: int, rng: random.Random, *, with_cpus: float) -> RandomPod:
    """Return a pod with 1 to 8 GPUs, with the probability ``with_cpus`` of an exclusive CPU."""
    cpus = int(rng.random() < with_cpus)
    return RandomPod(f"p{number}", rng.randint(1, 8), cpus, round(rng.uniform(0.2, 1.5), 1))


def manifest(pod: RandomPod, image: str, node: str | None) -> dict[str, Any]:
    """Return the pod; it prints its GPUs, their NUMA nodes and its CPUs."""
    limits: dict[str, Any] = {RESOURCE: pod.gpus}
    if pod.cpus:
        limits |= {"cpu": pod.cpus, "memory": "16Mi"}
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", _SHOW.format(seconds=pod.seconds)],
        "resources": {"limits": limits},
    }
    spec = {
        "schedulerName": SCHEDULER_NAME,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        **({"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod.name}, "spec": spec}


def fits_ever(policy: str, pod: RandomPod) -> bool:
    """Return whether kubelet admits the pod on an idle node with two NUMA nodes of 4 GPUs.

    One NUMA node has enough CPUs for every pod. So with exclusive CPUs, the policies ``restricted``
    and ``single-numa-node`` want one NUMA node.
    """
    on_one = pod.gpus <= GPUS_PER_NUMA_NODE
    if policy == "single-numa-node":
        return on_one
    return policy != "restricted" or on_one or not pod.cpus


def kubelet_changes(policy: str, scope: str) -> dict[str, Any]:
    """Return the fields of KubeletConfiguration for a trial: one exclusive CPU, and a policy."""
    return {
        "cpuManagerPolicy": "static",
        "systemReserved": {"cpu": "500m"},
        "topologyManagerPolicy": policy,
        "topologyManagerScope": scope,
    }
