"""Summarizes an evaluation: how the chosen node compares with the other nodes.

filter calls this module, and bind writes the summary into the placement annotation.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputopo.api.replay import RecordedNodes
from gputopo.placement.score import score_of
from gputopo_scheduling.evaluation import Evaluation, MisfitKind


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """The nodes of one evaluation, without their states.

    Attributes:
        ranks: rank of each node that filter returned, from 0 for the best.
        sizes: number of fitting nodes by rank.
        misfits: number of nodes that do not fit, by the kind of reason.
    """

    ranks: Mapping[str, int]
    sizes: Mapping[int, int]
    misfits: Mapping[MisfitKind, int]

    def of_node(self, node: str) -> RecordedNodes | None:
        """Return how a node compares with the others; None if filter did not return the node."""
        rank = self.ranks.get(node)
        if rank is None:
            return None
        fitted = sum(self.sizes.values())
        return RecordedNodes.model_construct(
            compared=fitted + sum(self.misfits.values()),
            fitted=fitted,
            better=sum(count for each, count in self.sizes.items() if each < rank),
            equal=self.sizes[rank] - 1,
            score=score_of(rank),
            misfits={kind.value: count for kind, count in self.misfits.items()},
        )


def compare(
    found: Evaluation, offered: Sequence[str], ranks: Mapping[str, int], *, sensitive: bool
) -> NodeComparison:
    """Return how the nodes of an evaluation compare.

    Args:
        found: the evaluation of all nodes.
        offered: the nodes that filter returns.
        ranks: rank of each node that fits, or of the best only, if gputopo sizes the pod
            (:mod:`gputopo_scheduling.cpu_shares`).
        sensitive: whether the pod is bandwidth-sensitive; used if there are no ranks.
    """
    if ranks:
        by_node = ranks
        sizes = Counter(by_node.values())
        if others := found.count_fitting() - len(ranks):
            sizes[max(sizes) + 1] = others
    else:
        by_key = found.ranks_by_key(sensitive=sensitive)
        by_node = {node: by_key[key] for node, key in found.keys_of({*offered}).items()}
        sizes = Counter()
        for key, rank in by_key.items():
            sizes[rank] += found.nodes_of_key[key]
    return NodeComparison({node: by_node[node] for node in offered}, sizes, found.misfit_counts)
