"""Effective bandwidth of every GPU set, by the model that is valid for node and pattern."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gputopo.bandwidth import aggregate, eq2
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.graph import Embedding
from gputopo.patterns.model import Pattern
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo.topology.shared import shared_by_equal_nodes

EffectiveBandwidth = Callable[[NodeTopology, Pattern, Embedding], int]
"""A bandwidth model: what an embedding gives its job, in MB/s."""


@dataclass(frozen=True, slots=True)
class EffectiveTable:
    """What each GPU set of a pattern's size gives it.

    Attributes:
        model: name of the model; one for the whole table, so that its values compare.
            None for one GPU, which has no link.
        mb_per_s: by set; empty for one GPU.
    """

    model: str | None
    mb_per_s: Mapping[GpuMask, int]


def default_model(topology: NodeTopology, pattern: Pattern) -> tuple[str, EffectiveBandwidth]:
    """Return name and function of the model that ranks this node's sets for this pattern.

    Equation 2 in its domain, the aggregate elsewhere: never both for one node and pattern.
    """
    if eq2.applies(topology, pattern):
        return eq2.NAME, eq2.effective_mb_per_s
    return aggregate.NAME, aggregate.effective_mb_per_s


@shared_by_equal_nodes(maxsize=64)
def effective_table(topology: NodeTopology, pattern: Pattern) -> EffectiveTable:
    """Return the effective bandwidth of the best embedding into every set.

    Raises:
        EmbeddingError: on a node of more than 16 GPUs.
    """
    if pattern.size == 1:
        return EffectiveTable(None, {})
    model, effective = default_model(topology, pattern)
    table = embeddings(topology, pattern)
    return EffectiveTable(
        model, {gpus: effective(topology, pattern, found) for gpus, found in table.items()}
    )
