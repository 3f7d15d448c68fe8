"""Upper bound of the aggregate bandwidth of any embedding of a pattern into a set.

P. C. Gilmore (1962) and E. L. Lawler (1963) published this bound for the quadratic assignment
problem. At best, a rank on a GPU has its heaviest edge on the fastest link of the GPU, its second
heaviest edge on the second fastest link, and so on. The sum of weight times bandwidth over these
edges is the best value of this rank on this GPU. The bound is half of the highest sum of values
over all assignments of ranks to GPUs. It is half, because each edge is counted at both of its ends.

Ranks with the same weights of edges have the same values on all GPUs. So the search for the best
assignment only counts how many ranks of each such group have a GPU.
"""

from math import prod
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
    heaviest, counts = np.unique(
        -np.sort(-traffic_matrix(pattern), axis=1), axis=0, return_counts=True
    )
    ranks = counts.tolist()
    step = max(1, _CELLS // prod(count + 1 for count in ranks))
    found = []
    for part in np.split(members, range(step, len(members), step)):
        fastest = -np.sort(-links_within(weights, part), axis=2)
        found.append(_best_assignment(fastest @ heaviest.T, ranks) // 2)
    return np.concatenate(found).astype(np.int64)


def _best_assignment(values: NDArray[np.float64], ranks: list[int]) -> NDArray[np.float64]:
    """Return [rows]: the maximum sum of values over all assignments of ranks to the set's GPUs.

    This is dynamic programming: ``most[state]`` is the maximum for the first members of the set. A
    state has for each group how many of its ranks are on these members, as mixed-radix number.

    Args:
        values: [rows, members, groups] value of each rank of a group on each member of the set.
        ranks: [groups] number of ranks in each group.
    """
    by_member = np.ascontiguousarray(values.transpose(1, 2, 0))
    shape = [count + 1 for count in ranks]
    used = np.indices(shape).reshape(len(ranks), -1)
    steps = [prod(shape[group + 1 :]) for group in range(len(ranks))]
    most = np.zeros((used.shape[1], len(values)))
    for placed, of_member in enumerate(by_member, start=1):
        states = np.flatnonzero(used.sum(axis=0) == placed)
        for group, step in enumerate(steps):
            with_group = states[used[group, states] > 0]
            sums = most[with_group - step] + of_member[group]
            most[with_group] = np.maximum(most[with_group], sums)
    assigned: NDArray[np.float64] = most[-1]
    return assigned
