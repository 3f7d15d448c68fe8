"""Equation 2 of the MAPA paper, a fitted model of effective bandwidth, and where it is valid.

MAPA fitted the equation on 31 sets of 2 to 5 GPUs of one DGX-1 V100, with NCCL rings. For other GPU
sets and patterns, the equation can give wrong values: a ring with 4 double NVLinks, 3 single
NVLinks and 3 PCIe links gets -130 GB/s. So :meth:`Equation2.unsupported_reason` rejects them.
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
"""Numbers of GPUs of the measured rings."""

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
"""Coefficients of the authors' program; table 2 of the paper rounds them to three decimals."""


@dataclass(frozen=True, slots=True)
class Equation2:
    """Equation 2, for rings of 2..5 GPUs on a V100-class node.

    Such a node has at least one NVLink. Each pair of its GPUs is connected by one or two NVLinks of
    generation 2 or by 16 lanes of PCIe 3, with the bandwidths of MAPA's table 1.

    Equation 2 is applied to the ring with the highest aggregate bandwidth in each GPU set. If a set
    has several such rings, all have the same links and so the same value. For instance, of four
    links with 50, 25 or 12 GB/s, only 50 + 50 + 12 + 12 gives a sum of 124 GB/s.
    """

    name: str = "eq2"

    def unsupported_reason(self, topology: NodeTopology, pattern: Pattern) -> str | None:
        """Return why the model does not support node or pattern, or None if it supports both."""
        if pattern.size == 1:
            return None
        if pattern.kind is not PatternKind.RING or pattern.size not in SIZES:
            return f"it was fitted on Ring of 2 to 5 GPUs, not {pattern.kind} of {pattern.size}"
        if not any(link.kind is LinkKind.NVLINK for link in topology.links):
            return "it was fitted on a node with NVLinks; this node has no NVLink"
        if (link := unknown_link(DGX1_V100, topology.links)) is not None:
            return f"it was fitted on {DGX1_V100}, not {LinkClass.from_link(link)}"
        return None

    def effective_mb_per_s(
        self, topology: NodeTopology, pattern: Pattern, table: EmbeddingTable
    ) -> NDArray[np.int64]:
        """Return the value of equation 2 for each GPU set (row of ``table``), in whole MB/s."""
        return effective_mb_per_s(COEFFICIENTS, link_mixes(topology, pattern, table, DGX1_V100))
