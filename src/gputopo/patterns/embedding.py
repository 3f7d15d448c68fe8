"""Find the best embedding of a pattern into every GPU set of a node.

An embedding assigns each rank a GPU of its own. All pairs of GPUs have a link, so every embedding
is a match as in MAPA (section 3.3). The best embedding has the highest aggregate bandwidth
(equation 1). If several embeddings have this bandwidth, the best one has the lowest GPU index for
rank 0, then for rank 1, and so on. Only the best embedding of each set is used, because libraries
such as NCCL also search for the best order.

The search runs once for each node topology. It places one rank after another. Its cost depends on
w, the largest number of placed ranks that have an edge to an unplaced rank (the "vertex separation"
of the pattern). The numbers of steps for n GPUs and a pattern of k ranks are:

- Ring, chain, star: k^2 for each set of up to k GPUs, at most n^2 2^n in all, because w is 1. Rank
  0 of a ring does not count, because it is always on the lowest GPU of the set.
- Tree: k^3 for each set, because w is 2.
- Other patterns: k^(w+1) for each set, but at most k!, the number of rank orders.
- All-to-all and other patterns with equal edges between all ranks: k^2 for each set.
- All patterns on a node whose links are all equal, such as a DGX-2: k^2 for each set.

The exact search is used up to :data:`MAX_EXACT_STEPS` steps. This includes all rings, chains, stars
and trees for n <= 16, and all patterns for n <= 8 or k <= 7. Above this limit, a local search
replaces it: k^4 steps for each set and each start embedding. Its result may not be the best, and
may depend on the numbering of the GPUs. So the table also has an upper bound of the best bandwidth.
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
"""Tables have one row for each GPU set, so all sizes together have at most 2^16 rows."""

MAX_EXACT_STEPS: Final = 100_000_000
"""Limit of the exact search, in steps: a limit in seconds would make results vary by machine.

If there are many rows, one step takes about 4 ns on one core of a processor of 2024.
"""

_MAX_TOTAL: Final = 2**53
"""Largest total for which a float represents each whole number exactly."""

_Found = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]


class EmbeddingError(InvalidInputError):
    """The node has too many GPUs for a table of all GPU sets, or a bandwidth sum is too large."""


@cached_by_fingerprint
def embeddings(topology: NodeTopology, pattern: Pattern) -> EmbeddingTable:
    """Return the best embedding of ``pattern`` into every set of ``pattern.size`` GPUs.

    The table is empty if the node has fewer GPUs than the pattern has ranks.

    Raises:
        EmbeddingError: on a node with more than 16 GPUs, or if the sum of weight times bandwidth
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
    """Return for each GPU set: the GPU position of each rank, the bandwidth and its upper bound."""
    if len(weights) < pattern.size:
        none = np.zeros(0, dtype=np.int64)
        return np.zeros((0, pattern.size), dtype=np.uint8), none, none
    if is_symmetric(pattern) or _has_equal_links(weights):
        return _ascending(weights, pattern)
    plan = search_plan(pattern, len(weights))
    if plan.steps <= MAX_EXACT_STEPS:
        orders, totals = best_embeddings(weights, pattern, plan)
        return orders, totals, totals
    limits = bounds(weights, pattern)
    orders, totals = improved_embeddings(weights, pattern, limits)
    return orders, totals, limits


def is_symmetric(pattern: Pattern) -> bool:
    """Return whether all rank orders of a GPU set have the same aggregate bandwidth.

    This holds for AllToAll, rings of up to three ranks, and Custom patterns with equal edges
    between all ranks.
    """
    pairs = {(edge.a, edge.b) for edge in pattern.edges}
    weights = {edge.weight for edge in pattern.edges}
    return len(pairs) == pattern.size * (pattern.size - 1) // 2 and len(weights) <= 1


def _has_equal_links(weights: NDArray[np.int64]) -> bool:
    """Return whether all links of the node have one bandwidth, as with an NVSwitch.

    Then all rank orders of a GPU set have the same aggregate bandwidth.
    """
    links = weights[~np.eye(len(weights), dtype=bool)]
    return bool((links == links[0]).all())


def _ascending(weights: NDArray[np.int64], pattern: Pattern) -> _Found:
    members = subsets(len(weights), pattern.size).members
    totals = np.zeros(len(members), dtype=np.int64)
    for a, b, weight in pattern.edges:
        totals += weight * weights[members[:, a], members[:, b]]
    return members, totals, totals
