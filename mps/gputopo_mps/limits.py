"""The limit of the GPU memory of a process, and the pods whose processes exceed theirs together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gputopo.api.shares import SharingLimits, usable_bytes


@dataclass(frozen=True, slots=True)
class Excess:
    """A pod whose processes together use more memory of its GPU than the pod may have."""

    pod: str
    used_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """The limits of one GPU.

    Attributes:
        gpu_bytes: memory of the GPU.
        most_pods: number of equal shares.
        declared: the memory that each pod of the GPU declares, by UID; None for an equal part.
    """

    gpu_bytes: int
    most_pods: int
    declared: Mapping[str, int | None]

    def of_pod(self, pod: str) -> int:
        """Return the memory of a pod; an equal part if the pod is unknown."""
        limits = SharingLimits(memory_bytes=self.declared.get(pod))
        return min(limits.memory_on(self.gpu_bytes, self.most_pods), usable_bytes(self.gpu_bytes))

    @property
    def of_process(self) -> int:
        """The limit that MPS has for each process: that of the pod with the most memory.

        The variable of a process can only lower it. So it is as high as the pods of the GPU need.
        """
        return max(self.of_pod(pod) for pod in ("", *self.declared))

    def exceeded(self, used: Iterable[tuple[str | None, int]]) -> list[Excess]:
        """Return the pods that exceed their memory.

        Args:
            used: pod and bytes of each process; None for a process in no pod.
        """
        sums: dict[str, int] = {}
        for pod, count_bytes in used:
            if pod is not None:
                sums[pod] = sums.get(pod, 0) + count_bytes
        found = [Excess(pod, total, self.of_pod(pod)) for pod, total in sorted(sums.items())]
        return [each for each in found if each.used_bytes > each.limit_bytes]
