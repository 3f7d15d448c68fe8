"""The best embedding of one pattern into each of a node's GPU sets, as arrays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingTable:
    """Best embedding of one pattern into every set of its size.

    Row i is the i-th set in lexicographic order of ascending indices, so that the first
    of equal rows is the lowest set. The arrays are shared: they cannot be written.

    Attributes:
        sets: [rows] GpuMask of each.
        orders: [rows, size] GPU index of each rank.
        aggregate_mb_per_s: [rows] sum over the pattern's edges of weight times bandwidth
            of the link beneath (MAPA, equation 1, where all weights are 1).
        bound_mb_per_s: [rows] no embedding into the set has more; equal to the aggregate
            where the search proved that.
    """

    sets: NDArray[np.uint64]
    orders: NDArray[np.uint8]
    aggregate_mb_per_s: NDArray[np.int64]
    bound_mb_per_s: NDArray[np.int64]

    def __post_init__(self) -> None:
        for array in (self.sets, self.orders, self.aggregate_mb_per_s, self.bound_mb_per_s):
            array.setflags(write=False)

    @property
    def nbytes(self) -> int:
        """Memory of all arrays."""
        arrays = (self.sets, self.orders, self.aggregate_mb_per_s, self.bound_mb_per_s)
        return sum(array.nbytes for array in arrays)
