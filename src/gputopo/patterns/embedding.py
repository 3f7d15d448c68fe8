"""The best embedding of a pattern into every GPU set of a node; the entry point of the package.

An embedding maps ranks to GPUs one to one. All pairs of GPUs have a link, so every such map is a
match in MAPA's sense (section 3.3). The best one has the highest aggregate bandwidth (equation 1);
among equals, the lowest GPUs in rank order. A set is represented by its best embedding, because a
library such as NCCL looks for it too: the value of a set does not depend on the order of its GPUs.

Cost for n GPUs and patterns of size k, once for each node topology:

- ring, chain, star: k^2 steps for each set of up to k GPUs, at most n^2 2^n;
- tree: k^3 for each set, because the frontier has one more rank. All these are exact for n <= 16;
- any pattern: k^(w+1) for each set, where w is its vertex separation, and at most all k! orders.
  The search is exact up to :data:`MAX_EXACT_STEPS`; every pattern is below it for n <= 8 or k <= 7;
- above that: k^4 for each set of k GPUs and start, and an upper bound for better embeddings. The
  total may then depend on the numbering of the GPUs;
- all-to-all and other patterns with equal edges between all ranks: k^2 for each set of k GPUs.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.errors import InvalidInputError
from gputopo.patterns.bound import bounds
from gputopo.patterns.exact import best_embeddings
from gputopo.patterns.graph import link_weights
from gputopo.patterns.improve import improved_embeddings
from gputopo.patterns.model import Pattern
from gputopo.patterns.plan import search_plan
from gputopo.patterns.subsets import gpu_masks, subsets
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import NodeTopology, indices_of
from gputopo.topology.tables import cached_by_fingerprint

MAX_NODE_GPUS: Final = 16
"""Tables have one row for each GPU set: at most 2^16 rows in all sizes together."""

MAX_EXACT_STEPS: Final = 100_000_000
"""Limit of an exact search, in steps and not in seconds, so that every machine finds the same.

A step takes about 13 ns on one core of 2024 if there are many rows.
"""

_MAX_TOTAL: Final = 2**53
"""Totals up to this are exact as integers and as floats."""

_Found = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]


class EmbeddingError(InvalidInputError):
    """A node has too many GPUs for tables over all sets, or its totals are too large."""


@cached_by_fingerprint
def embeddings(topology: NodeTopology, pattern: Pattern) -> EmbeddingTable:
    """Return the best embedding of ``pattern`` into every set of ``pattern.size`` GPUs.

    The table is empty if the node has fewer GPUs.

    Raises:
        EmbeddingError: on a node with more than 16 GPUs, or weights and bandwidths whose total
            may exceed 2^53 MB/s.
    """
    if len(topology.gpus) > MAX_NODE_GPUS:
        raise EmbeddingError(
            f"the node has {len(topology.gpus)} GPUs, at most {MAX_NODE_GPUS} are supported"
        )
    fastest = max((link.bandwidth_mb_per_s for link in topology.links), default=0)
    if (most := fastest * sum(edge.weight for edge in pattern.edges)) > _MAX_TOTAL:
        raise EmbeddingError(f"weights times bandwidths: {most} MB/s is more than {_MAX_TOTAL}")
    orders, totals, limits = _search(link_weights(topology), pattern)
    indices = indices_of(topology.mask)
    members = subsets(len(indices), pattern.size).members
    gpus = np.array(indices, dtype=np.uint8)
    return EmbeddingTable(gpu_masks(indices, members), gpus[orders], totals, limits)


def _search(weights: NDArray[np.int64], pattern: Pattern) -> _Found:
    """Return orders by position, totals and bounds."""
    if len(weights) < pattern.size:
        none = np.zeros(0, dtype=np.int64)
        return np.zeros((0, pattern.size), dtype=np.uint8), none, none
    if is_symmetric(pattern):
        return _ascending(weights, pattern)
    plan = search_plan(pattern, len(weights))
    if plan.steps <= MAX_EXACT_STEPS:
        orders, totals = best_embeddings(weights, pattern, plan)
        return orders, totals, totals
    limits = bounds(weights, pattern)
    orders, totals = improved_embeddings(weights, pattern, limits)
    return orders, totals, limits


def is_symmetric(pattern: Pattern) -> bool:
    """Return whether all orders of a set have the same total.

    Such are all-to-all, rings of up to three, and Custom patterns with all pairs in one weight.
    """
    pairs = {(edge.a, edge.b) for edge in pattern.edges}
    weights = {edge.weight for edge in pattern.edges}
    return len(pairs) == pattern.size * (pattern.size - 1) // 2 and len(weights) <= 1


def _ascending(weights: NDArray[np.int64], pattern: Pattern) -> _Found:
    members = subsets(len(weights), pattern.size).members
    totals = np.zeros(len(members), dtype=np.int64)
    for a, b, weight in pattern.edges:
        totals += weight * weights[members[:, a], members[:, b]]
    return members, totals, totals
