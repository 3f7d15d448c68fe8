"""Keeps the states of nodes for pods that request a share of a GPU.

Such a state depends on the workloads of the pods that share the node's GPUs. It is computed again
only if the node's usage or the facts about workloads have changed.
"""

from collections.abc import Hashable, Sequence
from typing import Final

from cachetools import LRUCache

from gputopo_cluster.usage import NodeState, NodeUsage, PodNodeState
from gputopo_extender.state.usages import UsageCache
from gputopo_kube.pods import PodView
from gputopo_kube.workload import workload_name
from gputopo_scheduling.restrictions import AvoidingPod
from gputopo_scheduling.sharing_knowledge import SharingKnowledge, sharing_limits
from gputopo_scheduling.sharing_state import sharing_state

_MOST_PODS: Final = 64
"""Kinds of pods whose states are kept; the least recently used are dropped first."""

_OfNode = tuple[NodeUsage, NodeState]


class SharingStates:
    """The states of nodes, by what of a pod decides about them."""

    def __init__(self) -> None:
        self._knowledge = SharingKnowledge()
        self._kept = LRUCache[Hashable, dict[str, _OfNode]](_MOST_PODS)

    def states(
        self,
        derived: UsageCache,
        pod: PodView,
        nodes: Sequence[str],
        knowledge: SharingKnowledge,
        *,
        keep: bool,
    ) -> list[PodNodeState]:
        """Return the states of nodes for a pod; equal states are the same object.

        If the pod is bound or has GPUs reserved, ``keep`` must be False: the pod is not beside
        itself, but equal pods are.
        """
        if knowledge is not self._knowledge:
            self._knowledge = knowledge
            self._kept.clear()
        kept = self._kept_of(pod) if keep else {}
        return [self._state(derived, pod, node, kept) for node in nodes]

    def _state(
        self, derived: UsageCache, pod: PodView, node: str, kept: dict[str, _OfNode]
    ) -> PodNodeState:
        usage = derived.usages.get(node)
        if not isinstance(usage, NodeUsage):
            return usage
        known = kept.get(node)
        if known is None or known[0] is not usage:
            state = derived.share(sharing_state(usage, pod, self._knowledge))
            known = kept[node] = usage, state
        return known[1]

    def _kept_of(self, pod: PodView) -> dict[str, _OfNode]:
        avoiding = AvoidingPod.of(pod)
        key = (
            workload_name(pod),
            sharing_limits(pod),
            avoiding.namespace,
            avoiding.labels,
            avoiding.rules,
        )
        return self._kept.setdefault(key, {})
