"""Decides which nodes fit a pod, and why the other nodes do not fit.

All verbs of the extender and the command line use this module. Reasons are short. They are equal
for nodes with the same problem, because kube-scheduler counts equal reasons in one event ("0/9
nodes are available: 7 too few free GPUs, 2 no GPUTopology").
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import compress
from typing import Final, NamedTuple

from gputopo.placement.model import Match
from gputopo.placement.score import Candidate, rank_nodes, score_of
from gputopo_cluster.usage import NodeState, PodNodeState
from gputopo_scheduling.surroundings import NodeSurroundings

BESIDE_AVOIDED: Final = "the free GPUs are beside pods to avoid"
BESIDE_STOPPING: Final = "the free GPUs are beside pods to avoid that are stopping"


class SurroundedState(NamedTuple):
    """The state of a node, and the jobs that run there; used as a key for the policy Utility.

    Nodes with equal states and equal jobs have the same two objects, so keys are compared fast.
    """

    state: NodeState
    running: NodeSurroundings

    @classmethod
    def of(cls, state: "AnyNodeState", running: NodeSurroundings) -> "AnyNodeState":
        """Return the key of a node; it is the state itself for a node without usable state."""
        return cls(state, running) if isinstance(state, NodeState) else state


AnyNodeState = PodNodeState | SurroundedState
"""The ledger's entry for a node; None if the node has no GPUTopology."""


class MisfitKind(StrEnum):
    """Why a node does not fit; the values are labels of a metric."""

    __hash__ = str.__hash__  # the hash of an Enum takes longer, and thousands are needed per pod

    BUSY = "busy"
    DELETED_PODS = "deleted_pods"
    UNOBSERVED = "unobserved"
    TOO_SMALL = "too_small"
    UNHEALTHY = "unhealthy"
    NO_TOPOLOGY = "no_topology"
    UNREADABLE = "unreadable"
    BLOCKED = "blocked"
    NOT_READY = "not_ready"
    RESERVED_ELSEWHERE = "reserved_elsewhere"
    REJECTED = "rejected"
    AVOID = "avoid"
    POSTPONED = "postponed"
    HELD = "held"
    NUMA_WAITING = "numa_waiting"
    NUMA_BUSY = "numa_busy"
    NUMA_SHAPE = "numa_shape"
    SHARED = "shared"
    NOT_SHARED = "not_shared"


_TEMPORARY = frozenset(
    {
        MisfitKind.BUSY,
        MisfitKind.DELETED_PODS,
        MisfitKind.UNOBSERVED,
        MisfitKind.NOT_READY,
        MisfitKind.RESERVED_ELSEWHERE,
        MisfitKind.AVOID,
        MisfitKind.NUMA_WAITING,
        MisfitKind.NUMA_BUSY,
        MisfitKind.SHARED,
        MisfitKind.NOT_SHARED,
    }
)
"""Misfits that end automatically or when other pods end.

Preemption has no effect on nodes with other misfits, or must not take place: a pod that waits for
a better placement may not preempt other pods.
"""

