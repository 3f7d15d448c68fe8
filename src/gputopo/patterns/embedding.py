"""The best embedding of a pattern into every GPU set of a node.

An embedding maps rank to GPU one to one. All pairs of GPUs are linked, so every such
map is a match in MAPA's sense (section 3.3); the best one has the highest aggregate
bandwidth (equation 1), and the lowest GPUs in rank order among equals. A set is known
by its best embedding alone, since that is what a library such as NCCL looks for: the
value of a set must not depend on the order in which its GPUs are named.
"""

from collections.abc import Mapping
from typing import Final

from gputopo.api.enums import PatternKind
from gputopo.patterns.complete import complete_embeddings
from gputopo.patterns.graph import Embedding, LinkWeights
from gputopo.patterns.model import Pattern
from gputopo.patterns.ring import ring_embeddings
from gputopo.patterns.search import searched_embeddings
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo.topology.shared import shared_by_equal_nodes

MAX_NODE_GPUS: Final = 16
"""Tables hold one entry for each GPU set, at most 2^16 in all sizes together."""


class EmbeddingError(ValueError):
    """A node that is too big for tables over all its GPU sets."""


@shared_by_equal_nodes(maxsize=64)
def embeddings(topology: NodeTopology, pattern: Pattern) -> Mapping[GpuMask, Embedding]:
    """Return the best embedding of ``pattern`` into every set of ``pattern.size`` GPUs.

    Cost grows with the GPUs n and the size k: for a ring n * k for each of the sets of up
    to k GPUs (Held and Karp, 1962; exact); for all-to-all k^2 for each set of k GPUs; for
    Custom at most ``search.NODE_BUDGET`` steps (exact up to 8 GPUs, else as it says).

    Raises:
        EmbeddingError: on a node of more than 16 GPUs.
    """
    if len(topology.gpus) > MAX_NODE_GPUS:
        raise EmbeddingError(
            f"the node has {len(topology.gpus)} GPUs, at most {MAX_NODE_GPUS} are supported"
        )
    weights = LinkWeights.of(topology)
    if pattern.kind is PatternKind.RING:
        return ring_embeddings(weights, pattern.size)
    if pattern.kind is PatternKind.ALL_TO_ALL:
        return complete_embeddings(weights, pattern.size)
    return searched_embeddings(weights, pattern)
