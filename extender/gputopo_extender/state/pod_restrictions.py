"""Keeps the states of nodes on which one pod may not use all free GPUs.

Most pods are not restricted. So an index shows the nodes with pods that a pod may have to avoid,
and the states of only these nodes are computed.
"""

from collections import defaultdict
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from gputopo.api.avoid import AvoidRule, Labels, known_avoid
from gputopo_scheduling.restrictions import AvoidingPod, restricted_state
from gputopo_scheduling.usage import NodeState, NodeUsage

_MOST_PER_NODE: Final = 64

_Key = tuple[str, Labels, tuple[AvoidRule, ...]]


class _Namespaces(NamedTuple):
    """Namespaces of the pods of a node, and of those that keep other pods off."""

    all: AbstractSet[str] = frozenset()
    avoiding: AbstractSet[str] = frozenset()


class PodRestrictions:
    """The nodes that restrict a pod, and their states for the pod."""

    def __init__(self, share: Callable[[NodeState], NodeState]) -> None:
        """``share`` returns the one object for equal states."""
        self._share = share
        self._of_node: dict[str, _Namespaces] = {}
        self._nodes: defaultdict[str, set[str]] = defaultdict(set)
        self._avoided: defaultdict[str, set[str]] = defaultdict(set)
        self._kept: dict[str, tuple[NodeUsage, dict[_Key, NodeState]]] = {}

    def update(self, node: str, usage: NodeUsage | None) -> None:
        """Take the new usage of a node; None for a node without a valid GPUTopology."""
        before, now = self._of_node.pop(node, _Namespaces()), _namespaces(usage)
        for nodes, old, new in (
            (self._nodes, before.all, now.all),
            (self._avoided, before.avoiding, now.avoiding),
        ):
            for namespace in old - new:
                nodes[namespace].discard(node)
            for namespace in new - old:
                nodes[namespace].add(node)
        self._kept.pop(node, None)
        if now.all:
            self._of_node[node] = now

    def nodes(self, pod: AvoidingPod) -> AbstractSet[str]:
        """Return the nodes that may restrict the pod."""
        found = self._nodes if pod.rules else self._avoided
        return found.get(pod.namespace, frozenset())

    def state(self, node: str, usage: NodeUsage, pod: AvoidingPod) -> NodeState:
        """Return the state of a node for a pod; it is computed once for equal pods."""
        if any(each.uid == pod.uid for each in usage.occupants):
            return self._share(restricted_state(usage, pod))
        known = self._kept.get(node)
        if known is None or known[0] is not usage or len(known[1]) >= _MOST_PER_NODE:
            known = self._kept[node] = (usage, {})
        key = (pod.namespace, pod.labels, pod.rules)
        if key not in known[1]:
            known[1][key] = self._share(restricted_state(usage, pod))
        return known[1][key]


def _namespaces(usage: NodeUsage | None) -> _Namespaces:
    if usage is None:
        return _Namespaces()
    return _Namespaces(
        frozenset(each.key.namespace for each in usage.occupants),
        frozenset(
            each.key.namespace
            for each in usage.occupants
            if each.pod is None or known_avoid(each.pod.annotations)
        ),
    )
