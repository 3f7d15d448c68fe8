"""Convert the links of a node to a matrix."""

import numpy as np
from numpy.typing import NDArray

from gputopo.topology.model import NodeTopology, indices_of


def link_weights(topology: NodeTopology) -> NDArray[np.int64]:
    """Return [gpus, gpus]: link bandwidths in MB/s, by GPU position; 0 on the diagonal."""
    indices = indices_of(topology.mask)
    position_of = {index: position for position, index in enumerate(indices)}
    mb_per_s = np.zeros((len(indices), len(indices)), dtype=np.int64)
    for link in topology.links:
        a, b = position_of[link.a], position_of[link.b]
        mb_per_s[a, b] = mb_per_s[b, a] = link.bandwidth_mb_per_s
    return mb_per_s
