"""The view of a pod that all components share.

A pod object of the API is thousands of bytes. A view keeps a few hundred of them, because the
extender holds the view of every GPU pod in the cluster.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from sys import intern
from typing import Any, Final, NamedTuple

from gputopo.api.names import GROUP, RESOURCE
from gputopo.topology.model import MAX_INDEX
from gputopo_kube.podmodel import (
    Container,
    ContainerResources,
    PodError,
    PodObject,
    parse_pod_object,
)
from gputopo_kube.podstatus import ENDED_PHASES

UNKNOWN_COUNT: Final = 1000
"""GPUs of a container whose quantity is not a plain number below this: more than any node has.

The API server accepts whole numbers only, and writes 1000 and more with a suffix ("1k"). No node
can take such a pod, so its exact quantity does not matter.
"""

_MOST_DIGITS = len(str(UNKNOWN_COUNT - 1))
_MOST_VERSION_DIGITS = 19


class PodKey(NamedTuple):
    """Namespace and name of a pod."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ContainerKind(StrEnum):
    """How long a container keeps its GPUs.

    An application container and a sidecar keep them until the pod ends. kubelet passes the GPUs of
    an ordinary init container on to the containers after it.
    """

    APPLICATION = "application"
    SIDECAR = "sidecar"
    INIT = "init"


@dataclass(frozen=True, slots=True)
class GpuContainer:
    """A container that requests GPUs.

    Attributes:
        gpus: at least 1; ``UNKNOWN_COUNT`` where the quantity cannot be used.
    """

    name: str
    gpus: int
    kind: ContainerKind = ContainerKind.APPLICATION

    @property
    def keeps_gpus(self) -> bool:
        """Whether it keeps its GPUs until the pod ends."""
        return self.kind is not ContainerKind.INIT


