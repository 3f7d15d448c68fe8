"""A pod of this node, trimmed to what the agent needs. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gputopo.api.annotations import AnnotationError, parse_gpus
from gputopo.api.names import GPUS_ANNOTATION, GROUP, SCHEDULER_NAME
from gputopo.topology.model import GpuUuid

_TERMINAL = frozenset({"Succeeded", "Failed"})
_MORE_THAN_ANY_NODE_HAS = 1000


class PodKey(NamedTuple):
    """Namespace and name: all that kubelet's books say of a pod."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PlacementError(ValueError):
    """A pod whose placement annotation is missing, unreadable or not its own."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The GPUs that one container asks for, at least one."""

    container: str
    gpus: int


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod bound to this node.

    Attributes:
        live: False once its phase is Succeeded or Failed.
        leaving: whether it is being deleted.
        asks: application containers that ask for our GPUs, in the order of the spec.
        init_asks: init containers (sidecars too) that ask for them.
        annotations: its ``gputopo.io/*`` annotations.
    """

    uid: str
    key: PodKey
    node: str
    live: bool
    leaving: bool
    asks: tuple[Ask, ...]
    init_asks: tuple[Ask, ...]
    annotations: Mapping[str, str]


def record_of(document: Mapping[str, Any], resource: str) -> PodRecord:
    """Return the record of a pod as the API server writes it."""
    metadata, spec = document["metadata"], document.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    return PodRecord(
        uid=metadata["uid"],
        key=PodKey(metadata["namespace"], metadata["name"]),
        node=spec.get("nodeName") or "",
        live=(document.get("status") or {}).get("phase") not in _TERMINAL,
        leaving="deletionTimestamp" in metadata,
        asks=_asks(spec.get("containers"), resource),
        init_asks=_asks(spec.get("initContainers"), resource),
        annotations={
            name: text for name, text in annotations.items() if name.startswith(f"{GROUP}/")
        },
    )


def placed_gpus(pod: PodRecord, node: str) -> Mapping[str, tuple[GpuUuid, ...]]:
    """Return the GPUs that the extender chose for each container, in rank order.

    Raises:
        PlacementError: where it did not choose for this very pod on this node; the message
            says what to do.
    """
    try:
        annotation = parse_gpus(pod.annotations)
    except AnnotationError as error:
        raise PlacementError(f"pod {pod.key}: annotation {error}") from None
    if annotation is None:
        raise PlacementError(
            f"pod {pod.key} was not placed by gputopo: set schedulerName: {SCHEDULER_NAME}"
        )
    for field, said, own in (("uid", annotation.uid, pod.uid), ("node", annotation.node, node)):
        if said != own:
            raise PlacementError(
                f"pod {pod.key}: annotation {GPUS_ANNOTATION}: {field}: {said} is not the pod's "
                f"own {own}; leave this annotation to the scheduler"
            )
    return {
        container: tuple(GpuUuid(uuid) for uuid in uuids)
        for container, uuids in annotation.containers.items()
    }


def _asks(containers: list[Mapping[str, Any]] | None, resource: str) -> tuple[Ask, ...]:
    counted = ((container["name"], _count(container, resource)) for container in containers or ())
    return tuple(Ask(name, gpus) for name, gpus in counted if gpus)


def _count(container: Mapping[str, Any], resource: str) -> int:
    # The API server admits whole numbers only, and limits equal to requests. It writes 1000 and
    # more with a suffix ("1k"); kubelet refuses such a pod, which its node's API still shows.
    resources = container.get("resources") or {}
    for kind in ("requests", "limits"):
        if (quantity := (resources.get(kind) or {}).get(resource)) is not None:
            text = str(quantity)
            return int(text) if text.isdecimal() else _MORE_THAN_ANY_NODE_HAS
    return 0
