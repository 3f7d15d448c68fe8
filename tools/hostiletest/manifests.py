"""What a hostile tenant creates and writes. Pure."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from ensembletest import members
from ensembletest.members import TrueMember
from gputopo.api.names import (
    PROFILE_ANNOTATION,
    RESOURCE,
    RESOURCES_MODE_ANNOTATION,
    SCHEDULER_NAME,
    SHARING_MEMORY_ANNOTATION,
    TUNED_LABEL,
)
from gputopo.api.profiling import CpuAmounts, ProfilingState
from gputopo.api.shares import share_resource
from gputopo.runtime.times import timestamp
from soaktest.client import Object

MOST_MILLI_CPU: Final = 10**9
MEMORY: Final = "2Gi"
TOO_MUCH_MEMORY: Final = "1000Gi"
HELD_FILES: Final = ("fifo", "zero", "folder", "large", "silent")
"""What takes the place of a file in the pipe folder, see ``programs/hold.py``."""

_PROGRAMS: Final = Path(__file__).with_name("programs")
_SLEEP: Final = ("sleep", "infinity")


def pod(
    name: str, image: str, node: str, *, resource: str = "", command: Sequence[str] = _SLEEP
) -> Object:
    """Return a pod of one container that requests 1 of ``resource``, or no GPU."""
    container: Object = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "resources": {"limits": {resource: "1"}} if resource else {},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {}},
        "spec": {
            "schedulerName": SCHEDULER_NAME if resource else "default-scheduler",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [container],
        },
    }


def sized_pod(name: str, image: str, node: str) -> Object:
    """Return a pod without GPUs that requests almost no CPU, and asks gputopo to size it."""
    made = pod(name, image, node)
    made["metadata"]["annotations"] = {RESOURCES_MODE_ANNOTATION: "Proportional"}
    made["metadata"]["labels"] = {TUNED_LABEL: "true"}
    amounts = {"cpu": "1m", "memory": "16Mi"}
    made["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return made


def profiling_state(uid: str, now: datetime) -> str:
    """Return the operator's record of a measurement that has taken all CPUs from a pod."""
    amounts = CpuAmounts(request=MOST_MILLI_CPU, limit=MOST_MILLI_CPU)
    state = ProfilingState(
        uid=uid,
        container="main",
        original=amounts,
        most_milli_cpu=MOST_MILLI_CPU,
        started=timestamp(now),
        last=amounts,
        target=amounts,
        since=timestamp(now),
    )
    return state.dump()


def measured_pod(name: str, image: str, node: str) -> Object:
    """Return a pod with a GPU and the name of a GPUProfile."""
    made = pod(name, image, node, resource=RESOURCE)
    made["metadata"]["annotations"] = {PROFILE_ANNOTATION: "first"}
    return made


def sharing_pod(name: str, image: str, node: str, program: str, *arguments: str) -> Object:
    """Return a pod with a share of a GPU that runs one of the programs, or sleeps (``""``)."""
    command = (
        ("python3", "-u", "-c", (_PROGRAMS / f"{program}.py").read_text(), *arguments)
        if program
        else _SLEEP
    )
    made = pod(name, image, node, resource=share_resource(RESOURCE), command=command)
    made["metadata"]["annotations"] = {SHARING_MEMORY_ANNOTATION: MEMORY}
    return made


def ensemble(name: str, image: str, most_gpus: int, node: str = "") -> Object:
    """Return a GPUEnsemble whose three members use up to ``most_gpus`` GPUs."""
    trained = [TrueMember(f"m{number}", 8.0, 100_000) for number in range(min(3, most_gpus))]
    made = members.manifest(name, trained, image, maxGPUs=most_gpus, itemsPerEpoch=1)
    for member in made["spec"]["members"] if node else ():
        template: Any = member["jobTemplate"]["spec"]["template"]
        template["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return made
