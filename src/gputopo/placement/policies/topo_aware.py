"""Topo-aware: GPUs that are near each other on PCIe, whatever NVLinks join them.

Recursive partition of the PCIe tree, as the topology-aware comparison of MAPA, section 4:
level by level from the farthest common ancestor (sockets, then host bridges, then
switches), the job goes into as few blocks as hold it, and among those into the ones
with the fewest free GPUs, so that whole blocks stay whole.
"""

import numpy as np
from numpy.typing import NDArray

from gputopo.placement.options import Keys, Options
from gputopo.topology.hierarchy import LEVELS, blocks
from gputopo.topology.model import NodeTopology
from gputopo.topology.tables import cached_by_fingerprint


def keys(options: Options) -> Keys:
    """Return, for each level, minus the blocks touched, then minus the GPUs free in them."""
    found: list[NDArray[np.int64]] = []
    for level in _levels(options.topology):
        touched = np.zeros(len(options.sets), dtype=np.int64)
        free = np.zeros_like(touched)
        for block in level[level != 0]:
            in_block = (options.sets & block) != 0
            touched += in_block
            free += in_block * (int(block) & options.free).bit_count()
        found += [-touched, -free]
    return tuple(found)


@cached_by_fingerprint
def _levels(topology: NodeTopology) -> NDArray[np.uint64]:
    """Return [levels, blocks] masks, the farthest level first, rows filled up with zeros.

    Levels that split no further than the one before, and the one where each GPU is alone,
    tell no sets apart.
    """
    count = len(topology.gpus)
    found = [blocks(topology, level) for level in reversed(LEVELS)]
    telling = [level for level in dict.fromkeys(found) if 1 < len(level) < count]
    filled = [[*level, *[0] * (count - len(level))] for level in telling]
    return np.array(filled, dtype=np.uint64).reshape(len(telling), count)
