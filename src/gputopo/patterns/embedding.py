"""The best embedding of a pattern into every GPU set of a node.

An embedding maps rank to GPU one to one. All pairs of GPUs are linked, so every such
map is a match in MAPA's sense (section 3.3); the best one has the highest aggregate
bandwidth (equation 1), and the lowest GPUs in rank order among equals. A set is known
by its best embedding alone, since that is what a library such as NCCL looks for: the
value of a set must not depend on the order in which its GPUs are named.
"""

from typing import Final

import numpy as np

from gputopo.api.enums import PatternKind
from gputopo.patterns.complete import complete_embeddings
from gputopo.patterns.graph import LinkWeights
from gputopo.patterns.model import Pattern
from gputopo.patterns.ring import ring_embeddings
from gputopo.patterns.search import searched_embeddings
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import NodeTopology
from gputopo.topology.shared import shared_by_equal_nodes

MAX_NODE_GPUS: Final = 16
"""Tables hold one entry for each GPU set, at most 2^16 in all sizes together."""


class EmbeddingError(ValueError):
    """A node that is too big for tables over all its GPU sets."""


@shared_by_equal_nodes
def embeddings(topology: NodeTopology, pattern: Pattern) -> EmbeddingTable:
    """Return the best embedding of ``pattern`` into every set of ``pattern.size`` GPUs.

    Raises:
        EmbeddingError: on a node of more than 16 GPUs.
    """
    if len(topology.gpus) > MAX_NODE_GPUS:
        raise EmbeddingError(
            f"the node has {len(topology.gpus)} GPUs, at most {MAX_NODE_GPUS} are supported"
        )
    weights = LinkWeights.of(topology)
    if pattern.kind is PatternKind.RING:
        found = ring_embeddings(weights, pattern.size)
    elif pattern.kind is PatternKind.ALL_TO_ALL:
        found = complete_embeddings(weights, pattern.size)
    else:
        found = searched_embeddings(weights, pattern)
    totals = [one.aggregate_mb_per_s for one in found.values()]
    unproved = 2**62
    bounds = [one.aggregate_mb_per_s if one.exact else unproved for one in found.values()]
    orders = [one.order for one in found.values()]
    return EmbeddingTable(
        np.array(list(found), dtype=np.uint64),
        np.array(orders, dtype=np.uint8).reshape(len(found), pattern.size),
        np.array(totals, dtype=np.int64),
        np.array(bounds, dtype=np.int64),
    )
