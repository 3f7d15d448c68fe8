"""The GPUs that kubelet accepts, if the agent reports the NUMA nodes of the GPUs to kubelet.

kubelet decides for one set of NUMA nodes before it asks the agent which GPUs to take. So a
scheduler that chooses GPUs beforehand can choose only among the GPUs that kubelet then accepts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gputopo.alignment.hints import amount_hints
from gputopo.alignment.merge import merge_hints
from gputopo.alignment.model import (
    Alignment,
    AlignmentError,
    Distances,
    GpuPool,
    Hints,
    ManagerPolicy,
    ManagerScope,
    NumaMask,
)
from gputopo.topology.model import GpuMask

REJECTED: Final = "kubelet rejects the request"


@dataclass(frozen=True, slots=True)
class Manager:
    """The topology manager of a kubelet.

    Attributes:
        machine: all NUMA nodes of the machine.
        distances: with the option ``prefer-closest-numa-nodes`` only.
    """

    policy: ManagerPolicy
    scope: ManagerScope
    machine: NumaMask
    distances: Distances | None = None


@dataclass(frozen=True, slots=True)
class AcceptedGpus:
    """The sets of GPUs that a container can get.

    Attributes:
        size: number of GPUs of each set.
        required: GPUs that each set contains.
        allowed: GPUs from which the rest of each set is chosen.
        called: whether kubelet calls GetPreferredAllocation. If it does not, there is only one set,
            and the agent first sees the container in Allocate.
    """

    size: int
    required: GpuMask
    allowed: GpuMask
    called: bool

    def accepts(self, gpus: GpuMask) -> bool:
        """Return whether the container gets exactly ``gpus`` if the agent prefers them."""
        inside = gpus & ~self.allowed == 0 and self.required & ~gpus == 0
        return inside and gpus.bit_count() == self.size


@dataclass(frozen=True, slots=True)
class ContainerChoice:
    """A container that requests GPUs, and the GPUs that were chosen for it.

    Attributes:
        others: hints for the CPUs and the memory of the container, for the scope ``container``.
    """

    name: str
    gpus: GpuMask
    others: Sequence[Hints] = ()


def align(manager: Manager, pool: GpuPool, size: int, others: Sequence[Hints] = ()) -> Alignment:
    """Return the NUMA nodes for ``size`` GPUs of ``pool``, at least 1, with hints of others."""
    hints = amount_hints(size, pool.amounts)
    return merge_hints(manager.policy, [hints, *others], manager.machine, manager.distances)


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
        return AcceptedGpus(size, GpuMask(0), near, called=True)
    if size == near.bit_count():
        return AcceptedGpus(size, near, near, called=False)
    return AcceptedGpus(size, near, pool.free, called=True)


def find_conflict(
    manager: Manager,
    pool: GpuPool,
    containers: Sequence[ContainerChoice],
    others: Sequence[Hints] = (),
) -> str | None:
    """Return why kubelet does not give each container its chosen GPUs; None if it does.

    Args:
        manager: kubelet's topology manager.
        pool: the GPUs of the node before the pod.
        containers: the containers with GPUs, in the order in which kubelet allocates.
        others: hints for the CPUs and the memory of the pod, for the scope ``pod``.
    """
    whole_pod = None
    if manager.scope is ManagerScope.POD:
        size = sum(each.gpus.bit_count() for each in containers)
        whole_pod = align(manager, pool, size, others)
    for each in containers:
        size = each.gpus.bit_count()
        alignment = whole_pod or align(manager, pool, size, each.others)
        if not alignment.admitted or pool.free.bit_count() < size:
            return f"container {each.name}: {REJECTED} for {size} GPUs"
        accepted = accepted_gpus(alignment, pool, size)
        if not accepted.accepts(each.gpus):
            return f"container {each.name}: {_describe(accepted)}, but {each.gpus:#x} were chosen"
        pool = replace(pool, free=GpuMask(pool.free & ~each.gpus))
    return None


def _describe(accepted: AcceptedGpus) -> str:
    allowed = f"{accepted.size} of the GPUs {accepted.allowed:#x}"
    required = f" with {accepted.required:#x}" if accepted.required else ""
    return f"kubelet takes {allowed}{required}"
