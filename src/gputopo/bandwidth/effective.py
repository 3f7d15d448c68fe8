"""Compute the effective bandwidth of every GPU set of a node by one bandwidth model."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gputopo.bandwidth.model import BandwidthModel, require_supported
from gputopo.bandwidth.models import default_model
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.model import Pattern
from gputopo.topology.model import NodeTopology
from gputopo.topology.tables import cached_by_fingerprint


@dataclass(frozen=True, slots=True, eq=False)
class EffectiveTable:
    """Effective bandwidth of each GPU set that has as many GPUs as the pattern.

    Attributes:
        model: the bandwidth model that computed all rows. None for a pattern of one GPU, which uses
            no link.
        mb_per_s: [rows] one value for each row of the embedding table; 0 for a pattern of one GPU.
    """

    model: BandwidthModel | None
    mb_per_s: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """Memory of the array in bytes."""
        return self.mb_per_s.nbytes

    @property
    def worst_and_best(self) -> tuple[int, int] | None:
        """Lowest and highest effective bandwidth of all sets; None for a pattern of one GPU."""
        if self.model is None:
            return None
        return int(self.mb_per_s.min()), int(self.mb_per_s.max())


@cached_by_fingerprint
def effective_table(
    topology: NodeTopology, pattern: Pattern, model: BandwidthModel | None
) -> EffectiveTable:
    """Return the effective bandwidth of the best embedding of ``pattern`` into every GPU set.

    If ``model`` is None, the default model of the node and the pattern is used.

    Raises:
        EmbeddingError: on a node with more than 16 GPUs.
        ModelError: if ``model`` does not support the node or the pattern.
    """
    table = embeddings(topology, pattern)
    if pattern.size == 1:
        return EffectiveTable(None, np.zeros(len(table.sets), dtype=np.int64))
    if model is None:
        # The table of the chosen model is cached too, so that callers can also name the model.
        return effective_table(topology, pattern, default_model(topology, pattern))
    require_supported(model, topology, pattern)
    return EffectiveTable(model, model.effective_mb_per_s(topology, pattern, table))
