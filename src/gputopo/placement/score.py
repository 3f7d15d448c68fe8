"""Scores of nodes for one job, as kube-scheduler needs them."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from gputopo.placement.model import Match

Key = TypeVar("Key", bound=Hashable)

MAX_SCORE: Final = 10
"""kube-scheduler's MaxExtenderPriority; it multiplies a score by the extender's weight."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which a job fits.

    Attributes:
        match: the match on this node.
        lost_mb_per_s: bandwidth among the free GPUs before the placement minus that after it.
    """

    match: Match
    lost_mb_per_s: int


def score_nodes(candidates: Mapping[Key, Candidate], *, sensitive: bool) -> dict[Key, int]:
    """Return a score of 0..10 for each candidate; a better one never has a lower score.

    A key may stand for several nodes of equal state; their number does not change the scores.

    For a sensitive job with several GPUs, the best node has the highest effective bandwidth, and
    among equals the least lost bandwidth. For all other jobs it has the least lost bandwidth, and
    among equals the least preserved bandwidth, so that idle nodes stay idle.

    The best nodes have 10, the next best 9, and so on; from the eleventh rank on all have 0.
    Scores are ranks and not proportional to bandwidth, so that one node with a very high bandwidth
    does not make all others equal.
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
    """Return the sort key of a node; higher is better.

    Args:
        candidate: the node.
        sensitive: whether the job is sensitive.
        one_model: whether the values of all compared nodes are from one model. Values of two
            models cannot be compared; then the common model is used.
    """
    match = candidate.match
    bandwidth = match.effective_mb_per_s if one_model else match.common_mb_per_s
    if not sensitive or bandwidth is None:
        return -candidate.lost_mb_per_s, -match.preserved_mb_per_s
    return bandwidth, -candidate.lost_mb_per_s