PERMANENT_MISFITS = frozenset(MisfitKind) - _TEMPORARY


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a pod cannot be placed on a node, or on any node."""

    kind: MisfitKind
    reason: str


NodeFit = Candidate | Misfit


@dataclass(frozen=True)
class Evaluation:
    """Fit or misfit of each node for one request.

    Thousands of nodes have a few hundred states, so results are stored by state, not by node.

    Attributes:
        keys: the key of each node, in the order of ``nodes``. A key is usually the node's state.
        results: fit or misfit for each key that occurs in ``keys``, and for no other key.
    """

    nodes: Sequence[str]
    keys: Sequence[Hashable]
    results: Mapping[Hashable, NodeFit]

    def fitting(self) -> list[str]:
        """Return the nodes that fit the pod."""
        return list(compress(self.nodes, map(self._candidates.__contains__, self.keys)))

    def has_fit(self) -> bool:
        """Return whether any node fits the pod."""
        return bool(self._candidates)

    def count_fitting(self) -> int:
        """Return how many nodes fit the pod."""
        return sum(map(self.nodes_of_key.__getitem__, self._candidates))

    def keys_of(self, nodes: AbstractSet[str]) -> dict[str, Hashable]:
        """Return the key of each of these nodes that was evaluated."""
        return dict(compress(self._pairs(), map(nodes.__contains__, self.nodes))) if nodes else {}

    def scores(self, *, sensitive: bool) -> dict[str, int]:
        """Return a score of 0 to 10 for each node. A node that does not fit has 0."""
        ranks = self.ranks_by_key(sensitive=sensitive)
        by_key = {key: score_of(ranks[key]) if key in ranks else 0 for key in self.results}
        return dict(zip(self.nodes, map(by_key.__getitem__, self.keys), strict=True))

    def best(self, *, sensitive: bool) -> "Evaluation":
        """Return the evaluation of the nodes of rank 0 only."""
        ranks = self.ranks_by_key(sensitive=sensitive)
        return self.only([ranks.get(key) == 0 for key in self.keys])

    def only(self, chosen: Sequence[bool]) -> "Evaluation":
        """Return the evaluation of the chosen nodes only."""
        nodes, keys = [*compress(self.nodes, chosen)], [*compress(self.keys, chosen)]
        return evaluation(nodes, keys, self.results)

    def ranks_by_key(self, *, sensitive: bool) -> Mapping[Hashable, int]:
        """Return the rank of each key whose nodes fit; the best have rank 0."""
        if sensitive not in self._ranks:
            self._ranks[sensitive] = rank_nodes(self._candidates, sensitive=sensitive)
        return self._ranks[sensitive]

    def ranks(self, *, sensitive: bool) -> dict[str, int]:
        """Return the rank of each node that fits; the best have rank 0."""
        ranks = self.ranks_by_key(sensitive=sensitive)
        return {node: ranks[key] for node, key in self._pairs() if key in ranks}

    def failed(self) -> dict[str, str]:
        """Return each node that may fit later or after preemption, and why it does not fit."""
        return self.misfits_of(_TEMPORARY)

    def unresolvable(self) -> dict[str, str]:
        """Return each node on which preemption has no effect, and why it does not fit."""
        return self.misfits_of(PERMANENT_MISFITS)

    def misfits_of(self, kinds: AbstractSet[MisfitKind]) -> dict[str, str]:
        """Return each node that has a misfit of these kinds, and why it does not fit."""
        reasons = {
            key: result.reason
            for key, result in self.results.items()
            if isinstance(result, Misfit) and result.kind in kinds
        }
        if not reasons:
            return {}
        found = compress(self._pairs(), map(reasons.__contains__, self.keys))
        return {node: reasons[key] for node, key in found}

    @cached_property
    def nodes_of_key(self) -> Mapping[Hashable, int]:
        """Number of nodes by key."""
        return Counter(self.keys)

    @cached_property
    def misfit_counts(self) -> Mapping[MisfitKind, int]:
        """Number of nodes with each kind of misfit that occurs."""
        counts = Counter[MisfitKind]()
        for key, result in self.results.items():
            if isinstance(result, Misfit):
                counts[result.kind] += self.nodes_of_key[key]
        return counts

    @cached_property
    def _ranks(self) -> dict[bool, Mapping[Hashable, int]]:
        """Results of :meth:`ranks_by_key`; one verb needs them several times."""
        return {}

    def _pairs(self) -> Iterable[tuple[str, Hashable]]:
        return zip(self.nodes, self.keys, strict=True)

    @cached_property
    def _candidates(self) -> Mapping[Hashable, Candidate]:
        return {key: it for key, it in self.results.items() if isinstance(it, Candidate)}


def evaluation(
    nodes: Sequence[str], keys: Sequence[Hashable], results: Mapping[Hashable, NodeFit]
) -> Evaluation:
    """Return the evaluation of these nodes; ``results`` may contain keys of other nodes."""
    return Evaluation(nodes, keys, {key: results[key] for key in set(keys)})


def rejected(nodes: Sequence[str], misfit: Misfit) -> Evaluation:
    """Return the evaluation of a pod that fits no node because of ``misfit``."""
    return Evaluation(nodes, [None] * len(nodes), {None: misfit} if nodes else {})


def bound_to(nodes: Sequence[str], node: str, match: Match) -> Evaluation:
    """Return the evaluation of a pod with a Binding in flight; only the Binding's node fits."""
    elsewhere = Misfit(MisfitKind.RESERVED_ELSEWHERE, "the pod is being bound to another node")
    return evaluation(
        nodes,
        [each == node for each in nodes],
        {True: Candidate(match=match, lost_mb_per_s=0), False: elsewhere},
    )
