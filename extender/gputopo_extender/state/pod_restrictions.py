"""Keeps the states of nodes on which one pod may not use all free GPUs.

Most pods are not restricted. So an index shows the nodes with pods that a pod may have to avoid,
and the states of only these nodes are computed.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from gputopo.api.avoid import AvoidRule, Labels, known_avoid
from gputopo_cluster.usage import NodeState, NodeUsage
from gputopo_scheduling.restrictions import AvoidingPod, restricted_state

_MOST_PODS: Final = 64
"""Kinds of pods whose states are kept; the least recently used are dropped first."""

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
        self._usages: dict[str, NodeUsage] = {}
        self._nodes: defaultdict[str, set[str]] = defaultdict(set)
        self._avoided: defaultdict[str, set[str]] = defaultdict(set)
        self._kept: OrderedDict[_Key, dict[str, NodeState]] = OrderedDict()

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
        for states in self._kept.values():
            states.pop(node, None)
        self._usages.pop(node, None)
        if usage is not None and now.all:
            self._of_node[node], self._usages[node] = now, usage

    def states(
        self, pod: AvoidingPod, nodes: Iterable[str], *, keep: bool = True
    ) -> Mapping[str, NodeState]:
        """Return the states of those of ``nodes`` that may restrict the pod, and of some others.

        Of equal pods, a state is computed once. If the pod has GPUs reserved, ``keep`` must be
        False, because the pod does not avoid itself.
        """
        restricting = (self._nodes if pod.rules else self._avoided).get(pod.namespace)
        if not restricting:
            return {}
        kept = self._kept_of(pod) if keep else {}
        for node in nodes:
            if node in restricting and node not in kept:
                kept[node] = self._share(restricted_state(self._usages[node], pod))
        return kept

    def _kept_of(self, pod: AvoidingPod) -> dict[str, NodeState]:
        key = (pod.namespace, pod.labels, pod.rules)
        kept = self._kept.setdefault(key, {})
        self._kept.move_to_end(key)
        if len(self._kept) > _MOST_PODS:
            self._kept.popitem(last=False)
        return kept


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
