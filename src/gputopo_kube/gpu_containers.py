"""The containers of a pod that request GPUs, and how many GPUs each of them requests."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gputopo.api.shares import share_resource
from gputopo_kube.podmodel import Container, PodObject
from gputopo_kube.podstatus import ContainerResources

UNKNOWN_COUNT: Final = 1000
"""Stands for a quantity of GPUs that is not a plain number below 1000.

The API server accepts integers only, and writes 1000 and more with a suffix ("1k"). No node has so
many GPUs, so the exact quantity does not matter.
"""

_MOST_DIGITS = len(str(UNKNOWN_COUNT - 1))


class ContainerKind(StrEnum):
    """The kind of a container, which decides how long the container keeps its GPUs.

    Application containers and sidecars keep their GPUs until the pod ends. An ordinary init
    container ends earlier, and kubelet gives its GPUs to containers that start later.
    """

    APPLICATION = "application"
    SIDECAR = "sidecar"
    INIT = "init"


@dataclass(frozen=True, slots=True)
class GpuContainer:
    """A container that requests GPUs.

    Attributes:
        gpus: number of requested GPUs, at least 1; ``UNKNOWN_COUNT`` if the quantity is not valid.
        shared: whether the container requests shares of GPUs and no whole GPUs.
    """

    name: str
    gpus: int
    kind: ContainerKind = ContainerKind.APPLICATION
    shared: bool = False

    @property
    def keeps_gpus(self) -> bool:
        """Whether the container keeps its GPUs until the pod ends."""
        return self.kind is not ContainerKind.INIT


def gpu_containers(pod: PodObject, resource: str) -> tuple[GpuContainer, ...]:
    """Return the containers that request GPUs or shares, in the order in which kubelet allocates.

    A container that requests both is in the result twice.
    """
    inits, applications = pod.spec.init_containers or (), pod.spec.containers
    return (
        *_requesting(inits, resource, ContainerKind.INIT),
        *_requesting(applications, resource, ContainerKind.APPLICATION),
    )


def gpu_count(quantity: object) -> int:
    """Return a quantity of 1 to 3 digits as a number, or ``UNKNOWN_COUNT`` (1000) for other text.

    >>> [gpu_count(quantity) for quantity in ("8", 8, "1k", "0.5")]
    [8, 8, 1000, 1000]
    """
    text = str(quantity)
    return int(text) if is_number(text, _MOST_DIGITS) else UNKNOWN_COUNT


def is_number(text: str, most_digits: int) -> bool:
    """Return whether the text is a decimal number with at most this many digits."""
    return text.isascii() and text.isdecimal() and len(text) <= most_digits


def _requesting(
    containers: Iterable[Container], resource: str, kind: ContainerKind
) -> Iterable[GpuContainer]:
    for each in containers:
        sidecar = kind is ContainerKind.INIT and each.is_sidecar
        for name, shared in ((resource, False), (share_resource(resource), True)):
            quantity = (each.resources or ContainerResources()).quantity(name)
            if quantity is not None and (count := gpu_count(quantity)):
                own_kind = ContainerKind.SIDECAR if sidecar else kind
                yield GpuContainer(each.name, count, own_kind, shared)
