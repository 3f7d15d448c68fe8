"""A pod of this node, trimmed to what the agent needs. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gputopo.api.annotations import AnnotationError, parse_gpus
from gputopo.api.names import GPUS_ANNOTATION, GROUP, SCHEDULER_NAME
from gputopo.errors import InvalidInputError
from gputopo.topology.model import GpuUuid

_TERMINAL = frozenset({"Succeeded", "Failed"})
_MORE_THAN_ANY_NODE_HAS = 1000
_MOST_DIGITS = 9
_MOST_VERSION_DIGITS = 19


class PodKey(NamedTuple):
    """Namespace and name: all that kubelet's books say of a pod."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PlacementError(InvalidInputError):
    """A pod whose placement annotation is missing, unreadable or not its own."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The GPUs that one container asks for, at least one.

    Attributes:
        borrows: whether it is an ordinary init container. Kubelet hands its GPUs on to the
            containers after it, so they are a part of what the next one that keeps its GPUs
            (a sidecar or an application container) was given.
    """

    container: str
    gpus: int
    borrows: bool = False


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod bound to this node.

    Attributes:
        live: False once its phase is Succeeded or Failed.
        leaving: whether it is being deleted.
        asks: containers that ask for our GPUs, in the order in which kubelet serves them: init
            containers (sidecars among them), then application containers.
        annotations: its ``gputopo.io/*`` annotations.
        running: whether its phase is Running: kubelet has admitted it.
        resource_version: of this state of the pod; 0 where it is not a number.
    """

    uid: str
    key: PodKey
    node: str
    live: bool
    leaving: bool
    asks: tuple[Ask, ...]
    annotations: Mapping[str, str]
    running: bool = False
    resource_version: int = 0


@dataclass(frozen=True, slots=True)
class PodsVersion:
    """How far the changes of this node's pods are known, as resource versions.

    Attributes:
        newest: of the list, or of the newest change since.
        needed: of the newest change that a published status must account for: a pod with GPUs
            ended or was deleted, or changes may have been missed.
    """

    newest: int
    needed: int

    def later(self, version: int) -> "PodsVersion":
        """Return the version after a change that no status must account for.

        Versions go back when etcd is restored from a snapshot.
        """
        return PodsVersion(version, min(version, self.needed))


def record_of(document: Mapping[str, Any], resource: str) -> PodRecord:
    """Return the record of a pod as the API server writes it."""
    metadata, spec = document["metadata"], document.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    phase = (document.get("status") or {}).get("phase")
    asks = [
        _ask(container, resource, init=init)
        for kind, init in (("initContainers", True), ("containers", False))
        for container in spec.get(kind) or ()
    ]
    return PodRecord(
        uid=metadata["uid"],
        key=PodKey(metadata["namespace"], metadata["name"]),
        node=spec.get("nodeName") or "",
        live=phase not in _TERMINAL,
        leaving="deletionTimestamp" in metadata,
        asks=tuple(ask for ask in asks if ask.gpus),
        annotations={
            name: text for name, text in annotations.items() if name.startswith(f"{GROUP}/")
        },
        running=phase == "Running",
        resource_version=version_number(metadata.get("resourceVersion")),
    )


def version_number(text: str | None) -> int:
    """Return a resource version as a number, as Kubernetes has promised since 1.35; else 0."""
    return int(text) if text and text.isdecimal() and len(text) <= _MOST_VERSION_DIGITS else 0


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


def keeper_of(pod: PodRecord, container: str) -> Ask | None:
    """Return the container whose GPUs ``container`` uses: its own, or those of the next keeper.

    None where no container after an ordinary init container keeps any, or it asks for none.
    """
    names = [ask.container for ask in pod.asks]
    if container not in names:
        return None
    return next((ask for ask in pod.asks[names.index(container) :] if not ask.borrows), None)


def entitled_gpus(pod: PodRecord, container: str, node: str) -> tuple[GpuUuid, ...]:
    """Return the GPUs out of which a container may get its own, in rank order.

    They are its own, all of them, or for an ordinary init container those that it borrows from.

    Raises:
        PlacementError: as ``placed_gpus`` does, and where there is nothing to borrow from.
    """
    ask = next(ask for ask in pod.asks if ask.container == container)
    keeper = keeper_of(pod, container)
    if keeper is None or ask.gpus > keeper.gpus:
        later = f"container {keeper.container} keeps {keeper.gpus}" if keeper else "none keeps any"
        raise PlacementError(
            f"pod {pod.key}: init container {container} asks for {ask.gpus} GPUs, and of the "
            f"containers after it {later}: ask for no more than the next one that keeps its GPUs"
        )
    gpus = placed_gpus(pod, node).get(keeper.container, ())
    if len(set(gpus)) != keeper.gpus:
        raise PlacementError(
            f"pod {pod.key}: container {keeper.container} asks for {keeper.gpus} GPUs and was "
            f"given {len(set(gpus))}"
        )
    return gpus


def _ask(container: Mapping[str, Any], resource: str, *, init: bool) -> Ask:
    sidecar = container.get("restartPolicy") == "Always"
    return Ask(container["name"], _count(container, resource), borrows=init and not sidecar)


def _count(container: Mapping[str, Any], resource: str) -> int:
    # The API server admits whole numbers only, and limits equal to requests. It writes 1000 and
    # more with a suffix ("1k"); kubelet refuses such a pod, which its node's API still shows.
    resources = container.get("resources") or {}
    for kind in ("requests", "limits"):
        if (quantity := (resources.get(kind) or {}).get(resource)) is not None:
            text = str(quantity)
            plain = text.isdecimal() and len(text) <= _MOST_DIGITS
            return int(text) if plain else _MORE_THAN_ANY_NODE_HAS
    return 0
