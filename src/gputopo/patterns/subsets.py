"""All subsets of one size of the GPUs of a node, as arrays.

The GPUs of a node have the positions 0, 1, 2, ... in ascending order of their indices. Indices can
have gaps, positions have none: on a node with GPUs 0, 2 and 60, GPU 60 has position 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gputopo.topology.model import GpuIndex


@dataclass(frozen=True, slots=True, eq=False)
class Subsets:
    """The subsets of one size, in lexicographic order of ascending positions.

    Attributes:
        masks: [rows] bit i is 1 if the subset contains position i.
        members: [rows, size] positions, ascending.
    """

    masks: NDArray[np.uint32]
    members: NDArray[np.uint8]


@lru_cache(maxsize=256)
def subsets(count: int, size: int) -> Subsets:
    """Return all subsets of ``size`` out of ``count`` positions.

    >>> subsets(3, 2).members.tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    numbers = np.arange(1 << count, dtype=np.uint32)
    # With position 0 as the highest bit, lexicographic order is descending numeric order.
    reversed_masks = numbers[np.bitwise_count(numbers) == size][::-1]
    contains = reversed_masks[:, None] >> np.arange(count, dtype=np.uint32)[::-1] & 1
    members = np.nonzero(contains)[1].astype(np.uint8).reshape(len(reversed_masks), size)
    masks = (contains << np.arange(count, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
    masks.setflags(write=False)
    members.setflags(write=False)
    return Subsets(masks, members)


@lru_cache(maxsize=32)
def rows_by_mask(count: int) -> NDArray[np.int32]:
    """Return [2^count]: the row of each subset in :func:`subsets`, by the subset's mask."""
    rows = np.empty(1 << count, dtype=np.int32)
    for size in range(count + 1):
        masks = subsets(count, size).masks
        rows[masks] = np.arange(len(masks))
    rows.setflags(write=False)
    return rows


def gpu_masks(indices: Sequence[GpuIndex], members: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return [rows]: the GPUs of each row of ``members`` (positions) as a GpuMask."""
    bits = np.array([1 << index for index in indices], dtype=np.uint64)
    masks: NDArray[np.uint64] = bits[members].sum(axis=1, dtype=np.uint64)
    return masks


def positions_of(indices: Sequence[GpuIndex], gpus: int) -> int:
    """Convert a GpuMask, whose bits are GPU indices, to a mask of GPU positions."""
    return sum(1 << position for position, index in enumerate(indices) if gpus >> index & 1)
