"""The GPU memory of sharing pods. Pure functions."""

from collections.abc import Iterable
from typing import Final

from gputopo.api.annotations import AnnotationError
from gputopo.api.shares import SharingLimits, parse_sharing, usable_bytes
from gputopo.errors import InvalidInputError
from gputopo_kube.pods import PodView

_MIB: Final = 2**20


class MemoryLimitError(InvalidInputError):
    """The annotations of a sharing pod are not valid, or its GPU has too little memory."""


def memory_of(pod: PodView, *, gpu_bytes: int, most_pods: int) -> int:
    """Return the memory that a sharing pod has of a GPU.

    Raises:
        MemoryLimitError: an annotation is not valid.
    """
    try:
        return parse_sharing(pod.annotations).memory_on(gpu_bytes, most_pods)
    except AnnotationError as error:
        raise MemoryLimitError(f"annotation {error}") from None


def check_memory(
    pod: PodView, others: Iterable[PodView], *, gpu_bytes: int, most_pods: int
) -> None:
    """Check that a pod and the other pods of its GPU have together at most the GPU's memory.

    Of another pod whose annotation was made invalid meanwhile, an equal part of the memory counts.

    Raises:
        MemoryLimitError: an annotation of the pod is not valid, or the memory does not suffice.
    """
    needed = memory_of(pod, gpu_bytes=gpu_bytes, most_pods=most_pods)
    used = 0
    for each in others:
        try:
            used += memory_of(each, gpu_bytes=gpu_bytes, most_pods=most_pods)
        except MemoryLimitError:
            used += SharingLimits().memory_on(gpu_bytes, most_pods)
    usable = usable_bytes(gpu_bytes)
    if used + needed > usable:
        raise MemoryLimitError(
            f"the pod needs {needed // _MIB} MiB of GPU memory, but other pods have "
            f"{used // _MIB} of {usable // _MIB} MiB"
        )
