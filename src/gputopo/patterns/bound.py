"""Upper bound of the aggregate bandwidth of any embedding of a pattern into a set.

P. C. Gilmore (1962) and E. L. Lawler (1963) published this bound for the quadratic assignment
problem. At best, a rank on a GPU has its heaviest edge on the fastest link of the GPU, its second
heaviest edge on the second fastest link, and so on. The sum of weight times bandwidth over these
edges is the best value of this rank on this GPU. The bound is half of the highest sum of values
over all assignments of ranks to GPUs. It is half, because each edge is counted at both of its ends.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.improve import links_within, traffic_matrix
from gputopo.patterns.model import Pattern
from gputopo.patterns.subsets import subsets

_CELLS: Final = 1 << 21
"""Limit of the numbers in memory at a time during the assignment."""


def bounds(weights: NDArray[np.int64], pattern: Pattern) -> NDArray[np.int64]:
    """Return [rows]: an upper bound in MB/s for each set of ``pattern.size`` GPUs.

    Args:
        weights: [gpus, gpus] link bandwidths in MB/s, by GPU position.
        pattern: a pattern that is not larger than the node.
    """
    members = subsets(len(weights), pattern.size).members
    heaviest = -np.sort(-traffic_matrix(pattern), axis=1)
    step = max(1, _CELLS >> pattern.size)
    found = []
    for part in np.split(members, range(step, len(members), step)):
        fastest = -np.sort(-links_within(weights, part), axis=2)
        found.append(_best_assignment(fastest @ heaviest.T) // 2)
    return np.concatenate(found).astype(np.int64)


def _best_assignment(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return [rows]: the maximum sum of values over all assignments of ranks to the set's GPUs.

    This is dynamic programming: ``most[mask]`` is the maximum for the first n ranks on the n
    members in ``mask``.

    Args:
        values: [rows, members, ranks] value of each rank on each member of the set.
    """
    rows, size, _ = values.shape
    by_member = np.ascontiguousarray(values.transpose(1, 2, 0))
    most = np.zeros((1 << size, rows))
    for rank in range(size):
        masks = subsets(size, rank + 1).masks
        for member in range(size):
            with_member = masks[masks >> np.uint32(member) & 1 == 1]
            sums = most[with_member ^ np.uint32(1 << member)] + by_member[member, rank]
            most[with_member] = np.maximum(most[with_member], sums)
    assigned: NDArray[np.float64] = most[-1]
    return assigned
