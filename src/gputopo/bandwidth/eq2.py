"""MAPA's fitted model of effective bandwidth (equation 2), and where it may be used.

The fit: 31 allocations of 2 to 5 GPUs on one DGX-1 V100, NCCL rings. It is not monotone;
outside what it was fitted on its values run away (four double and three single NVLinks
and three PCIe links would give -130 GB/s), hence :meth:`Equation2.refusal`.
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
    stranger,
)
from gputopo.patterns.model import Pattern, PatternKind
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import LinkKind, NodeTopology

NAME: Final = "eq2"

SIZES: Final = range(2, 6)
"""Sizes of the rings that the fit saw."""

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
"""Full precision, from the authors' program; the paper's table 2 cuts them to three decimals."""


@dataclass(frozen=True, slots=True)
class Equation2:
    """Rings of 2..5 GPUs on a V100-class node.

    V100-class: single and double NVLinks of generation 2, and PCIe 3 with 16 lanes
    elsewhere, each as fast as MAPA's table 1 says. A node without any NVLink is none.

    A set is valued by its best-aggregate ring. Which of several does not matter: rings of
    one size and equal aggregate at 50, 25 and 12 GB/s have equal counts of links.
    """

    name: str = NAME

    def refusal(self, topology: NodeTopology, pattern: Pattern) -> str | None:
        """Return which part of its domain is left."""
        if pattern.size == 1:
            return None
        if pattern.kind is not PatternKind.RING or pattern.size not in SIZES:
            return f"it was fitted on Ring of 2 to 5 GPUs, not {pattern.kind} of {pattern.size}"
        if not any(link.kind is LinkKind.NVLINK for link in topology.links):
            return "it was fitted on a node with NVLinks, this one has none"
        if (link := stranger(DGX1_V100, topology.links)) is not None:
            return f"it was fitted on {DGX1_V100}, not {LinkClass.of(link)}"
        return None

    def effective_mb_per_s(
        self, topology: NodeTopology, pattern: Pattern, table: EmbeddingTable
    ) -> NDArray[np.int64]:
        """Return equation 2 for every row, to the nearest MB/s."""
        return effective_mb_per_s(COEFFICIENTS, link_mixes(topology, pattern, table, DGX1_V100))
