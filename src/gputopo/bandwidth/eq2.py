"""Equation 2 of MAPA: a fitted model of effective bandwidth, and the domain where it is valid.

It was fitted on 31 sets of 2 to 5 GPUs of one DGX-1 V100, with NCCL rings. It is not monotone and
its values are meaningless outside that domain: four double and three single NVLinks and three PCIe
links give -130 GB/s. Therefore :meth:`Equation2.unsupported_reason` limits its use.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.bandwidth.link_mix import (
    DGX1_V100,
    LinkClass,
    effective_mb_per_s,
    link_mixes,
    unknown_link,
)
from gputopo.patterns.model import Pattern, PatternKind
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import LinkKind, NodeTopology

SIZES: Final = range(2, 6)
"""Sizes of the fitted rings."""

COEFFICIENTS: Final = (
    16.39670455,
    4.536821878,
    1.55623404,
    -20.69484581,
    -9.467461958,
    7.615106783,
    -7.973335727,
    12.73323772,
    -4.195655221,
    -8.413419363,
    62.85125807,
    27.41832588,
    -5.114108079,
    -46.97390071,
)
"""Full precision, from the authors' program; table 2 of the paper has three decimals."""


@dataclass(frozen=True, slots=True)
class Equation2:
    """Equation 2, for rings of 2..5 GPUs on a V100-class node.

    Such a node has single or double NVLinks of generation 2 and otherwise PCIe 3 with 16 lanes,
    with the bandwidths of MAPA's table 1. It has at least one NVLink.

    The value of a set is that of its ring with the best aggregate. Several such rings have the
    same value: with links of 50, 25 and 12 GB/s, rings of one size and equal aggregate have equal
    counts of links.
    """

    name: str = "eq2"

    def unsupported_reason(self, topology: NodeTopology, pattern: Pattern) -> str | None:
        """Return which limit of the domain is exceeded, None within the domain."""
        if pattern.size == 1:
            return None
        if pattern.kind is not PatternKind.RING or pattern.size not in SIZES:
            return f"it was fitted on Ring of 2 to 5 GPUs, not {pattern.kind} of {pattern.size}"
        if not any(link.kind is LinkKind.NVLINK for link in topology.links):
            return "it was fitted on a node with NVLinks, this one has none"
        if (link := unknown_link(DGX1_V100, topology.links)) is not None:
            return f"it was fitted on {DGX1_V100}, not {LinkClass.from_link(link)}"
        return None

    def effective_mb_per_s(
        self, topology: NodeTopology, pattern: Pattern, table: EmbeddingTable
    ) -> NDArray[np.int64]:
        """Return equation 2 for every row, to the nearest MB/s."""
        return effective_mb_per_s(COEFFICIENTS, link_mixes(topology, pattern, table, DGX1_V100))
