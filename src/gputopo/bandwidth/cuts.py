"""Capacity of all cuts of many GPU sets at once, in a tree of links and between pairs of GPUs.

:mod:`gputopo.bandwidth.capacity` describes the cuts, and builds the trees from a topology.

Sums over the members on one side are shared: each sum is an earlier sum plus one member. Branches
with few GPUs have a lookup table, because a node has many more cuts of GPU sets than such a branch
has states.

Example: GPUs 0 and 1 are at a switch with 12 GB/s each, and the uplink of the switch has 10 GB/s.
If GPU 0 is on the first side, GPU 1 on the other side, and the switch above on the first side, the
capacity is 12 GB/s: the switch can be on the first side, and only the lanes of GPU 1 cross the cut.
If both GPUs are on the other side, it is 10 GB/s, because only the uplink crosses the cut.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from gputopo.topology.model import MAX_INDEX, GpuMask

_LOOKUP_GPUS: Final = 8
"""Most GPUs of a branch with a lookup table, which has 3^8 = 6,561 states and fits the cache."""

_Integer = TypeVar("_Integer", np.int32, np.intp)


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of a tree of links: one GPU, or several smaller branches that are connected.

    Attributes:
        gpus: all GPUs in this branch.
        uplink_mb_per_s: bandwidth to the rest of the tree, in each direction.
        branches: the smaller branches; empty for a GPU.
    """

    gpus: GpuMask
    uplink_mb_per_s: int
    branches: tuple["Branch", ...] = ()


def minimum_cuts(
    branch: Branch, members: NDArray[np.uint8]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return two arrays [cuts + 1, sets]: the capacity of each cut in the tree ``branch``, in MB/s.

    A cut puts each GPU on one of two sides. The function puts each switch on the side that gives
    the least capacity. Only the topmost switch has a given side: in the first array, the side of
    the set's first member, in the second array, the other side. In the last row of both arrays,
    one side has all members.
    """
    rates = np.zeros(MAX_INDEX + 1, dtype=np.int32)
    for gpu in branch.branches:
        if not gpu.branches:
            rates[gpu.gpus.bit_length() - 1] = gpu.uplink_mb_per_s
    parts = [_cuts_below(below, members) for below in branch.branches if below.branches]
    if rates.any():
        leaves = rates[members]
        on_other = _sums(leaves)
        parts.append((leaves.sum(axis=0, dtype=np.int32) - on_other, on_other))
    on_first, on_other = parts[0]
    for first, other in parts[1:]:
        on_first += first
        on_other += other
    return on_first, on_other


def _cuts_below(
    branch: Branch, members: NDArray[np.uint8]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return :func:`minimum_cuts` of ``branch`` if the switch above ``branch`` has a given side.

    The uplink of ``branch`` crosses the cut if its two ends are on different sides.
    """
    if branch.gpus.bit_count() > _LOOKUP_GPUS:
        first, other = minimum_cuts(branch, members)
        up = branch.uplink_mb_per_s
        return np.minimum(first, other + up), np.minimum(other, first + up)
    lookup = _lookup(branch)
    steps = lookup.steps[members]
    # A GPU changes from the other side, digit 2, to the first side, digit 1.
    states = _sums(-steps, 2 * steps.sum(axis=0))
    return lookup.first.take(states), lookup.other.take(states)


@dataclass(frozen=True, slots=True, eq=False)
class _Lookup:
    """Capacities of a branch with few GPUs for all cuts of all of its GPU sets.

    A state is a number with one digit of base 3 for each GPU of the branch: 0 if the GPU is not in
    the set, 1 if it is on the first side of the cut, 2 if it is on the other side.

    Attributes:
        steps: [64] value of the digit of each GPU, by GPU index; 0 for a GPU of another branch.
        first: [states] capacity in MB/s if the switch above is on the first side.
        other: [states] capacity in MB/s if the switch above is on the other side.
    """

    steps: NDArray[np.intp]
    first: NDArray[np.int32]
    other: NDArray[np.int32]


@lru_cache(maxsize=256)
def _lookup(branch: Branch) -> _Lookup:
    """Return the lookup table of a branch of at most :data:`_LOOKUP_GPUS` GPUs.

    The states of several branches are the combinations of the states of each branch.
    """
    up = branch.uplink_mb_per_s
    steps = np.zeros(MAX_INDEX + 1, dtype=np.intp)
    if not branch.branches:
        steps[branch.gpus.bit_length() - 1] = 1
        return _Lookup(steps, np.array([0, 0, up], np.int32), np.array([0, up, 0], np.int32))
    first = other = np.zeros(1, dtype=np.int32)
    for below in map(_lookup, branch.branches):
        steps = steps * len(below.first) + below.steps
        first = np.add.outer(first, below.first).ravel()
        other = np.add.outer(other, below.other).ravel()
    return _Lookup(steps, np.minimum(first, other + up), np.minimum(other, first + up))


def _sums(values: NDArray[_Integer], start: NDArray[_Integer] | None = None) -> NDArray[_Integer]:
    """Return [cuts + 1, sets]: sum of ``values`` over the members on the first member's side.

    The last row is the sum over all members. ``start`` [sets] is added to all sums.
    """
    size, rows = values.shape
    sums = np.empty((2 ** (size - 1), rows), dtype=values.dtype)
    sums[0] = values[0] if start is None else values[0] + start
    for place in range(1, size):
        known = 2 ** (place - 1)
        np.add(sums[:known], values[place], out=sums[known : 2 * known])
    return sums


def between_pairs(mb_per_s: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return [cuts + 1, sets]: the bandwidth of direct NVLinks across each cut.

    The last row is 0, because it has all members on one side. Each row is computed from an earlier
    row by moving one member to the first member's side. Then the moved member's links to the other
    side cross the cut, and its links to the first member's side no longer do.
    """
    size, _, rows = mb_per_s.shape
    ports = mb_per_s.sum(axis=0, dtype=np.int32)
    across = np.empty((2 ** (size - 1), rows), dtype=np.int32)
    across[0] = ports[0]
    for place in range(1, size):
        known = 2 ** (place - 1)
        added = _sums(-2 * mb_per_s[place, :place], ports[place])
        np.add(across[:known], added, out=across[known : 2 * known])
    return across
