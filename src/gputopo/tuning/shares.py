"""Computes the share of each GPU in the CPUs or the memory of a node.

The functions handle one resource at a time, in whole thousandths of a CPU or bytes.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

MEBIBYTE: Final = 2**20
"""Amounts of memory that gputopo chooses are multiples of this."""


class Bounds(NamedTuple):
    """The least and the most that one pod may have of a resource; ``most`` >= ``floor``."""

    gpus: int
    floor: int
    most: int

    def guaranteed(self, per_gpu: int) -> int:
        """Return the share of the pod, within its bounds, if the share of a GPU is ``per_gpu``."""
        return max(self.floor, min(self.gpus * per_gpu, self.most))


def share_per_gpu(capacity: int, gpus: int, pods: Sequence[Bounds], unit: int = 1) -> int:
    """Return the share of one GPU, a multiple of ``unit``.

    The share is ``capacity`` / ``gpus`` (Synergy, section 4.1). ``gpus`` includes idle GPUs; it is
    raised to the number of GPUs of the pods. If some pods have a floor above their share, all
    others get less, so that all pods fit. If not even the floors fit, the share is 0: every pod
    then has its floor.

    Example: 8 CPUs and 4 pods with one GPU each have a share of 2 CPUs. If one of the pods has a
    floor of 5 CPUs, the share is 1 CPU.
    """
    gpus = max(gpus, sum(pod.gpus for pod in pods), 1)
    units = range(capacity // gpus // unit + 1)  # empty if the capacity is negative
    fitting = bisect_right(
        units, capacity, key=lambda count: sum(pod.guaranteed(count * unit) for pod in pods)
    )
    return max(0, fitting - 1) * unit
