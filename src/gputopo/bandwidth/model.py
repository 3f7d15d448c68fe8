"""The interface of bandwidth models."""

from collections.abc import Hashable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gputopo.errors import InvalidInputError
from gputopo.patterns.model import Pattern
from gputopo.patterns.table import EmbeddingTable
from gputopo.topology.model import NodeTopology


class ModelError(InvalidInputError):
    """A bandwidth model is unknown, or does not support the node or pattern."""


class BandwidthModel(Hashable, Protocol):
    """A model that predicts the effective bandwidth of embeddings. Models are hashable."""

    @property
    def name(self) -> str:
        """Name of the model in the API, on the command line and in messages."""

    def unsupported_reason(self, topology: NodeTopology, pattern: Pattern) -> str | None:
        """Return why the model does not support node or pattern, or None if it supports both."""

    def effective_mb_per_s(
        self, topology: NodeTopology, pattern: Pattern, table: EmbeddingTable
    ) -> NDArray[np.int64]:
        """Return the effective bandwidth of every row of ``table``."""


def require_supported(model: BandwidthModel, topology: NodeTopology, pattern: Pattern) -> None:
    """Check that the model supports the node and the pattern.

    Raises:
        ModelError: if the model does not support one of them; the message has the reason.
    """
    if (reason := model.unsupported_reason(topology, pattern)) is not None:
        raise ModelError(f"model: {model.name} cannot be used here: {reason}")
