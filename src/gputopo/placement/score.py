"""Score nodes for one job, on the scale of a kube-scheduler extender."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, TypeVar

from gputopo.placement.model import Match

Key = TypeVar("Key", bound=Hashable)

MAX_SCORE: Final = 10
"""kube-scheduler's MaxExtenderPriority: the highest score that an extender can return."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which a job fits.

    Attributes:
        match: the match on this node.
        lost_mb_per_s: how much the placement lowers the sum of link bandwidths between free GPUs.
    """

    match: Match
    lost_mb_per_s: int


def score_nodes(candidates: Mapping[Key, Candidate], *, sensitive: bool) -> dict[Key, int]:
    """Return a score of 0..10 for each candidate; a better candidate never has a lower score.

    A bandwidth-sensitive job with several GPUs prefers the highest effective bandwidth, then the
    least lost bandwidth. All other jobs prefer the least lost bandwidth, then the least bandwidth
    between the GPUs that stay free. So these jobs avoid idle nodes, where many GPUs stay free.
    With the policy Utility, a job prefers the highest utility, and then the same as above.

    The best nodes get 10, the next best 9, and so on. Nodes of the eleventh rank and below get 0.
    Scores are ranks: if they were proportional to bandwidth, one node with a very high bandwidth
    would push the scores of all others to nearly 0. A key of ``candidates`` can stand for several
    nodes with the same links and free GPUs; the number of these nodes does not change the scores.
    """
    ranks = rank_nodes(candidates, sensitive=sensitive)
    return {node: score_of(rank) for node, rank in ranks.items()}


def rank_nodes(candidates: Mapping[Key, Candidate], *, sensitive: bool) -> dict[Key, int]:
    """Return the rank of each candidate, from 0 for the best; see :func:`score_nodes`."""
    keys = _keys(candidates, sensitive=sensitive)
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys.values()), reverse=True))}
    return {node: ranks[value] for node, value in keys.items()}


def score_of(rank: int) -> int:
    """Return the score, 0..10, of a rank from 0."""
    return max(0, MAX_SCORE - rank)


def _keys(candidates: Mapping[Key, Candidate], *, sensitive: bool) -> dict[Key, tuple[int, ...]]:
    """Return the sort key of each candidate; higher is better.

    If one bandwidth model computed the values of all candidates, they are compared by these values,
    and otherwise by ``common_mb_per_s``.
    """
    models = {each.match.model for each in candidates.values()}
    keys: dict[Key, tuple[int, ...]]
    if not sensitive or None in models:  # one GPU has no bandwidth
        keys = {
            key: (-each.lost_mb_per_s, -each.match.preserved_mb_per_s)
            for key, each in candidates.items()
        }
    else:
        bandwidth = attrgetter("effective_mb_per_s" if len(models) == 1 else "common_mb_per_s")
        keys = {
            key: (bandwidth(each.match), -each.lost_mb_per_s) for key, each in candidates.items()
        }
    utilities = {key: it for key, each in candidates.items() if (it := each.match.utility)}
    return keys | {key: (each.value, *keys[key]) for key, each in utilities.items()}
