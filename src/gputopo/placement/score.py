"""Which node suits a job best, in the scheduler's small numbers."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from gputopo.placement.model import Match

Key = TypeVar("Key", bound=Hashable)

MAX_SCORE: Final = 10
"""kube-scheduler's MaxExtenderPriority; it multiplies a score by the extender's weight."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node's answer to one job.

    Attributes:
        lost_mb_per_s: preserved bandwidth of the node's free GPUs before, minus after.
    """

    match: Match
    lost_mb_per_s: int


def score_nodes(candidates: Mapping[Key, Candidate], *, sensitive: bool) -> dict[Key, int]:
    """Return a score of 0..10 for each node; a better node never has a lower one.

    A key may stand for many nodes alike: how many there are of a sort does not matter.

    Sensitive jobs of several GPUs: the node of the highest effective bandwidth, ties by
    the least preserved bandwidth lost. All others: the least lost, then the least left,
    so that whole nodes stay whole.

    The best nodes have 10, the next best 9, and so on; from the eleventh on all have 0.
    Ranks, not magnitudes: one node far ahead must not press the others together.
    """
    keys = _keys(candidates, sensitive=sensitive)
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys.values()), reverse=True))}
    return {node: max(0, MAX_SCORE - ranks[value]) for node, value in keys.items()}


def _keys(candidates: Mapping[Key, Candidate], *, sensitive: bool) -> dict[Key, tuple[int, int]]:
    models = {candidate.match.model for candidate in candidates.values()}
    one_model = len(models) == 1
    return {
        key: rank_key(candidate, sensitive=sensitive, one_model=one_model)
        for key, candidate in candidates.items()
    }


def rank_key(candidate: Candidate, *, sensitive: bool, one_model: bool) -> tuple[int, int]:
    """Return what a node is ranked by: the higher the better.

    Args:
        candidate: the node's answer.
        sensitive: whether links matter to the job.
        one_model: whether all nodes it is compared with are valued by one model. Values
            of two do not compare; those of the model that is valid everywhere do.
    """
    match = candidate.match
    bandwidth = match.effective_mb_per_s if one_model else match.common_mb_per_s
    if not sensitive or bandwidth is None:
        return -candidate.lost_mb_per_s, -match.preserved_mb_per_s
    return bandwidth, -candidate.lost_mb_per_s
