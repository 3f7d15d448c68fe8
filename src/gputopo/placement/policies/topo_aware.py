"""TopoAware policy: GPUs that are near each other on PCIe, regardless of NVLinks.

The policy partitions the PCIe tree recursively, like the topology-aware policy in MAPA, section 4.
A block is a group of GPUs below one socket, host bridge or switch. The policy decides first about
sockets, then about host bridges, then about switches. At each level it uses as few blocks as
possible. Among choices with equally few blocks, it takes the blocks with the fewest free GPUs, so
that other blocks stay completely free.
"""

import numpy as np
from numpy.typing import NDArray

from gputopo.placement.feasible import FeasibleSets, SortKeys
from gputopo.topology.hierarchy import LEVELS, blocks
from gputopo.topology.model import NodeTopology
from gputopo.topology.tables import cached_by_fingerprint


def keys(feasible: FeasibleSets) -> SortKeys:
    """Return two keys per level: -(blocks that the GPU set uses), -(free GPUs in these blocks)."""
    found: list[NDArray[np.int64]] = []
    for level in _levels(feasible.topology):
        used = np.zeros(len(feasible.sets), dtype=np.int64)
        free = np.zeros_like(used)
        for block in level[level != 0]:
            in_block = (feasible.sets & block) != 0
            used += in_block
            free += in_block * (int(block) & feasible.free).bit_count()
        found += [-used, -free]
    return tuple(found)


@cached_by_fingerprint
def _levels(topology: NodeTopology) -> NDArray[np.uint64]:
    """Return [levels, blocks]: the GPU masks of the blocks, sockets first; 0 fills short rows.

    Only levels that distinguish GPU sets are returned. A level is left out if it has the same
    blocks as the previous level, only one block, or one GPU in each block.
    """
    count = len(topology.gpus)
    found = [blocks(topology, level) for level in reversed(LEVELS)]
    useful = [level for level in dict.fromkeys(found) if 1 < len(level) < count]
    padded = [[*level, *[0] * (count - len(level))] for level in useful]
    return np.array(padded, dtype=np.uint64).reshape(len(useful), count)
