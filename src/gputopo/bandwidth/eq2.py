"""MAPA's fitted model of effective bandwidth (equation 2), and where it may be used.

The fit: 31 allocations of 2 to 5 GPUs on one DGX-1 V100, NCCL rings. It is not monotone;
outside what it was fitted on its values run away (four double and three single NVLinks
and three PCIe links would give -130 GB/s), hence :meth:`Equation2.refusal`.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.api.enums import LinkKind, PatternKind
from gputopo.patterns.model import Pattern
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import MAX_INDEX, Link, NodeTopology
from gputopo.topology.rates import PCIE_LANES

NAME: Final = "eq2"

SIZES: Final = range(2, 6)
"""Sizes of the rings that the fit saw."""

_COEFFICIENTS: Final = (
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


def predicted_gb_per_s(double_nvlinks: int, single_nvlinks: int, pcie_links: int) -> float:
    """Return equation 2 for a match with this many links of each sort.

    >>> round(predicted_gb_per_s(2, 1, 0), 3)
    57.858
    """
    x, y, z = double_nvlinks, single_nvlinks, pcie_links
    features = (
        *(x, y, z),
        *(1 / (x + 1), 1 / (y + 1), 1 / (z + 1)),
        *(x * y, y * z, z * x),
        *(1 / (x * y + 1), 1 / (y * z + 1), 1 / (z * x + 1)),
        *(x * y * z, 1 / (x * y * z + 1)),
    )
    return sum(map(float.__mul__, _COEFFICIENTS, map(float, features)))


def link_mixes(
    topology: NodeTopology, pattern: Pattern, table: EmbeddingTable
) -> NDArray[np.int64]:
    """Return [rows, 3]: how many of the pattern's edges lie on double, single NVLinks, PCIe.

    The edges of the pattern count, not all links among its GPUs; only so do the paper's
    own figures come out.
    """
    sorts = np.zeros((MAX_INDEX + 1, MAX_INDEX + 1), dtype=np.uint8)
    for link in topology.links:
        sorts[link.a, link.b] = sorts[link.b, link.a] = _sort(link)
    mixes = np.zeros((len(table.sets), 3), dtype=np.int64)
    for edge in pattern.edges:
        beneath = sorts[table.orders[:, edge.a], table.orders[:, edge.b]]
        mixes[np.arange(len(mixes)), beneath] += 1
    return mixes


@dataclass(frozen=True, slots=True)
class Equation2:
    """Rings of 2..5 GPUs on a V100-class node.

    V100-class: single and double NVLinks of generation 2, and PCIe 3 with 16 lanes
    elsewhere. A node without any NVLink is none.
    """

    name: str = NAME

    def refusal(self, topology: NodeTopology, pattern: Pattern) -> str | None:
        """Return which part of its domain is left."""
        if pattern.size == 1:
            return None
        if pattern.kind is not PatternKind.RING or pattern.size not in SIZES:
            return f"it was fitted on rings of 2 to 5 GPUs, not {pattern.kind} of {pattern.size}"
        if not any(link.kind is LinkKind.NVLINK for link in topology.links):
            return "it was fitted on a node with NVLinks"
        strange = next((link for link in topology.links if not _was_fitted(link)), None)
        if strange is not None:
            return (
                "it was fitted on one or two NVLinks 2 and PCIe 3 x16,"
                f" not {strange.kind} {strange.version} x{strange.count}"
            )
        return None

    def effective_mb_per_s(
        self, topology: NodeTopology, pattern: Pattern, table: EmbeddingTable
    ) -> NDArray[np.int64]:
        """Return equation 2 for every row, to the nearest MB/s."""
        mixes = link_mixes(topology, pattern, table)
        kinds, row_kinds = np.unique(mixes, axis=0, return_inverse=True)
        values = [round(1000 * predicted_gb_per_s(*map(int, mix))) for mix in kinds]
        return np.array(values, dtype=np.int64)[row_kinds]


def _sort(link: Link) -> int:
    if link.kind is LinkKind.PCIE:
        return 2
    return 1 if link.count == 1 else 0


def _was_fitted(link: Link) -> bool:
    if link.kind is LinkKind.NVLINK:
        return link.version == 2 and link.count in {1, 2}  # noqa: PLR2004 - said above
    return link.kind is LinkKind.PCIE and link.version == 3 and link.count == PCIE_LANES  # noqa: PLR2004
