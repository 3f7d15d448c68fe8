"""Path lengths between the GPUs of each set of a node, and the best and worst cases of a cluster.

A utility compares a placement with the best and the worst case of its job. If each node had its own
best case, a job would have the utility 1 on the best GPUs of every node, also of a node without
NVLinks. So the cases are those of all nodes of the cluster, and utilities of different nodes can be
compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.embedding import MAX_NODE_GPUS, embeddings
from gputopo.patterns.model import Pattern
from gputopo.placement.model import PlacementRequest
from gputopo.topology.keys import FingerprintKey
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo.topology.tables import cached_by_fingerprint
from gputopo.utility.communication import gpu_distances, sockets
from gputopo.utility.cost import CostScale
from gputopo.utility.interference import RunningNeighbour
from gputopo.utility.surroundings import Surroundings

_CACHED_SCALES: Final = 1024


@dataclass(frozen=True, slots=True, eq=False)
class PathTable:
    """Weighted path length of the best embedding of one pattern into each GPU set of a node.

    Attributes:
        lengths: [rows] path lengths, with the rows of the table of embeddings; read-only.
        sockets: GPUs of each socket.
        longest: longest distance between two GPUs of the node; 0 for one GPU.
    """

    lengths: NDArray[np.int64]
    sockets: tuple[GpuMask, ...]
    longest: int

    @property
    def nbytes(self) -> int:
        """Memory of the array in bytes."""
        return self.lengths.nbytes

    @property
    def scale(self) -> CostScale:
        """Best and worst cases of a cluster that has only nodes of this topology."""
        largest = max(socket.bit_count() for socket in self.sockets)
        return CostScale(int(self.lengths.min()), self.longest, largest)


@cached_by_fingerprint
def path_table(topology: NodeTopology, pattern: Pattern) -> PathTable:
    """Return the path lengths of a pattern on a node that has enough GPUs for it."""
    distances = gpu_distances(topology)
    size = topology.mask.bit_length()
    distance = np.zeros((size, size), dtype=np.int64)
    for pair, value in distances.items():
        distance[pair] = value
    orders = embeddings(topology, pattern).orders
    lengths = np.zeros(len(orders), dtype=np.int64)
    for a, b, weight in pattern.edges:
        lengths += weight * distance[orders[:, a], orders[:, b]]
    lengths.setflags(write=False)
    return PathTable(lengths, sockets(topology), max(distances.values(), default=0))


@lru_cache(_CACHED_SCALES)
def cluster_scale(pattern: Pattern, kinds: tuple[FingerprintKey, ...]) -> CostScale:
    """Return the best and worst cases of a job in a cluster with these kinds of nodes.

    Nodes that can never take the job do not count. If no node can take it, the scale has no
    meaning. The first call for a pattern builds tables, which can take seconds.
    """
    found = [
        path_table(kind.topology, pattern).scale
        for kind in kinds
        if pattern.size <= len(kind.topology.gpus) <= MAX_NODE_GPUS
    ]
    return CostScale(
        min((scale.best_length for scale in found), default=0),
        max((scale.longest for scale in found), default=0),
        max((scale.largest_socket for scale in found), default=1),
    )


def surroundings_on_node(
    request: PlacementRequest, running: Iterable[RunningNeighbour] = ()
) -> Surroundings | None:
    """Return the surroundings of a job on a node with these running jobs.

    The result is None if the request has no surroundings: other policies do not use them.
    """
    job = request.surroundings
    if job is None:
        return None
    return job.on_node(cluster_scale(request.pattern, job.kinds), running)
