"""The best embedding of a pattern into every GPU set of a node.

An embedding maps rank to GPU one to one. All pairs of GPUs are linked, so every such
map is a match in MAPA's sense (section 3.3); the best one has the highest aggregate
bandwidth (equation 1), and the lowest GPUs in rank order among equals. A set is known
by its best embedding alone, since that is what a library such as NCCL looks for: the
value of a set must not depend on the order in which its GPUs are named.

What it costs for n GPUs and patterns of size k, once for each node structure:

- ring, chain, star: k^2 steps for each of the sets of up to k GPUs, at most n^2 2^n;
- tree: k^3 for each, since one more rank stays open; all these are exact for n <= 16;
- any pattern: k^(w+1) for each, where w is its vertex separation, at most all k! orders of
  each set: exact up to :data:`MAX_EXACT_STEPS`, which every pattern is for n <= 8 or k <= 7;
- beyond that the work is k^4 for each set of k GPUs and start, and a bound tells how much
  better an embedding might be. The total then may depend on how the GPUs are numbered;
- all-to-all, and any other pattern that joins all ranks alike: k^2 for each set of k.
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
from gputopo.patterns.plan import plan
from gputopo.patterns.subsets import gpu_masks, subsets
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import NodeTopology, indices_of
from gputopo.topology.tables import cached_by_fingerprint

MAX_NODE_GPUS: Final = 16
"""Tables hold one entry for each GPU set, at most 2^16 in all sizes together."""

MAX_EXACT_STEPS: Final = 100_000_000
"""Steps of an exact search; more are not begun. Steps, not seconds: a slow machine finds the same.

About 13 ns each on one core of 2024, where rows are many.
"""

_MOST: Final = 2**53
"""Totals up to here are exact in every kind of number in use."""

_Found = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]


class EmbeddingError(InvalidInputError):
    """A node that is too big for tables over all its GPU sets, or numbers too big for them."""


@cached_by_fingerprint
def embeddings(topology: NodeTopology, pattern: Pattern) -> EmbeddingTable:
    """Return the best embedding of ``pattern`` into every set of ``pattern.size`` GPUs.

    The table has no row where the node has fewer GPUs.

    Raises:
        EmbeddingError: on a node of more than 16 GPUs, or weights and bandwidths whose
            total might exceed 2^53 MB/s.
    """
    if len(topology.gpus) > MAX_NODE_GPUS:
        raise EmbeddingError(
            f"the node has {len(topology.gpus)} GPUs, at most {MAX_NODE_GPUS} are supported"
        )
    fastest = max((link.bandwidth_mb_per_s for link in topology.links), default=0)
    if (most := fastest * sum(edge.weight for edge in pattern.edges)) > _MOST:
        raise EmbeddingError(f"weights times bandwidths: {most} MB/s in all is more than {_MOST}")
    orders, totals, limits = _search(link_weights(topology), pattern)
    indices = indices_of(topology.mask)
    members = subsets(len(indices), pattern.size).members
    gpus = np.array(indices, dtype=np.uint8)
    return EmbeddingTable(gpu_masks(indices, members), gpus[orders], totals, limits)


def _search(weights: NDArray[np.int64], pattern: Pattern) -> _Found:
    """Return orders by position, totals, and bounds."""
    if len(weights) < pattern.size:
        none = np.zeros(0, dtype=np.int64)
        return np.zeros((0, pattern.size), dtype=np.uint8), none, none
    if joins_all_alike(pattern):
        return _ascending(weights, pattern)
    chosen = plan(pattern, len(weights))
    if chosen.steps <= MAX_EXACT_STEPS:
        orders, totals = best_embeddings(weights, pattern, chosen)
        return orders, totals, totals
    limits = bounds(weights, pattern)
    orders, totals = improved_embeddings(weights, pattern, limits)
    return orders, totals, limits


def joins_all_alike(pattern: Pattern) -> bool:
    """Return whether every order of a set has the same total.

    So do all-to-all, rings of up to three, and a Custom pattern of all pairs in one weight.
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
