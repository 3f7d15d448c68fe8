"""Aggregate bandwidth as a bandwidth model for every pattern and every type of link."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.model import Pattern
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import NodeTopology


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The model whose value is the sum of the bandwidths of the links that a pattern uses.

    This is the aggregate bandwidth (MAPA paper, equation 1). It ranks the GPU sets for one pattern
    and does not predict a measured bandwidth.
    """

    name: str = "aggregate"

    def unsupported_reason(self, _topology: NodeTopology, _pattern: Pattern) -> str | None:
        """Return None: the model supports every node and pattern."""
        return None

    def effective_mb_per_s(
        self, _topology: NodeTopology, _pattern: Pattern, table: EmbeddingTable
    ) -> NDArray[np.int64]:
        """Return the aggregate bandwidth of each GPU set, in the order of the rows of ``table``."""
        return table.aggregate_mb_per_s
