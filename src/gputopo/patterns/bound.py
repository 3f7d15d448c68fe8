"""What no embedding of a pattern into a set can exceed.

P. C. Gilmore (1962) and E. L. Lawler (1963), for the quadratic assignment problem: a rank
on a GPU has at most its heaviest edges on that GPU's fastest links, heaviest on fastest;
the best assignment of ranks to GPUs by these values counts each edge at most twice.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.improve import links_within, traffic_matrix
from gputopo.patterns.model import Pattern
from gputopo.patterns.subsets import subsets

_CELLS: Final = 1 << 21
"""Numbers held at a time by the assignment."""


def bounds(weights: NDArray[np.int64], pattern: Pattern) -> NDArray[np.int64]:
    """Return [rows] MB/s that no embedding of ``pattern`` into a set exceeds.

    Args:
        weights: [gpus, gpus] MB/s by position.
        pattern: not larger than the node.
    """
    members = subsets(len(weights), pattern.size).members
    heaviest = -np.sort(-traffic_matrix(pattern), axis=1)
    step = max(1, _CELLS >> pattern.size)
    found = []
    for part in np.split(members, range(step, len(members), step)):
        fastest = -np.sort(-links_within(weights, part), axis=2)
        found.append(_assigned(fastest @ heaviest.T) // 2)
    return np.concatenate(found).astype(np.int64)


def _assigned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return [rows] the most that an assignment of ranks to members has in all.

    Args:
        values: [rows, members, ranks].
    """
    rows, size, _ = values.shape
    by_member = np.ascontiguousarray(values.transpose(1, 2, 0))
    most = np.zeros((1 << size, rows))
    for rank in range(size):
        masks = subsets(size, rank + 1).masks
        for member in range(size):
            held = masks[masks >> np.uint32(member) & 1 == 1]
            ways = most[held ^ np.uint32(1 << member)] + by_member[member, rank]
            most[held] = np.maximum(most[held], ways)
    assigned: NDArray[np.float64] = most[-1]
    return assigned
