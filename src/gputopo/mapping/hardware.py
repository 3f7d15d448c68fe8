"""Distances, sockets and parts of the nodes of a cluster, computed once for equal nodes."""

from collections.abc import Iterable
from functools import cached_property

from gputopo.mapping.partition import MachinePart, machine_parts
from gputopo.topology.model import GpuMask, NodeTopology, indices_of
from gputopo.utility.communication import (
    LevelLengths,
    distance_to_network,
    gpu_distances,
    sockets,
)


class MachineHardware:
    """What the mapping knows of one kind of node.

    Attributes:
        distances: length of the path between two GPUs; 0 for a GPU and itself.
        to_network: length of the path from each GPU to the network.
        sockets: GPUs of each socket.
    """

    def __init__(self, topology: NodeTopology, lengths: LevelLengths) -> None:
        self._topology, self._lengths = topology, lengths
        self.distances = gpu_distances(topology, lengths)
        self.distances |= {(gpu.index, gpu.index): 0 for gpu in topology.gpus}
        self.to_network = distance_to_network(topology, lengths)
        self.sockets = sockets(topology)
        self._means: dict[tuple[GpuMask, GpuMask], float] = {}

    @cached_property
    def parts(self) -> MachinePart:
        """The halves of the node, down to single GPUs."""
        return machine_parts(self._topology, self._lengths)

    @cached_property
    def longest(self) -> int:
        """Longest distance between two GPUs of the node; 0 for one GPU."""
        return max(self.distances.values())

    @cached_property
    def largest_socket(self) -> int:
        """GPUs of the socket with most GPUs."""
        return max(socket.bit_count() for socket in self.sockets)

    def mean_distance(self, first: GpuMask, second: GpuMask) -> float:
        """Return the mean distance between two GPUs of two sets, or of one set given twice.

        It is 0 if there is no pair of different GPUs.
        """
        if (first, second) not in self._means:
            pairs = [(a, b) for a in indices_of(first) for b in indices_of(second) if a != b]
            total = sum(self.distances[pair] for pair in pairs)
            self._means[first, second] = total / len(pairs) if pairs else 0.0
        return self._means[first, second]


class ClusterHardware:
    """The hardware of all nodes, by fingerprint of their topologies."""

    def __init__(self, lengths: LevelLengths) -> None:
        self._lengths = lengths
        self._known: dict[str, MachineHardware] = {}

    def of(self, topology: NodeTopology) -> MachineHardware:
        """Return the hardware of a node; nodes of equal topology share one object."""
        key = topology.fingerprint
        if key not in self._known:
            self._known[key] = MachineHardware(topology, self._lengths)
        return self._known[key]

    def kinds(self, topologies: Iterable[NodeTopology]) -> list[NodeTopology]:
        """Return one topology of each fingerprint, sorted by it."""
        found = {topology.fingerprint: topology for topology in topologies}
        return [topology for _, topology in sorted(found.items())]
