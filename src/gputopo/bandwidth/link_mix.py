"""Link mix: how many double NVLinks, single NVLinks and PCIe links a job's pattern uses.

Equation 2 of the MAPA paper needs only this mix. A link counts once for each edge of the pattern
that uses the link. A ring of two GPUs has two edges, so its link counts twice. Only with these
rules does equation 2 give the figures of the paper.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.model import Pattern
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import MAX_INDEX, Link, LinkKind, NodeTopology

FEATURES: Final = 14
"""Number of terms of equation 2."""


@dataclass(frozen=True, slots=True)
class LinkClass:
    """One class of equation 2: links of the same type, generation, count and bandwidth."""

    kind: LinkKind
    version: int
    count: int
    bandwidth_mb_per_s: int

    @classmethod
    def from_link(cls, link: Link) -> "LinkClass":
        """Return the class to which a link belongs."""
        return cls(link.kind, link.version, link.count, link.bandwidth_mb_per_s)

    def __str__(self) -> str:
        """Return the class for messages, such as ``NVLink 2 x1 (25 GB/s)``."""
        return f"{self.kind} {self.version} x{self.count} ({self.bandwidth_mb_per_s / 1000:g} GB/s)"


@dataclass(frozen=True, slots=True)
class LinkClasses:
    """The links of a node that equation 2 counts: double NVLinks, single NVLinks, PCIe links.

    A class is None if the node has no such link.
    """

    double: LinkClass | None
    single: LinkClass | None
    pcie: LinkClass | None

    def __contains__(self, link: Link) -> bool:
        """Return whether a link belongs to one of the classes."""
        return LinkClass.from_link(link) in (self.double, self.single, self.pcie)

    def __str__(self) -> str:
        return ", ".join(str(one) for one in (self.double, self.single, self.pcie) if one)


DGX1_V100: Final = LinkClasses(
    double=LinkClass(LinkKind.NVLINK, 2, 2, 50_000),
    single=LinkClass(LinkKind.NVLINK, 2, 1, 25_000),
    pcie=LinkClass(LinkKind.PCIE, 3, 16, 12_000),
)
"""Link classes of the DGX-1 V100 that MAPA measured (table 1)."""


def unknown_link(classes: LinkClasses, links: Iterable[Link]) -> Link | None:
    """Return the first link that is in none of the classes, or None if each link is in a class."""
    return next((link for link in links if link not in classes), None)


def link_mixes(
    topology: NodeTopology, pattern: Pattern, table: EmbeddingTable, classes: LinkClasses
) -> NDArray[np.int64]:
    """Return [rows, 3]: how many edges of the pattern use double NVLinks, single NVLinks and PCIe.

    ``table`` has the best embeddings of the pattern. Each link of the node must be in one of the
    classes (see :func:`unknown_link`).
    """
    order = (classes.double, classes.single, classes.pcie)
    column = np.zeros((MAX_INDEX + 1, MAX_INDEX + 1), dtype=np.intp)
    for link in topology.links:
        column[link.a, link.b] = column[link.b, link.a] = order.index(LinkClass.from_link(link))
    mixes = np.zeros((len(table.sets), len(order)), dtype=np.int64)
    rows = np.arange(len(mixes))
    for edge in pattern.edges:
        mixes[rows, column[table.orders[:, edge.a], table.orders[:, edge.b]]] += 1
    return mixes


def features(mixes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return [rows, 14]: the terms of equation 2 in the paper's order. ``mixes`` is [rows, 3]."""
    x, y, z = mixes.astype(np.float64).T
    plain = (x, y, z)
    pairs = (x * y, y * z, z * x)
    triple = x * y * z
    terms = (
        *plain,
        *(1 / (one + 1) for one in plain),
        *pairs,
        *(1 / (one + 1) for one in pairs),
        *(triple, 1 / (triple + 1)),
    )
    return np.column_stack(terms)


def predicted_gb_per_s(
    coefficients: tuple[float, ...], mixes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return [rows]: the value of equation 2 with these 14 coefficients. ``mixes`` is [rows, 3]."""
    gb_per_s: NDArray[np.float64] = features(mixes) @ np.array(coefficients)
    return gb_per_s


def effective_mb_per_s(
    coefficients: tuple[float, ...], mixes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the values of :func:`predicted_gb_per_s` in whole MB/s."""
    return np.rint(1000 * predicted_gb_per_s(coefficients, mixes)).astype(np.int64)
