"""Aggregate bandwidth as a bandwidth model for every pattern and every type of link."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.model import Pattern
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import NodeTopology


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The model whose value is the aggregate bandwidth of the embedding (MAPA, equation 1).

    The values rank the GPU sets for one pattern. They do not predict a measured bandwidth.
    """

    name: str = "aggregate"

    def unsupported_reason(self, _topology: NodeTopology, _pattern: Pattern) -> str | None:
        """Return None: the model supports every node and pattern."""
        return None

    def effective_mb_per_s(
        self, _topology: NodeTopology, _pattern: Pattern, table: EmbeddingTable
    ) -> NDArray[np.int64]:
        """Return the aggregate bandwidth of every row of ``table``."""
        return table.aggregate_mb_per_s
