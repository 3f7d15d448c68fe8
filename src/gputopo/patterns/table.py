"""Table with the best embedding of one pattern into each GPU set of a node."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingTable:
    """Best embedding of one pattern into every GPU set of the pattern's size.

    Rows are in lexicographic order of ascending GPU indices. So the first of several rows with
    equal values has the lowest GPU indices. The arrays are shared and read-only.

    Attributes:
        sets: [rows] the GPU set, as a GpuMask.
        orders: [rows, size] GPU index of each rank.
        aggregate_mb_per_s: [rows] the sum of weight times link bandwidth over all edges of the
            pattern (MAPA paper, equation 1, where all weights are 1).
        bound_mb_per_s: [rows] upper bound of the aggregate bandwidth of all embeddings into the
            set. If it equals ``aggregate_mb_per_s``, the embedding is proved to be the best.
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
        """Memory of all arrays in bytes."""
        arrays = (self.sets, self.orders, self.aggregate_mb_per_s, self.bound_mb_per_s)
        return sum(array.nbytes for array in arrays)
