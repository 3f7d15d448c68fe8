"""The pods and GPUJobs in the form that the page keeps."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gputopo_explain.placed_pods import PlacedPod, parse_placed_pod
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import parse_gpu_pod

_BULKY_OF_SPEC: Final = frozenset({"volumes", "imagePullSecrets", "hostAliases"})
_VOLUMES_OF_NODES: Final = ("persistentVolumeClaim", "ephemeral")
"""Types of volumes that limit the nodes of a pod."""
_BULKY_OF_CONTAINER: Final = frozenset(
    {
        *("env", "envFrom", "volumeMounts", "volumeDevices", "command", "args", "lifecycle"),
        *("livenessProbe", "readinessProbe", "startupProbe", "securityContext"),
    }
)


@dataclass(frozen=True, slots=True)
class ShownPod:
    """A pod that requests GPUs.

    Attributes:
        placed: the pod with its chosen GPUs.
        document: the object without fields that the page does not need, for example environments.
    """

    placed: PlacedPod
    document: Document

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.placed.view.key

    @property
    def node(self) -> str | None:
        """The node to which the pod is bound; None for a waiting pod."""
        return self.placed.view.node


def parse_watched_pod(document: Document, resource: str) -> tuple[ObjectKey, ShownPod | None]:
    """Return the key of a pod, and the pod if it requests GPUs and is valid, else None."""
    key = ObjectKey.of(document)
    try:
        if parse_gpu_pod(document, resource) is None:
            return key, None
        return key, ShownPod(parse_placed_pod(document, resource), trimmed(document))
    except PodError:
        return key, None


def trimmed(document: Mapping[str, Any]) -> Document:
    """Return a pod without its bulky fields; commands and environments may also be secret."""
    spec = {name: it for name, it in document["spec"].items() if name not in _BULKY_OF_SPEC}
    for containers in ("containers", "initContainers"):
        if spec.get(containers):
            spec[containers] = [_without(each, _BULKY_OF_CONTAINER) for each in spec[containers]]
    if kept := [*_volumes_of_nodes(document["spec"])]:
        spec["volumes"] = kept
    metadata = _without(document["metadata"], frozenset({"managedFields"}))
    return {**document, "metadata": metadata, "spec": spec}


def _volumes_of_nodes(spec: Mapping[str, Any]) -> Iterator[Document]:
    """Yield the volumes that limit the nodes, with their type and without its content."""
    for volume in spec.get("volumes") or ():
        for kind in _VOLUMES_OF_NODES:
            if volume.get(kind):
                yield {"name": volume.get("name"), kind: {"omitted": True}}


def _without(fields: Mapping[str, Any], names: frozenset[str]) -> Document:
    return {name: value for name, value in fields.items() if name not in names}
