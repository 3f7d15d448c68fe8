"""Pods of the fault steps: jobs that only sleep or hold memory, and what takes up a node. Pure."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.names import API_VERSION
from gputopo.api.tuning import ResourcesMode
from learntest.manifests import Run
from resizetest import manifests
from resizetest.manifests import Sizing
from soaktest.client import Object

PROGRAM_PORT = 9090
_SLEEP = ["sleep", "86400"]
_PROGRAM = Path(__file__).with_name("memoryprogram.py")
_MODES = {True: ResourcesMode.PROPORTIONAL, False: ResourcesMode.FIXED}


@dataclass(frozen=True, slots=True)
class Worker:
    """A pod of one step that gputopo sizes by its share.

    Attributes:
        memory: request and limit of memory at its creation; None for a request of 64 MiB and a
            limit of 256 MiB.
        burst_milli_cpu: how far the CPU limit is above the request at its creation.
        profile: GPUProfile that describes its data set; None if its memory is not sized.
        holds: whether it holds memory on request, and otherwise sleeps.
        sized: whether gputopo sizes it.
    """

    name: str
    node: str
    gpus: int
    milli_cpu: int = 50
    memory: str | None = None
    most_milli_cpu: int | None = None
    burst_milli_cpu: int = 0
    profile: str | None = None
    holds: bool = False
    sized: bool = True

    @property
    def run(self) -> Run:
        """What the manifests of all experiments are made of."""
        measuring = MeasuringRequest(profile=self.profile)
        return Run(self.name, {}, self.node, self.gpus, self.milli_cpu, measuring=measuring)

    @property
    def sizing(self) -> Sizing:
        """Its mode and bounds."""
        return Sizing(_MODES[self.sized], self.most_milli_cpu, self.memory)


def job(worker: Worker, image: str) -> Object:
    """Return the worker as a GPUJob."""
    made = manifests.job(worker.run, worker.sizing, image)
    _set_command(made["spec"]["template"]["spec"], worker)
    return made


def pod(worker: Worker, image: str) -> Object:
    """Return the worker as a plain pod, which restarts its container."""
    made = manifests.pod(worker.run, worker.sizing, image)
    _set_command(made["spec"], worker)
    [container] = made["spec"]["containers"]
    limit = worker.milli_cpu + worker.burst_milli_cpu
    container["resources"]["limits"]["cpu"] = f"{limit}m"
    return made


def filler(name: str, node: str, memory: int, image: str) -> Object:
    """Return a pod of the default scheduler that requests memory and uses none."""
    made = manifests.filler(name, node, 1, image)
    made["spec"]["containers"][0]["resources"]["requests"]["memory"] = str(memory)
    return made


def static_pod(name: str, milli_cpu: int, image: str) -> Object:
    """Return a static pod of a namespace that does not exist.

    So kubelet creates no mirror pod, and neither kube-scheduler nor gputopo sees its request.
    """
    made = manifests.filler(name, "", milli_cpu, image)
    del made["spec"]["nodeSelector"]
    made["metadata"]["namespace"] = "gputopo-does-not-exist"
    return made


def profile(name: str) -> Object:
    """Return a GPUProfile with a data set that no node can cache."""
    dataset = {"size": "10Ti", "storageMBps": 100, "bytesPerStep": 1_000_000}
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUProfile",
        "metadata": {"name": name},
        "spec": {"memoryFloor": "64Mi", "dataset": dataset},
    }


def quota(milli_cpu: int) -> Object:
    """Return a ResourceQuota for the CPU limits of all pods of the namespace."""
    return {"metadata": {"name": "cpus"}, "spec": {"hard": {"limits.cpu": f"{milli_cpu}m"}}}


def limit_range(milli_cpu: int) -> Object:
    """Return a LimitRange for the CPUs of each container."""
    limit: dict[str, Any] = {"type": "Container", "max": {"cpu": f"{milli_cpu}m"}}
    # Without defaults, the maximum would become the limit of containers that have none.
    limit |= {"default": {"cpu": "10m"}, "defaultRequest": {"cpu": "1m"}}
    return {"metadata": {"name": "cpus"}, "spec": {"limits": [limit]}}


def _set_command(spec: Object, worker: Worker) -> None:
    [container] = spec["containers"]
    container["command"] = ["python3", "-c", _PROGRAM.read_text()] if worker.holds else _SLEEP
