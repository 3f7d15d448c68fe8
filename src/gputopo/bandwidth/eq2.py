"""MAPA's fitted model of effective bandwidth (equation 2), and where it may be used.

The fit: 31 allocations of 2 to 5 GPUs on one DGX-1 V100, NCCL rings. It is not monotone;
outside what it was fitted on its values run away (four double and three single NVLinks
and three PCIe links would give -130 GB/s), hence :func:`applies`.
"""

from typing import Final

from gputopo.api.enums import LinkKind, PatternKind
from gputopo.patterns.graph import Embedding
from gputopo.patterns.model import Pattern
from gputopo.topology.model import Link, NodeTopology
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


def applies(topology: NodeTopology, pattern: Pattern) -> bool:
    """Return whether the model may be used: rings of 2..5 GPUs on a V100-class node.

    V100-class: single and double NVLinks of generation 2, and PCIe 3 with 16 lanes
    elsewhere. A node without any NVLink is none.
    """
    return (
        pattern.kind is PatternKind.RING
        and pattern.size in SIZES
        and any(link.kind is LinkKind.NVLINK for link in topology.links)
        and all(_was_fitted(link) for link in topology.links)
    )


def link_mix(
    topology: NodeTopology, pattern: Pattern, embedding: Embedding
) -> tuple[int, int, int]:
    """Return how many of the pattern's edges lie on double NVLinks, single NVLinks and PCIe.

    The edges of the pattern count, not all links among its GPUs; only so do the paper's
    own figures come out.
    """
    double = single = pcie = 0
    for edge in pattern.edges:
        link = topology.link_of[embedding.order[edge.a], embedding.order[edge.b]]
        if link.kind is LinkKind.PCIE:
            pcie += 1
        elif link.count == 1:
            single += 1
        else:
            double += 1
    return double, single, pcie


def effective_mb_per_s(topology: NodeTopology, pattern: Pattern, embedding: Embedding) -> int:
    """Return equation 2 for an embedding, to the nearest MB/s; only where it :func:`applies`."""
    return round(1000 * predicted_gb_per_s(*link_mix(topology, pattern, embedding)))


def _was_fitted(link: Link) -> bool:
    if link.kind is LinkKind.NVLINK:
        return link.version == 2 and link.count in {1, 2}  # noqa: PLR2004 - said above
    return link.kind is LinkKind.PCIE and link.version == 3 and link.count == PCIE_LANES  # noqa: PLR2004
