"""All-to-all: every order of a set is as good as any other, so the ascending one."""

from itertools import combinations

from gputopo.patterns.graph import Embedding, LinkWeights
from gputopo.topology.model import GpuMask


def complete_embeddings(weights: LinkWeights, size: int) -> dict[GpuMask, Embedding]:
    """Return every set of ``size`` GPUs in ascending order, with the sum of all its links."""
    mb_per_s = weights.mb_per_s
    return {
        weights.mask(positions): Embedding(
            order=weights.gpus(positions),
            aggregate_mb_per_s=sum(mb_per_s[a][b] for a, b in combinations(positions, 2)),
        )
        for positions in weights.sets(size)
    }
