"""The GPU sets that a policy may choose from, and their figures."""

from collections.abc import Iterator
from itertools import combinations

from gputopo.bandwidth.effective import effective_table
from gputopo.bandwidth.preserved import preserved_table
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.graph import Embedding
from gputopo.placement.model import Match, PlacementRequest
from gputopo.topology.model import GpuMask, NodeTopology, indices_of


class Options:
    """All sets of the asked size among a node's free GPUs; there is at least one.

    Attributes:
        free: the GPUs to choose from.
        request: what is asked for.
    """

    def __init__(self, topology: NodeTopology, free: GpuMask, request: PlacementRequest) -> None:
        """Look the tables of the node and the pattern up, or build them."""
        self.free = free
        self.request = request
        self._embeddings = embeddings(topology, request.pattern)
        self._effective = effective_table(topology, request.pattern)
        self._preserved = preserved_table(topology)

    def sets(self) -> Iterator[GpuMask]:
        """Return the sets, lowest indices first: ``max`` over them settles ties so."""
        bits = [1 << index for index in indices_of(self.free)]
        return map(GpuMask, map(sum, combinations(bits, self.request.pattern.size)))

    def embedding(self, gpus: GpuMask) -> Embedding:
        """Return the best embedding of the pattern into a set."""
        return self._embeddings[gpus]

    def effective_mb_per_s(self, gpus: GpuMask) -> int:
        """Return a set's effective bandwidth; 0 for one GPU, so that all are equal."""
        return self._effective.mb_per_s.get(gpus, 0)

    def preserved_mb_per_s(self, gpus: GpuMask) -> int:
        """Return what the GPUs left free are worth once ``gpus`` are taken."""
        return self._preserved[GpuMask(self.free & ~gpus)]

    def match(self, gpus: GpuMask) -> Match:
        """Return the answer for a chosen set."""
        embedding = self.embedding(gpus)
        return Match(
            gpus=embedding.order,
            aggregate_mb_per_s=embedding.aggregate_mb_per_s,
            effective_mb_per_s=self._effective.mb_per_s.get(gpus),
            model=self._effective.model,
            preserved_mb_per_s=self.preserved_mb_per_s(gpus),
            exact=embedding.exact,
        )
