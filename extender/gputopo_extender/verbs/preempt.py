"""Chooses, for preemption, the nodes on which the freed GPUs suit the pod best.

The preempt verb calls it. kube-scheduler offers nodes with victims. It spares every pod that need
not end for the preemptor to fit, so each victim is needed for something, for instance CPU. So no
victim is removed here. kube-scheduler then takes the node with the cheapest victims; where several
nodes have equal cost, their links decide.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from gputopo.placement.score import Candidate, score_nodes
from gputopo_extender.protocol import Victims
from gputopo_extender.verbs.evaluation import NodeFit


@dataclass(frozen=True, slots=True)
class FreedNode:
    """A node, its victims, and its fit for the preemptor without them.

    Attributes:
        priorities: of the victims; None where unknown, for instance of a pod without GPUs.
    """

    node: str
    victims: Victims
    fit: NodeFit
    priorities: tuple[int | None, ...]


def choose_nodes(freed: Iterable[FreedNode], *, sensitive: bool) -> dict[str, Victims]:
    """Return the nodes from which kube-scheduler should choose, with their victims.

    Nodes that do not fit even without the victims are removed. Of nodes with equal cost by
    kube-scheduler's own measures (violated budgets, highest priority, sum of priorities, number of
    victims) those with the best score stay. A node with a victim of unknown priority is not
    compared with any other.
    """
    groups: defaultdict[object, dict[str, FreedNode]] = defaultdict(dict)
    for each in freed:
        if isinstance(each.fit, Candidate):
            groups[_cost(each)][each.node] = each
    return {
        node: group[node].victims
        for group in groups.values()
        for node in _best(group, sensitive=sensitive)
    }


def _cost(freed: FreedNode) -> object:
    known = [priority for priority in freed.priorities if priority is not None]
    if len(known) < len(freed.priorities):
        return freed.node
    return (freed.victims.pdb_violations, max(known, default=None), sum(known), len(known))


def _best(group: dict[str, FreedNode], *, sensitive: bool) -> list[str]:
    candidates = {node: each.fit for node, each in group.items() if isinstance(each.fit, Candidate)}
    scores = score_nodes(candidates, sensitive=sensitive)
    return [node for node, score in scores.items() if score == max(scores.values())]
