"""What kubelet's topology manager of a node makes of NUMA nodes, as the node's agent reports it."""

from collections.abc import Mapping
from dataclasses import dataclass

from gputopo.alignment.accepted import Manager
from gputopo.alignment.model import GpuPool, NodeAmounts, numa_mask
from gputopo.api.alignment import KubeletAlignment
from gputopo.topology.model import GpuIndex, GpuMask, NodeTopology


@dataclass(frozen=True, slots=True)
class NumaCpuCounts:
    """CPUs of one NUMA node; see :class:`gputopo.api.alignment.NumaCpus`."""

    node: int
    total: int
    allocatable: int
    free: int


@dataclass(frozen=True, slots=True)
class NumaRules:
    """The topology manager of a kubelet that knows the NUMA nodes of the GPUs.

    Attributes:
        node_of: GPUs and their NUMA nodes.
        cpus: None if kubelet gives no container exclusive CPUs.
        stable: whether ``cpus`` and the usage of the GPUs include all pods of the node. If not,
            it cannot be predicted which NUMA nodes kubelet takes for the next pod.
    """

    manager: Manager
    node_of: tuple[tuple[GpuIndex, int], ...]
    cpus: tuple[NumaCpuCounts, ...] | None
    stable: bool = True

    def pool(self, free: GpuMask) -> GpuPool:
        """Return the GPUs of the node, of which ``free`` are free."""
        return GpuPool(dict(self.node_of), free)

    def free_pool(self, free: GpuMask) -> GpuPool:
        """Return the GPUs as kubelet knows them: the agent reports NUMA nodes of free GPUs only."""
        return GpuPool({index: node for index, node in self.node_of if free >> index & 1}, free)

    def cpu_amounts(self, free: Mapping[int, int]) -> NodeAmounts:
        """Return the CPUs of the node, of which ``free`` are free, by NUMA node."""
        return NodeAmounts({each.node: each.total for each in self.cpus or ()}, free)


def numa_rules(alignment: KubeletAlignment | None, topology: NodeTopology) -> NumaRules | None:
    """Return the rules in the status of a GPUTopology; None if NUMA nodes limit no choice."""
    node_of = [(gpu.index, gpu.numa_node) for gpu in topology.gpus]
    known = tuple((index, node) for index, node in node_of if node is not None)
    if alignment is None or len(known) < len(node_of):
        return None
    machine = {each.id for each in topology.numa_nodes} | {node for _, node in known}
    return NumaRules(
        Manager(alignment.policy, alignment.scope, numa_mask(machine)),
        known,
        None
        if alignment.cpus is None
        else tuple(
            NumaCpuCounts(each.numa_node, each.total, each.allocatable, each.free)
            for each in alignment.cpus
        ),
    )