@dataclass(frozen=True, slots=True)
class PodView:
    """The fields of a pod that gputopo uses.

    Attributes:
        version: resource version, which every change increases; 0 where it is not a number.
        node: the node to which it is bound, None before.
        containers: those that request GPUs, in the order in which kubelet serves them: init
            containers (sidecars among them), then application containers.
        annotations: its ``gputopo.io/*`` annotations.
        deleting: whether it has a ``deletionTimestamp``.
        priority: scheduling priority; a pod with a lower one may be preempted for it.
        prefers_nodes: whether it prefers some of the nodes that it may have.
        preempts: whether other pods may be preempted for it.
        grouped: whether it belongs to a scheduling group.
        started: whether kubelet has reported that a container was started.
        stopped: whether kubelet has reported that no container runs any more.
        rejected: reason and message of a kubelet that did not admit it, None where it did.
        rejected_for_gpus: whether kubelet did not admit it because of the GPU resource, as far as
            its message shows.
    """

    uid: str
    key: PodKey
    version: int = 0
    node: str | None = None
    phase: str = "Pending"
    containers: tuple[GpuContainer, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    deleting: bool = False
    priority: int = 0
    prefers_nodes: bool = False
    preempts: bool = True
    grouped: bool = False
    started: bool = False
    stopped: bool = False
    rejected: str | None = None
    rejected_for_gpus: bool = False

    @property
    def namespace(self) -> str:
        """Namespace of the pod."""
        return self.key.namespace

    @property
    def name(self) -> str:
        """Name of the pod."""
        return self.key.name

    @property
    def live(self) -> bool:
        """Whether its phase is neither Succeeded nor Failed."""
        return self.phase not in ENDED_PHASES

    @property
    def running(self) -> bool:
        """Whether its phase is Running."""
        return self.phase == "Running"

    @property
    def gpu_keepers(self) -> tuple[GpuContainer, ...]:
        """The containers that get GPUs of their own, in rank order.

        These are the application containers, then the sidecars. Init containers borrow from them.
        """
        keepers = [each for each in self.containers if each.keeps_gpus]
        return tuple(sorted(keepers, key=lambda each: each.kind is ContainerKind.SIDECAR))

    @property
    def most_gpus(self) -> int:
        """The most GPUs that it can hold at one time, at most as many as a node can have.

        With a sidecar of 1 GPU, init containers of 2 and 4 and an application container of 3
        these are 1 + max(3, 4) = 5.
        """
        application, sidecars, largest_init = 0, 0, 0
        for each in self.containers:
            if each.kind is ContainerKind.APPLICATION:
                application += each.gpus
            elif each.kind is ContainerKind.SIDECAR:
                sidecars += each.gpus
            else:
                largest_init = max(largest_init, each.gpus)
        return min(sidecars + max(application, largest_init), MAX_INDEX + 1)


def parse_pod(document: Mapping[str, Any], resource: str = RESOURCE) -> PodView:
    """Return the view of a pod object.

    Args:
        document: the JSON of the pod.
        resource: extended resource that counts the GPUs.

    Raises:
        PodError: where the object is not a pod; the message names the field.
    """
    return view_of(parse_pod_object(document), resource)


def parse_gpu_pod(document: Mapping[str, Any], resource: str) -> PodView | None:
    """Return the view of a pod that requests GPUs, None for all other pods.

    Raises:
        PodError: where the object is not a pod, or its resource version is not a number.
    """
    if not _may_request(document, resource):
        return None
    pod = parse_pod(document, resource)
    if not pod.version:
        version = document["metadata"].get("resourceVersion")
        raise PodError(f"pod metadata.resourceVersion: {version!r} is not a number")
    return pod if pod.containers else None


def view_of(pod: PodObject, resource: str = RESOURCE) -> PodView:
    """Return the view of a parsed pod; ``resource`` counts the GPUs."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    # Many pods share these names: interned, each is in memory once.
    return PodView(
        uid=metadata.uid,
        key=PodKey(intern(metadata.namespace), metadata.name),
        version=version_number(metadata.resource_version),
        node=intern(spec.node_name) if spec.node_name else None,
        phase=intern(status.phase or "Pending"),
        containers=_gpu_containers(pod, resource),
        annotations={
            intern(name): text
            for name, text in (metadata.annotations or {}).items()
            if name.startswith(f"{GROUP}/")
        },
        deleting=metadata.deletion_timestamp is not None,
        priority=spec.priority or 0,
        prefers_nodes=spec.prefers_nodes,
        preempts=spec.preemption_policy != "Never",
        grouped=spec.scheduling_group is not None,
        started=status.has_started,
        stopped=status.has_stopped(len(spec.containers)),
        rejected=status.rejection,
        rejected_for_gpus=status.is_rejected_for(resource, spec.resources()),
    )


def version_number(text: str | None) -> int:
    """Return a resource version as a number, as Kubernetes has promised since 1.35; else 0."""
    return int(text) if text and _is_number(text, _MOST_VERSION_DIGITS) else 0


def gpu_count(quantity: object) -> int:
    """Return a quantity of GPUs as a number.

    >>> [gpu_count(quantity) for quantity in ("8", 8, "1k", "0.5")]
    [8, 8, 1000, 1000]
    """
    text = str(quantity)
    return int(text) if _is_number(text, _MOST_DIGITS) else UNKNOWN_COUNT


def _may_request(document: Mapping[str, Any], resource: str) -> bool:
    """Return False where no container names the resource: most pods of a cluster do not.

    It costs a tenth of parsing the pod. A malformed pod may request it: parsing rejects that pod.
    """
    try:
        spec = document["spec"]
        containers = (*spec["containers"], *(spec.get("initContainers") or ()))
        return any(
            resource in (amounts or ())
            for container in containers
            for amounts in (container.get("resources") or {}).values()
        )
    except (AttributeError, KeyError, TypeError):
        return True


def _is_number(text: str, most_digits: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= most_digits


def _gpu_containers(pod: PodObject, resource: str) -> tuple[GpuContainer, ...]:
    inits, applications = pod.spec.init_containers or (), pod.spec.containers
    return (
        *_requesting(inits, resource, ContainerKind.INIT),
        *_requesting(applications, resource, ContainerKind.APPLICATION),
    )


def _requesting(
    containers: Iterable[Container], resource: str, kind: ContainerKind
) -> Iterable[GpuContainer]:
    for each in containers:
        quantity = (each.resources or ContainerResources()).quantity(resource)
        count = 0 if quantity is None else gpu_count(quantity)
        if count:
            sidecar = kind is ContainerKind.INIT and each.restart_policy == "Always"
            yield GpuContainer(each.name, count, ContainerKind.SIDECAR if sidecar else kind)
