"""Shares of GPUs: the names of their resource and devices, and the annotations of sharing pods.

A share is a device of a second extended resource. Its ID is the UUID of the GPU with a number, for
example ``GPU-1b2c::2``, as NVIDIA's device plugin writes the IDs of its replicas. The extender
chooses a share exactly as it chooses a GPU, so annotation, kubelet and agent name the same device.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gputopo.api.annotations import AnnotationError
from gputopo.api.names import (
    SHARING_IF_SLOW_ANNOTATION,
    SHARING_MAX_SLOWDOWN_ANNOTATION,
    SHARING_MEMORY_ANNOTATION,
    SHARING_TERMINATION_ANNOTATION,
)
from gputopo.api.profile import MAX_SHARES
from gputopo.api.quantity import format_bytes, parse_bytes
from gputopo.errors import InvalidInputError
from gputopo.runtime.messages import quoted
from gputopo.topology.model import GpuUuid

SERVER_BYTES: Final = 512 * 2**20
"""GPU memory that is kept for the MPS server of a shared GPU."""

MAX_SLOWDOWN_PERCENT: Final = 1000

_LONGEST_MEMORY: Final = 32
_SEPARATOR: Final = "::"
_SUFFIX: Final = "-share"


@dataclass(frozen=True, slots=True)
class SharingLimits:
    """What a sharing pod declares.

    Attributes:
        memory_bytes: GPU memory of the pod; None for an equal part of the GPU.
        max_slowdown_percent: how much longer a step may take than alone; None for the default of
            the installation.
        moves: whether gputopo may evict the pod if it came last and sharing does not pay.
        ends_itself: whether its program ends its work on the GPU by itself after SIGTERM.
    """

    memory_bytes: int | None = None
    max_slowdown_percent: int | None = None
    moves: bool = False
    ends_itself: bool = False

    def memory_on(self, gpu_bytes: int, most_pods: int) -> int:
        """Return the memory of the pod on a GPU of this size that at most this many pods share.

        >>> SharingLimits().memory_on(16 * 2**30 + SERVER_BYTES, 4) == 4 * 2**30
        True
        """
        if self.memory_bytes is not None:
            return self.memory_bytes
        return usable_bytes(gpu_bytes) // most_pods


def share_resource(resource: str) -> str:
    """Return the extended resource that counts shares of the GPUs that ``resource`` counts.

    >>> share_resource("gputopo.io/gpu")
    'gputopo.io/gpu-share'
    """
    return resource + _SUFFIX


def share_id(gpu: GpuUuid, number: int) -> GpuUuid:
    """Return the ID of one share of a GPU; ``number`` is from 0.

    >>> share_id(GpuUuid("GPU-1b2c"), 2)
    'GPU-1b2c::2'
    """
    return GpuUuid(f"{gpu}{_SEPARATOR}{number}")


def is_share(device: str) -> bool:
    """Return whether a device ID is that of a share."""
    return _SEPARATOR in device


def gpu_of(device: str) -> GpuUuid:
    """Return the UUID of a device's GPU; the device is a GPU or a share of one.

    >>> gpu_of("GPU-1b2c::2"), gpu_of("GPU-1b2c")
    ('GPU-1b2c', 'GPU-1b2c')
    """
    return GpuUuid(device.partition(_SEPARATOR)[0])


def conflicting(device: str) -> frozenset[GpuUuid]:
    """Return the devices that no other container may have beside ``device``, with itself.

    A GPU excludes all of its shares. A share excludes the GPU as a whole.

    >>> sorted(conflicting("GPU-1b2c::2"))
    ['GPU-1b2c', 'GPU-1b2c::2']
    """
    gpu = gpu_of(device)
    if is_share(device):
        return frozenset({GpuUuid(device), gpu})
    return frozenset({gpu, *(share_id(gpu, number) for number in range(MAX_SHARES))})


def usable_bytes(gpu_bytes: int) -> int:
    """Return the memory of a GPU that its sharing pods can have together."""
    return max(0, gpu_bytes - SERVER_BYTES)


def most_memory(gpu_bytes: int, most_pods: int, percent: int) -> int:
    """Return the most memory of a GPU that one of its sharing pods may declare.

    Without this bound, one share would be a whole GPU for the quota of a share. An equal part of
    the GPU is always allowed.

    Args:
        gpu_bytes: memory of the GPU.
        most_pods: how many pods can share it.
        percent: of the usable memory that one pod may declare, 1 to 100.

    >>> most_memory(16 * 2**30 + SERVER_BYTES, 4, 50) == 8 * 2**30
    True
    >>> most_memory(16 * 2**30 + SERVER_BYTES, 4, 10) == 4 * 2**30
    True
    """
    usable = usable_bytes(gpu_bytes)
    return max(usable * percent // 100, usable // most_pods)


def parse_sharing(annotations: Mapping[str, str]) -> SharingLimits:
    """Return the limits that a sharing pod declares; missing annotations are None.

    Raises:
        AnnotationError: on a value that is not allowed.
    """
    return SharingLimits(
        _memory(annotations),
        _max_slowdown(annotations),
        _choice(annotations, SHARING_IF_SLOW_ANNOTATION, ("Report", "Move")) == "Move",
        _choice(annotations, SHARING_TERMINATION_ANNOTATION, ("Client", "Program")) == "Program",
    )


def format_sharing(limits: SharingLimits) -> dict[str, str]:
    """Return the annotations of a sharing pod; the inverse of :func:`parse_sharing`."""
    found = {}
    if limits.memory_bytes is not None:
        found[SHARING_MEMORY_ANNOTATION] = format_bytes(limits.memory_bytes)
    if limits.max_slowdown_percent is not None:
        found[SHARING_MAX_SLOWDOWN_ANNOTATION] = str(limits.max_slowdown_percent)
    if limits.moves:
        found[SHARING_IF_SLOW_ANNOTATION] = "Move"
    if limits.ends_itself:
        found[SHARING_TERMINATION_ANNOTATION] = "Program"
    return found


def _choice(annotations: Mapping[str, str], name: str, allowed: tuple[str, str]) -> str:
    """Return the value of an annotation; the first of the allowed values if it is missing."""
    value = annotations.get(name, allowed[0])
    if value not in allowed:
        raise AnnotationError(f"{name}: {quoted(value)} is not one of {', '.join(allowed)}")
    return value


def _memory(annotations: Mapping[str, str]) -> int | None:
    text = annotations.get(SHARING_MEMORY_ANNOTATION)
    if text is None:
        return None
    try:
        # Python raises ValueError for a number of thousands of digits.
        memory = parse_bytes(text, SHARING_MEMORY_ANNOTATION) if len(text) <= _LONGEST_MEMORY else 0
    except InvalidInputError:
        memory = 0
    if not 0 < memory < 2**53:
        raise AnnotationError(
            f"{SHARING_MEMORY_ANNOTATION}: {quoted(text)} is not an amount of memory such as 4Gi"
        )
    return memory


def _max_slowdown(annotations: Mapping[str, str]) -> int | None:
    text = annotations.get(SHARING_MAX_SLOWDOWN_ANNOTATION)
    if text is None:
        return None
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_SLOWDOWN_PERCENT))
    if not digits or int(text) > MAX_SLOWDOWN_PERCENT:
        raise AnnotationError(
            f"{SHARING_MAX_SLOWDOWN_ANNOTATION}: {quoted(text)} is not a whole number of percent "
            f"from 0 to {MAX_SLOWDOWN_PERCENT}"
        )
    return int(text)
