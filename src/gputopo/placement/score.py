"""Which node suits a job best, in the scheduler's small numbers."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from gputopo.bandwidth import eq2
from gputopo.placement.model import Match
from gputopo.wire.extender import MAX_SCORE

Key = TypeVar("Key", bound=Hashable)


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


def _keys(
    candidates: Mapping[Key, Candidate], *, sensitive: bool
) -> dict[Key, tuple[int, int]]:
    """Return what each node is ranked by: the higher the better."""
    matches = [candidate.match for candidate in candidates.values()]
    if not sensitive or any(len(match.gpus) == 1 for match in matches):
        return {
            node: (-candidate.lost_mb_per_s, -candidate.match.preserved_mb_per_s)
            for node, candidate in candidates.items()
        }
    # Values of two models do not compare; the aggregate is there for every node.
    by_eq2 = all(match.model == eq2.NAME for match in matches)
    return {
        node: (_bandwidth(candidate.match, by_eq2=by_eq2), -candidate.lost_mb_per_s)
        for node, candidate in candidates.items()
    }


def _bandwidth(match: Match, *, by_eq2: bool) -> int:
    if by_eq2 and match.effective_mb_per_s is not None:
        return match.effective_mb_per_s
    return match.aggregate_mb_per_s
