"""Effective bandwidth of every GPU set, by one model for node and pattern."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gputopo.bandwidth.model import BandwidthModel, require_usable
from gputopo.bandwidth.models import default_model
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.model import Pattern
from gputopo.topology.model import NodeTopology
from gputopo.topology.tables import cached_by_fingerprint


@dataclass(frozen=True, slots=True, eq=False)
class EffectiveTable:
    """What each GPU set of a pattern's size gives it.

    Attributes:
        model: one for the whole table, so that its values compare. None for one GPU,
            which has no link.
        mb_per_s: [rows] as of the embedding table; all 0 for one GPU.
    """

    model: BandwidthModel | None
    mb_per_s: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """Memory of the array."""
        return self.mb_per_s.nbytes


@cached_by_fingerprint
def effective_table(
    topology: NodeTopology, pattern: Pattern, model: BandwidthModel | None
) -> EffectiveTable:
    """Return the effective bandwidth of the best embedding into every set.

    Args:
        topology: the node.
        pattern: of the job.
        model: None for the default one.

    Raises:
        EmbeddingError: on a node of more than 16 GPUs.
        ModelError: where ``model`` may not be used.
    """
    table = embeddings(topology, pattern)
    if pattern.size == 1:
        return EffectiveTable(None, np.zeros(len(table.sets), dtype=np.int64))
    chosen = default_model(topology, pattern) if model is None else model
    require_usable(chosen, topology, pattern)
    return EffectiveTable(chosen, chosen.effective_mb_per_s(topology, pattern, table))
