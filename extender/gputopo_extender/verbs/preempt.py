"""Which of the nodes that kube-scheduler would free for a pod are worth it.

kube-scheduler chooses victims by number: it spares every pod without whose end the preemptor
would still fit, so each victim that it offers is needed for something, be it CPU. None is left
out here. Of the nodes it then takes the one whose victims matter least; where several are equal
in that, the links decide.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from gputopo.placement.score import Candidate, score_nodes
from gputopo_extender.protocol import Victims
from gputopo_extender.verbs.evaluation import NodeFit


@dataclass(frozen=True, slots=True)
class FreedNode:
    """A node, its victims, and what it could offer the preemptor without them.

    Attributes:
        priorities: of the victims; None where one is not known, as of a pod without GPUs.
    """

    node: str
    victims: Victims
    answer: NodeFit
    priorities: tuple[int | None, ...]


def chosen(freed: Iterable[FreedNode], *, sensitive: bool) -> dict[str, Victims]:
    """Return the nodes that kube-scheduler shall choose from, with their victims.

    Nodes that cannot hold the preemptor even then go. Of nodes equal by kube-scheduler's own
    measures (violated budgets, highest priority, sum of priorities, number of victims) those
    with the best score stay; a node with a victim of unknown priority is compared with none.
    """
    groups: defaultdict[object, dict[str, FreedNode]] = defaultdict(dict)
    for each in freed:
        if isinstance(each.answer, Candidate):
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
    candidates = {
        node: each.answer for node, each in group.items() if isinstance(each.answer, Candidate)
    }
    scores = score_nodes(candidates, sensitive=sensitive)
    return [node for node, score in scores.items() if score == max(scores.values())]
