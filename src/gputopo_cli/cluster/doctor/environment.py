"""Check pods for environment variables that override the variables from the node agent.

The check cannot see variables of envFrom and of images, because they are not in the pod's spec. It
cannot see the configuration of NVIDIA's runtime, because that is a file on the node.
"""

from collections.abc import Iterator
from typing import Final

from gputopo.api.names import CUDA_VISIBLE_DEVICES, HIDING_VALUES, NVIDIA_VISIBLE_DEVICES
from gputopo_cli.cluster.doctor import installed
from gputopo_cli.cluster.doctor.model import (
    CheckedCluster,
    Finding,
    ObjectKind,
    error,
    object_name,
    warning,
)
from gputopo_kube.document import Document

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def check_environment(snapshot: CheckedCluster) -> Iterator[Finding]:
    """Yield pods that select GPUs by environment variables, on nodes with a GPUTopology."""
    nodes = {topology["metadata"]["name"] for topology in snapshot[ObjectKind.TOPOLOGIES]}
    resource = installed.gpu_resource(snapshot)
    parts = ("deviceplugin", "mps")  # they need all GPUs
    own = [pod for part in parts for pod in installed.find_parts(snapshot, ObjectKind.PODS, part)]
    for pod in snapshot[ObjectKind.PODS]:
        ended = (pod.get("status") or {}).get("phase") in _ENDED
        if pod["spec"].get("nodeName") in nodes and not ended and pod not in own:
            yield from _overrides(pod, resource)


def _overrides(pod: Document, resource: str) -> Iterator[Finding]:
    for container in _containers(pod):
        has_gpus = resource in ((container.get("resources") or {}).get("limits") or {})
        for entry in container.get("env") or ():
            name, value = entry["name"], entry.get("value") or ""
            hides = "valueFrom" not in entry and value in HIDING_VALUES
            if name == NVIDIA_VISIBLE_DEVICES and not hides:
                source = "a value by valueFrom" if "valueFrom" in entry else repr(value)
                problem = (
                    f"container {container['name']} sets {name} to {source}: if NVIDIA's runtime "
                    "accepts this variable, the container sees GPUs of other pods"
                )
                todo = (
                    "remove the variable, unless the container monitors all GPUs;"
                    " docs/operate/runtime.md"
                    " has the settings of the runtime"
                )
                yield (error if has_gpus else warning)(object_name("Pod", pod), problem, todo)
            elif name == CUDA_VISIBLE_DEVICES and has_gpus:
                problem = (
                    f"container {container['name']} sets {name}: this replaces gputopo's value, "
                    "which lists the GPUs in rank order"
                )
                yield error(object_name("Pod", pod), problem, "remove the variable from the pod")


def _containers(pod: Document) -> Iterator[Document]:
    for field in _CONTAINERS:
        yield from pod["spec"].get(field) or ()
