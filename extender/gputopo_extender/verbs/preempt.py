"""Chooses the nodes on which preemption frees the best GPUs for the preemptor.

The preempt verb calls this module. kube-scheduler sends nodes, each with victims: the pods that
must end so that the preemptor fits. This module may leave out a node, but returns all victims
of a node, because the preemptor may also need their CPUs. Of nodes with equally important victims,
this module returns those with the best links. kube-scheduler then chooses the node with the least
important victims.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from gputopo.placement.score import Candidate, score_nodes
from gputopo_extender.protocol import Victims
from gputopo_scheduling.evaluation import NodeFit


@dataclass(frozen=True, slots=True)
class FreedNode:
    """A node, its victims, and whether the preemptor fits after the victims have ended.

    Attributes:
        priorities: priority of each victim; None if unknown, for instance for a victim without
            GPUs.
    """

    node: str
    victims: Victims
    fit: NodeFit
    priorities: tuple[int | None, ...]


def choose_nodes(freed: Iterable[FreedNode], *, sensitive: bool) -> dict[str, Victims]:
    """Return the nodes from which kube-scheduler should choose, with their victims.

    Nodes on which the preemptor does not fit even without the victims are removed. kube-scheduler
    compares victims by violated PodDisruptionBudgets, highest priority, sum of priorities and
    number. Of nodes that are equal in all four, only those with the best score are returned. A node
    with a victim of unknown priority is always returned if the preemptor fits.
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
