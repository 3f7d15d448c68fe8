"""Manifests of pods and GPUJobs that gputopo sizes, and of other pods beside them. Pure."""

from dataclasses import dataclass

from gputopo.api.names import TUNED_LABEL
from gputopo.api.tuning import ResourcesMode, TuningRequest, format_tuning_request
from learntest import manifests
from learntest.manifests import Run
from soaktest.client import Object

_FILLER_MEMORY = "16Mi"


@dataclass(frozen=True, slots=True)
class Sizing:
    """Who decides about the CPUs and the memory of a run.

    The least CPUs of the run are ``Run.milli_cpu``.

    Attributes:
        mode: ``resources.mode``.
        most_milli_cpu: most CPUs that it may get; None for no bound.
        memory: request and limit of memory at its creation; None for a request of 64 MiB and a
            limit of 256 MiB. With CPU request = limit, the pod is then Burstable.
        most_memory: most bytes of memory that it may get; None for no bound.
    """

    mode: ResourcesMode = ResourcesMode.AUTO
    most_milli_cpu: int | None = None
    memory: str | None = None
    most_memory: int | None = None


def pod(run: Run, sizing: Sizing, image: str) -> Object:
    """Return the run as a plain pod, which names its mode in an annotation."""
    made = manifests.pod(run, image)
    request = TuningRequest(sizing.mode, sizing.most_milli_cpu, sizing.most_memory)
    made["metadata"]["annotations"] |= format_tuning_request(request)
    if sizing.mode is not ResourcesMode.FIXED:
        made["metadata"]["labels"] = {TUNED_LABEL: "true"}
    _set_memory(made["spec"], sizing)
    return made


def job(run: Run, sizing: Sizing, image: str) -> Object:
    """Return the run as a GPUJob."""
    made = manifests.job(run, image)
    _set_memory(made["spec"]["template"]["spec"], sizing)
    if sizing.mode is not ResourcesMode.FIXED:
        made["spec"]["resources"] = _resources(run, sizing)
    return made


def filler(name: str, node: str, milli_cpu: int, image: str) -> Object:
    """Return a pod of the default scheduler that requests CPUs of a node and does nothing.

    Args:
        name: of the pod.
        node: its node.
        milli_cpu: its request.
        image: with ``sleep``.
    """
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "86400"],
        "resources": {"requests": {"cpu": f"{milli_cpu}m", "memory": _FILLER_MEMORY}},
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _resources(run: Run, sizing: Sizing) -> Object:
    least = {"cpu": f"{run.milli_cpu}m"}
    most = {}
    if sizing.memory is not None:
        least["memory"] = sizing.memory
    if sizing.most_milli_cpu is not None:
        most["cpu"] = f"{sizing.most_milli_cpu}m"
    if sizing.most_memory is not None:
        most["memory"] = str(sizing.most_memory)
    resources: Object = {"mode": sizing.mode.value, "min": least}
    return resources | ({"max": most} if most else {})


def _set_memory(spec: Object, sizing: Sizing) -> None:
    if sizing.memory is None:
        return
    for amounts in spec["containers"][0]["resources"].values():
        amounts["memory"] = sizing.memory
