"""The pattern that one window shows.

Example: the pairs of four GPUs have 100, 95, 104, 98, 4 and 0 MB/s. Pairs with more than a fifth of
the highest value are edges. If the four edges form a cycle, the window shows Ring.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from gputopo.counters.graphs import graph_of, pattern_of
from gputopo.counters.pairs import PairTraffic
from gputopo.patterns.model import PatternKind
from gputopo.topology.model import GpuIndex

QUIET_BELOW: Final = 0.01
"""A window in which every pair uses less than this share of its capacity is quiet."""

EDGE_FROM: Final = 0.25
"""A pair with at least this share of the highest traffic is an edge of the pattern."""

BACKGROUND_BELOW: Final = 0.1
"""A pair with less than this share of the highest traffic is not an edge of the pattern."""


class NoShape(StrEnum):
    """Why a window shows no pattern.

    ``QUIET``: there is nearly no traffic. ``UNCLEAR``: a pair may be an edge or background, or no
    pattern has this graph.
    """

    QUIET = "Quiet"
    UNCLEAR = "Unclear"


Shape: TypeAlias = PatternKind | NoShape


def shape_of(traffic: Mapping[tuple[GpuIndex, GpuIndex], PairTraffic]) -> Shape:
    """Return the pattern that the traffic of all pairs of at least two GPUs shows."""
    if all(pair.utilisation < QUIET_BELOW for pair in traffic.values()):
        return NoShape.QUIET
    highest = max(pair.mb_per_s for pair in traffic.values())
    shares = {pair: each.mb_per_s / highest for pair, each in traffic.items()}
    if any(BACKGROUND_BELOW <= share < EDGE_FROM for share in shares.values()):
        return NoShape.UNCLEAR
    ranks = {
        gpu: rank for rank, gpu in enumerate(sorted({gpu for pair in traffic for gpu in pair}))
    }
    edges = ((ranks[a], ranks[b]) for (a, b), share in shares.items() if share >= EDGE_FROM)
    return pattern_of(graph_of(len(ranks), edges)) or NoShape.UNCLEAR
