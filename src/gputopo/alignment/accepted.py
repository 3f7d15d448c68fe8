"""The GPUs that kubelet accepts, if the agent reports the NUMA nodes of the GPUs to kubelet.

kubelet decides for one set of NUMA nodes before it asks the agent which GPUs to take. So a
scheduler that chooses GPUs beforehand can choose only among the GPUs that kubelet then accepts.
"""

from dataclasses import dataclass

from gputopo.alignment.model import (
    Alignment,
    AlignmentError,
    GpuPool,
    ManagerPolicy,
    ManagerScope,
    NumaMask,
)
from gputopo.topology.model import GpuMask


@dataclass(frozen=True, slots=True)
class Manager:
    """The topology manager of a kubelet.

    Attributes:
        machine: all NUMA nodes of the machine.
    """

    policy: ManagerPolicy
    scope: ManagerScope
    machine: NumaMask


@dataclass(frozen=True, slots=True)
class AcceptedGpus:
    """The sets of GPUs that a container can get.

    Attributes:
        size: number of GPUs of each set.
        required: GPUs that each set contains.
        allowed: GPUs from which the rest of each set is chosen.

    If ``required`` and ``allowed`` are equal, there is only one set. kubelet then does not call
    GetPreferredAllocation, and the agent first sees the container in Allocate.
    """

    size: int
    required: GpuMask
    allowed: GpuMask


def accepted_gpus(alignment: Alignment, pool: GpuPool, size: int) -> AcceptedGpus:
    """Return the GPUs that a container with ``size`` GPUs can get. kubelet must have admitted it.

    For example, the NUMA nodes of the alignment have the free GPUs 0 and 1, and GPU 4 is free
    elsewhere. One GPU: 0 or 1. Two GPUs: 0 and 1, without a call. Three GPUs: 0, 1 and 4.

    Init containers whose GPUs the container reuses are not considered.
    """
    if not alignment.admitted or pool.free.bit_count() < size:
        raise AlignmentError(f"size: {size} GPUs were not admitted")
    near = pool.free_on(alignment.mask) if alignment.mask is not None else GpuMask(0)
    if size < near.bit_count():
        return AcceptedGpus(size, GpuMask(0), near)
    if size == near.bit_count():
        return AcceptedGpus(size, near, near)
    return AcceptedGpus(size, near, pool.free)
