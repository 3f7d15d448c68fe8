"""Keeps what GPUProfiles show about slowdowns, and which workloads run on each node.

The reflector of GPUProfiles writes here. Without the right to list GPUProfiles, or in a cluster
without them, all slowdowns are unknown, and nothing else changes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from weakref import WeakValueDictionary

from gputopo.sharing.policy import SharingPolicy
from gputopo_cluster.topologies import UnreadableTopology
from gputopo_cluster.usage import NodeUsage
from gputopo_scheduling.sharing_knowledge import SharingKnowledge
from gputopo_scheduling.surroundings import (
    NOTHING_RUNS,
    InterferenceFacts,
    KnownWorkload,
    NodeSurroundings,
)

REFRESH_SECONDS: Final = 10.0
"""Shortest time between two sets of facts: each new set makes stored evaluations useless."""

MOST_WORKLOADS: Final = 1000
"""GPUProfiles of one namespace that count. The operator creates no more in a namespace, but a user
can. A GPUProfile without facts and without a declared sensitivity does not count."""


class NodeInterference:
    """The facts about interference, and the surroundings of each node."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin without any facts; ``clock`` returns seconds."""
        self._clock = clock
        self._workloads: dict[str, KnownWorkload] = {}
        self._of_namespace = Counter[str]()
        self._facts = InterferenceFacts()
        self._changed = False
        self._refresh_at = clock()
        self._by_node: dict[str, tuple[NodeUsage, NodeSurroundings]] = {}
        self._shared = WeakValueDictionary({NOTHING_RUNS.neighbours: NOTHING_RUNS})
        self._sharing_policy = SharingPolicy()
        self._sharing: tuple[InterferenceFacts, SharingKnowledge] | None = None

    def replace(self, workloads: Iterable[KnownWorkload]) -> None:
        """Replace all workloads by those of a list."""
        before, self._workloads = self._workloads, {}
        self._of_namespace.clear()
        for workload in workloads:
            self._store(workload)
        self._changed |= before != self._workloads

    def put(self, workload: KnownWorkload) -> None:
        """Add or replace a workload."""
        before = self._workloads.get(workload.kind.name)
        if before != workload:
            self.drop(workload.kind.name)
            self._changed |= self._store(workload)

    def drop(self, name: str) -> None:
        """Remove the workload ``NAMESPACE/PROFILE``."""
        if self._workloads.pop(name, None) is not None:
            self._of_namespace -= Counter([_namespace(name)])  # leaves no zeros
            self._changed = True

    def full_namespaces(self) -> int:
        """Return the number of namespaces with ``MOST_WORKLOADS`` workloads."""
        return sum(count >= MOST_WORKLOADS for count in self._of_namespace.values())

    def _store(self, workload: KnownWorkload) -> bool:
        """Store a workload; return False if it shows nothing, or if its namespace is full."""
        name = workload.kind.name
        namespace = _namespace(name)
        shows = workload.kind.group or workload.beside or workload.sharing is not None
        if not shows or self._of_namespace[namespace] >= MOST_WORKLOADS:
            return False
        self._workloads[name] = workload
        self._of_namespace[namespace] += 1
        return True

    @property
    def facts(self) -> InterferenceFacts:
        """The facts; changes appear within ``REFRESH_SECONDS``."""
        if self._changed and self._clock() >= self._refresh_at:
            before, self._facts = self._facts, InterferenceFacts(dict(self._workloads))
            if (before.kinds, before.groups) != (self._facts.kinds, self._facts.groups):
                self._by_node.clear()
            self._changed = False
            self._refresh_at = self._clock() + REFRESH_SECONDS
        return self._facts

    @property
    def sharing(self) -> SharingKnowledge:
        """What the facts show about workloads that share a GPU; a new object if they change."""
        facts = self.facts
        if self._sharing is None or self._sharing[0] is not facts:
            self._sharing = facts, SharingKnowledge.of(facts, self._sharing_policy)
        return self._sharing[1]

    def set_sharing_policy(self, policy: SharingPolicy) -> None:
        """Use the settings of the installation."""
        self._sharing_policy, self._sharing = policy, None

    def on_nodes(
        self, nodes: Iterable[str], usages: Mapping[str, NodeUsage | UnreadableTopology]
    ) -> list[NodeSurroundings]:
        """Return the surroundings of nodes; a node without a usage has none.

        They are computed only if the usage of the node is a new one.
        """
        facts, kept = self.facts, self._by_node
        found = []
        for node in nodes:
            usage, known = usages.get(node), kept.get(node)
            if known is not None and known[0] is usage:
                found.append(known[1])
            elif isinstance(usage, NodeUsage):
                kept[node] = (usage, self._share(usage, facts))
                found.append(kept[node][1])
            else:
                found.append(NOTHING_RUNS)
        return found

    def assumed(self, usage: NodeUsage) -> NodeSurroundings:
        """Return the surroundings for an assumed usage, for example that without some pods."""
        return self._share(usage, self.facts)

    def forget(self, node: str) -> None:
        """Forget the surroundings of a removed node."""
        self._by_node.pop(node, None)

    def _share(self, usage: NodeUsage, facts: InterferenceFacts) -> NodeSurroundings:
        neighbours = facts.neighbours(usage.topology, usage.occupants)
        return self._shared.setdefault(neighbours, NodeSurroundings(neighbours))


def _namespace(name: str) -> str:
    return name.partition("/")[0]
