"""Types of the prediction. The terms are those of kubelet's topology manager.

Source: Kubernetes 1.36, ``pkg/kubelet/cm/topologymanager`` and ``pkg/kubelet/cm/devicemanager``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import Final, NewType, TypeAlias

from gputopo.errors import InvalidInputError
from gputopo.topology.model import GpuIndex, GpuMask

NumaMask = NewType("NumaMask", int)
"""A set of NUMA nodes: bit i is 1 if the set contains NUMA node i."""

MAX_NODES: Final = 16
"""Most NUMA nodes in one calculation, which takes time and memory for 2^16 sets. kubelet allows 8
by default."""


class AlignmentError(InvalidInputError):
    """The amounts of a node are inconsistent; the message names the field and the value."""


class ManagerPolicy(StrEnum):
    """kubelet's ``topologyManagerPolicy``."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class ManagerScope(StrEnum):
    """kubelet's ``topologyManagerScope``: one decision for each container, or one for the pod."""

    CONTAINER = "container"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class NumaHint:
    """NUMA nodes that can satisfy the request of one resource.

    Attributes:
        preferred: whether no smaller set of nodes of this machine could ever satisfy the request.
    """

    mask: NumaMask
    preferred: bool


Hints: TypeAlias = Sequence[NumaHint] | None
"""The hints of one resource. None if the resource has no preference; empty if it fits nowhere."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """The result of the topology manager for one container or pod.

    Attributes:
        mask: the NUMA nodes from which kubelet takes the resources; None if there is no limit.
        admitted: False if kubelet rejects the pod.
    """

    mask: NumaMask | None
    admitted: bool


@dataclass(frozen=True, slots=True)
class NodeAmounts:
    """Amounts of one resource of a machine, by NUMA node.

    Attributes:
        total: everything, in use or not. For CPUs with reserved CPUs, for devices with unhealthy
            ones.
        free: the part of ``total`` that kubelet can give to a new container.
    """

    total: Mapping[int, int]
    free: Mapping[int, int]

    def __post_init__(self) -> None:
        for node, free in self.free.items():
            if not 0 <= free <= self.total.get(node, 0):
                raise AlignmentError(
                    f"free[{node}]: {free} is not in 0..{self.total.get(node, 0)}, the total"
                )


@dataclass(frozen=True, slots=True)
class GpuPool:
    """The GPUs of a node. Each has one NUMA node.

    Attributes:
        node_of: NUMA node of each GPU, also of GPUs that are in use or unhealthy.
        free: healthy GPUs without a container.
    """

    node_of: Mapping[GpuIndex, int]
    free: GpuMask

    def __post_init__(self) -> None:
        known = reduce(or_, (1 << index for index in self.node_of), 0)
        if self.free & ~known:
            raise AlignmentError(f"free: {self.free & ~known:#x} has GPUs without a NUMA node")

    @property
    def amounts(self) -> NodeAmounts:
        """The number of GPUs of each NUMA node."""
        nodes = sorted(set(self.node_of.values()))
        total = {node: [*self.node_of.values()].count(node) for node in nodes}
        free = {node: self.free_on(numa_mask([node])).bit_count() for node in nodes}
        return NodeAmounts(total, free)

    def free_on(self, mask: NumaMask) -> GpuMask:
        """Return the free GPUs of these NUMA nodes."""
        bits = (1 << index for index, node in self.node_of.items() if mask >> node & 1)
        return GpuMask(self.free & reduce(or_, bits, 0))


def numa_mask(nodes: Iterable[int]) -> NumaMask:
    """Return a set of NUMA nodes.

    >>> bin(numa_mask([0, 3]))
    '0b1001'
    """
    return NumaMask(reduce(or_, (1 << node for node in nodes), 0))
