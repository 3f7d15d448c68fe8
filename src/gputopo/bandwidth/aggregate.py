"""Aggregate bandwidth as a model of effective bandwidth: valid for every pattern and link."""

from typing import Final

from gputopo.patterns.graph import Embedding
from gputopo.patterns.model import Pattern
from gputopo.topology.model import NodeTopology

NAME: Final = "aggregate"


def effective_mb_per_s(_topology: NodeTopology, _pattern: Pattern, embedding: Embedding) -> int:
    """Return the aggregate bandwidth of the embedding (MAPA, equation 1).

    It ranks sets for one pattern; it is no estimate of what a job would measure.
    """
    return embedding.aggregate_mb_per_s
