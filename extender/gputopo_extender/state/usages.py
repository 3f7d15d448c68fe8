"""Keeps the usage and state of each node, which the ledger derives after changes."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import compress, count
from typing import Final
from weakref import WeakValueDictionary

from gputopo.topology.model import GpuMask
from gputopo_cluster.topologies import UnreadableTopology
from gputopo_cluster.usage import NodeState, NodeUsage, PodNodeState
from gputopo_extender.state.pod_restrictions import PodRestrictions
from gputopo_kube.pods import PodView
from gputopo_scheduling.numa_limits import limit_to_numa
from gputopo_scheduling.restrictions import AvoidingPod

_CACHED_LIMITS: Final = 16_384
_NONE_TAKEN: Final[Mapping[str, GpuMask]] = {}

_limit = lru_cache(_CACHED_LIMITS)(limit_to_numa)
"""The evaluation cache compares states by identity, so an equal call must return the same state."""

DerivedUsage = NodeUsage | UnreadableTopology | None
"""The usage of a node; None if the node has no GPUTopology."""


class UsageCache:
    """The usages and states of all nodes at the last :meth:`replace`.

    Attributes:
        usages: the usage of each node with a topology.
        states: the state of each node with a topology; equal states are the same object.
        refreshes: how often :meth:`replace` was called.
    """

    def __init__(self) -> None:
        self.usages: dict[str, NodeUsage | UnreadableTopology] = {}
        self.states: dict[str, NodeState | UnreadableTopology] = {}
        self._restrictions = PodRestrictions(self.share)
        self._with_numa: set[str] = set()
        self._shared: WeakValueDictionary[Hashable, NodeState] = WeakValueDictionary()
        self.refreshes = 0

    def replace(self, usages: Mapping[str, DerivedUsage]) -> None:
        """Replace the usages of some nodes."""
        self.refreshes += 1
        for name, usage in usages.items():
            self._update(name, usage)

    def share(self, state: NodeState) -> NodeState:
        """Return the one state object that all nodes in an equal state share."""
        return self._shared.setdefault(state.key, state)

    def states_for(
        self,
        pod: PodView,
        nodes: Sequence[str],
        *,
        reserved: bool,
        taken: Mapping[str, GpuMask] = _NONE_TAKEN,
    ) -> list[PodNodeState]:
        """Return the states of nodes for one pod, which may not be allowed to use all free GPUs.

        ``reserved`` is whether the pod itself has GPUs reserved. The GPUs in ``taken`` count as
        used.
        """
        own = self._restrictions.states(AvoidingPod.of(pod), nodes, keep=not reserved)
        common = self.states
        if own:
            states = [own[node] if node in own else common.get(node) for node in nodes]
        else:
            states = list(map(common.get, nodes))
        for place in compress(count(), map(taken.__contains__, nodes)) if taken else ():
            states[place] = self._less(states[place], taken[nodes[place]])
        if not self._with_numa:
            return states
        limits: dict[PodNodeState, NodeState] = {
            state: _limit(state, pod.aligned)
            for state in {*states}
            if isinstance(state, NodeState) and state.numa is not None
        }
        return [limits.get(state, state) for state in states]

    def _less(self, state: PodNodeState, taken: GpuMask) -> PodNodeState:
        """Return the state of a node if these GPUs were used too."""
        if not isinstance(state, NodeState):
            return state
        return self.share(replace(state, free=GpuMask(state.free & ~taken)))

    def _update(self, name: str, usage: DerivedUsage) -> None:
        self._restrictions.update(name, usage if isinstance(usage, NodeUsage) else None)
        if isinstance(usage, NodeUsage) and usage.numa is not None:
            self._with_numa.add(name)
        else:
            self._with_numa.discard(name)
        if usage is None:
            self.usages.pop(name, None)
            self.states.pop(name, None)
            return
        self.usages[name] = usage
        self.states[name] = self.share(usage.state) if isinstance(usage, NodeUsage) else usage
