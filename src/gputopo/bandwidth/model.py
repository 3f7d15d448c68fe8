"""What a model of effective bandwidth is."""

from collections.abc import Hashable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gputopo.errors import InvalidInputError
from gputopo.patterns.model import Pattern
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import NodeTopology


class ModelError(InvalidInputError):
    """A model that is not known, or that is asked for outside its domain."""


class BandwidthModel(Hashable, Protocol):
    """What embeddings give their job; implementations are hashable values."""

    @property
    def name(self) -> str:
        """What the model is called wherever its values are told."""

    def refusal(self, topology: NodeTopology, pattern: Pattern) -> str | None:
        """Return why the model may not be used here, None where it may."""

    def effective_mb_per_s(
        self, topology: NodeTopology, pattern: Pattern, table: EmbeddingTable
    ) -> NDArray[np.int64]:
        """Return the effective bandwidth of every row of ``table``."""


def require_usable(model: BandwidthModel, topology: NodeTopology, pattern: Pattern) -> None:
    """Do nothing where the model may be used.

    Raises:
        ModelError: elsewhere; the message says why.
    """
    if (reason := model.refusal(topology, pattern)) is not None:
        raise ModelError(f"model: {model.name} cannot be used here: {reason}")
