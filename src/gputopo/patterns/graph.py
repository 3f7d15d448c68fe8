"""The hardware graph as the searches read it."""

import numpy as np
from numpy.typing import NDArray

from gputopo.topology.model import NodeTopology, indices_of


def link_weights(topology: NodeTopology) -> NDArray[np.int64]:
    """Return MB/s between the GPUs of a node, by positions in ascending index; 0 to itself."""
    indices = indices_of(topology.mask)
    place = {index: position for position, index in enumerate(indices)}
    mb_per_s = np.zeros((len(indices), len(indices)), dtype=np.int64)
    for link in topology.links:
        a, b = place[link.a], place[link.b]
        mb_per_s[a, b] = mb_per_s[b, a] = link.bandwidth_mb_per_s
    return mb_per_s
