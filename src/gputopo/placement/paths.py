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
from gputopo.utility.communication import GpuDistances, gpu_distances, sockets
from gputopo.utility.cost import CostScale
from gputopo.utility.interference import RunningNeighbour
from gputopo.utility.surroundings import Surroundings

_CACHED_SCALES: Final = 1024


@dataclass(frozen=True, slots=True, eq=False)
class PathTable:
    """Path length and sockets of each GPU set of a node, for the best embedding of one pattern.

    The rows are those of the table of embeddings. All arrays are read-only.

    Attributes:
        lengths: [rows] weighted path length.
        uses: [rows, sockets] 1 if the set uses a GPU of the socket, else 0.
        own_parts: [rows] sum over the sockets of the part of the socket that the set uses.
        areas: [areas] all GPUs of the sockets of a set, without equal ones.
        area: [rows] number of the set's area in ``areas``.
        sockets: GPUs of each socket.
        longest: longest distance between two GPUs of the node; 0 for one GPU.
    """

    lengths: NDArray[np.int64]
    uses: NDArray[np.float64]
    own_parts: NDArray[np.float64]
    areas: NDArray[np.uint64]
    area: NDArray[np.int64]
    sockets: tuple[GpuMask, ...]
    longest: int

    def __post_init__(self) -> None:
        for array in self._arrays:
            array.setflags(write=False)

    @property
    def nbytes(self) -> int:
        """Memory of all arrays in bytes."""
        return sum(array.nbytes for array in self._arrays)

    @property
    def scale(self) -> CostScale:
        """Best and worst cases of a cluster that has only nodes of this topology."""
        largest = max(socket.bit_count() for socket in self.sockets)
        return CostScale(int(self.lengths.min()), self.longest, largest)

    @property
    def _arrays(self) -> tuple[NDArray[np.generic], ...]:
        return self.lengths, self.uses, self.own_parts, self.areas, self.area


@cached_by_fingerprint
def path_table(topology: NodeTopology, pattern: Pattern) -> PathTable:
    """Return the table of a pattern on a node that has enough GPUs for it."""
    table, groups = embeddings(topology, pattern), sockets(topology)
    masks = np.array(groups, dtype=np.uint64)
    own = np.bitwise_count(table.sets[:, np.newaxis] & masks)
    uses = own > 0
    areas, area = np.unique((uses * masks).sum(axis=1, dtype=np.uint64), return_inverse=True)
    distances = gpu_distances(topology)
    return PathTable(
        lengths=_lengths(topology, pattern, distances, table.orders),
        uses=uses.astype(np.float64),
        own_parts=(own / np.bitwise_count(masks)).sum(axis=1),
        areas=areas,
        area=area.astype(np.int64),
        sockets=groups,
        longest=max(distances.values(), default=0),
    )


def _lengths(
    topology: NodeTopology,
    pattern: Pattern,
    distances: GpuDistances,
    orders: NDArray[np.uint8],
) -> NDArray[np.int64]:
    size = topology.mask.bit_length()
    distance = np.zeros((size, size), dtype=np.int64)
    for pair, value in distances.items():
        distance[pair] = value
    lengths = np.zeros(len(orders), dtype=np.int64)
    for a, b, weight in pattern.edges:
        lengths += weight * distance[orders[:, a], orders[:, b]]
    return lengths


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
