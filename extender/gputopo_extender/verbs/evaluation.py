"""Which nodes can take a pod now, and why the others cannot.

Reasons are short and the same for all nodes of one class: kube-scheduler joins them into one
event ("0/9 nodes are available: 7 too few free GPUs, 2 no GPUTopology").
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from itertools import compress

from gputopo.bandwidth.preserved import preserved_mb_per_s
from gputopo.placement.model import Match, NoFit, PlacementRequest
from gputopo.placement.place import place
from gputopo.placement.score import Candidate, score_nodes
from gputopo.topology.model import GpuMask
from gputopo_extender.state.reservations import Reservation
from gputopo_extender.state.topologies import UnreadableTopology
from gputopo_extender.state.usage import NodeState

AnyNodeState = NodeState | UnreadableTopology | None
"""What the ledger knows of a node; None where no topology is published for it."""


class MisfitKind(StrEnum):
    """Why a node was filtered out, as a label of few values."""

    BUSY = "busy"
    DELETED_PODS = "deleted_pods"
    UNOBSERVED = "unobserved"
    TOO_SMALL = "too_small"
    UNHEALTHY = "unhealthy"
    NO_TOPOLOGY = "no_topology"
    UNREADABLE = "unreadable"
    BLOCKED = "blocked"
    NOT_READY = "away"
    RESERVED_ELSEWHERE = "reserved_elsewhere"
    REJECTED = "refused"


_PASSING = frozenset(
    {
        MisfitKind.BUSY,
        MisfitKind.DELETED_PODS,
        MisfitKind.UNOBSERVED,
        MisfitKind.NOT_READY,
        MisfitKind.RESERVED_ELSEWHERE,
    }
)
"""What passes by itself or with another pod; elsewhere preemption would kill pods for nothing."""


_PERMANENT = frozenset(MisfitKind) - _PASSING


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a node cannot take the pod."""

    kind: MisfitKind
    reason: str


NodeFit = Candidate | Misfit


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The answer for a set of nodes; nodes of one key have one answer.

    Attributes:
        keys: the key of each node, in the order of the nodes.
        answers: for each key of ``keys``, and for no other.
    """

    nodes: Sequence[str]
    keys: Sequence[Hashable]
    answers: Mapping[Hashable, NodeFit]

    def fits(self) -> list[str]:
        """Return the nodes that can take the pod."""
        fitting = self._candidates()
        return list(compress(self.nodes, map(fitting.__contains__, self.keys)))

    def best(self, size: int, on_the_way: Mapping[str, int], *, sensitive: bool) -> list[str]:
        """Return of the nodes that can take a pod of ``size`` GPUs those to choose from.

        They have the highest score, and of those the largest part of their GPUs is in use with the
        pod and those that are ``on_the_way`` there, as kube-scheduler's MostAllocated has it.
        """
        scores = score_nodes(self._candidates(), sensitive=sensitive)
        highest = max(scores.values(), default=0)
        in_use = {key: _in_use(key, size) for key, score in scores.items() if score == highest}
        most = max(in_use.values(), default=0.0)
        key_of = dict(zip(self.nodes, self.keys, strict=True)) if on_the_way else {}
        fuller = {
            node: _in_use(key_of[node], size + gpus)
            for node, gpus in on_the_way.items()
            if key_of.get(node) in in_use
        }
        if fuller and (still_more := max(fuller.values())) >= most:
            return [node for node, part in fuller.items() if part == still_more]
        fullest = {key for key, part in in_use.items() if part == most}
        return list(compress(self.nodes, map(fullest.__contains__, self.keys)))

    def failed(self) -> dict[str, str]:
        """Return the nodes that may fit after other pods have ended, and why not now."""
        return self.misfits_of(_PASSING)

    def misfits_of(self, kinds: AbstractSet[MisfitKind]) -> dict[str, str]:
        """Return the nodes that were filtered out for reasons of these kinds, and why."""
        reasons = {
            key: answer.reason
            for key, answer in self.answers.items()
            if isinstance(answer, Misfit) and answer.kind in kinds
        }
        found = zip(self.nodes, self.keys, strict=True) if reasons else ()
        return {node: reasons[key] for node, key in found if key in reasons}

    def has_fit(self) -> bool:
        """Return whether any node can take the pod."""
        return any(isinstance(answer, Candidate) for answer in self.answers.values())

    def unresolvable(self) -> dict[str, str]:
        """Return the nodes where ending other pods would not help, and why not."""
        return self.misfits_of(_PERMANENT)

    def misfits(self) -> Counter[MisfitKind]:
        """Return how many nodes were filtered out per class of reason."""
        kinds = {key: it.kind for key, it in self.answers.items() if isinstance(it, Misfit)}
        return Counter(kinds[key] for key in self.keys if key in kinds)

    def scores(self, *, sensitive: bool) -> dict[str, int]:
        """Return 0..10 for each node; 0 for one that has ceased to fit since it was filtered."""
        scored = score_nodes(self._candidates(), sensitive=sensitive)
        known = dict.fromkeys(self.answers, 0) | scored
        return dict(zip(self.nodes, map(known.__getitem__, self.keys), strict=True))

    def _candidates(self) -> dict[Hashable, Candidate]:
        return {key: it for key, it in self.answers.items() if isinstance(it, Candidate)}


def evaluation(
    nodes: Sequence[str], keys: Sequence[Hashable], known: Mapping[Hashable, NodeFit]
) -> Evaluation:
    """Return the evaluation of these nodes; ``known`` has the answer of each key, or more."""
    return Evaluation(nodes, keys, {key: known[key] for key in set(keys)})


def rejected(nodes: Sequence[str], misfit: Misfit) -> Evaluation:
    """Return the evaluation of a pod that no node can take."""
    return evaluation(nodes, [None] * len(nodes), {None: misfit})


def reserved(nodes: Sequence[str], reservation: Reservation) -> Evaluation:
    """Return the evaluation of a pod whose Binding is under way: it fits only where that goes."""
    decision = reservation.decision
    elsewhere = Misfit(MisfitKind.RESERVED_ELSEWHERE, "the pod is being bound to another node")
    return evaluation(
        nodes,
        [node == decision.node for node in nodes],
        {True: Candidate(match=decision.match, lost_mb_per_s=0), False: elsewhere},
    )


def evaluate_states(
    states: Iterable[AnyNodeState], request: PlacementRequest
) -> dict[Hashable, NodeFit]:
    """Return what a node in each of these states can offer."""
    return {state: _answer(state, request) for state in states}


def match_on(state: NodeState, request: PlacementRequest) -> Match | Misfit:
    """Return the match that the policy chooses on such a node now, or why there is none."""
    found = _match(state, state.free, request)
    if not isinstance(found, Misfit):
        return found if state.away is None else Misfit(MisfitKind.NOT_READY, state.away)
    if state.deleted and found.kind is MisfitKind.BUSY:
        freed = GpuMask(state.free | state.deleted)
        if not isinstance(_match(state, freed, request), Misfit):
            return Misfit(MisfitKind.DELETED_PODS, "GPUs in use by processes of deleted pods")
    return found


def _match(state: NodeState, free: GpuMask, request: PlacementRequest) -> Match | Misfit:
    if misfit := _shortage(state, free, request.size):
        return misfit
    chosen = place(state.structure, free, request)
    if isinstance(chosen, NoFit):
        kind = MisfitKind.TOO_SMALL if chosen.permanent else MisfitKind.BUSY
        return Misfit(kind, chosen.reason)
    return chosen


def missing(topology: UnreadableTopology | None) -> Misfit:
    """Return why a node whose GPUs are not known takes no pod."""
    if topology is None:
        return Misfit(MisfitKind.NO_TOPOLOGY, "no GPUTopology")
    return Misfit(MisfitKind.UNREADABLE, f"unreadable GPUTopology: {topology.reason}")


def _answer(known: AnyNodeState, request: PlacementRequest) -> NodeFit:
    if not isinstance(known, NodeState):
        return missing(known)
    match = match_on(known, request)
    if isinstance(match, Misfit):
        return match
    before = preserved_mb_per_s(known.structure, known.free)
    return Candidate(match=match, lost_mb_per_s=before - match.preserved_mb_per_s)


def _in_use(key: Hashable, more: int) -> float:
    """Return the part of a node's healthy GPUs that would be in use with some more."""
    if not isinstance(key, NodeState):
        return 0.0
    healthy = key.healthy.bit_count()
    return (healthy - key.free.bit_count() + key.unknown + more) / healthy


def _shortage(state: NodeState, free: GpuMask, size: int) -> Misfit | None:
    if state.blocked is not None:
        return Misfit(MisfitKind.BLOCKED, state.blocked)
    count = free.bit_count()
    if len(state.structure.gpus) < size:
        return Misfit(MisfitKind.TOO_SMALL, "too few GPUs")
    if state.healthy.bit_count() < size:
        return Misfit(MisfitKind.UNHEALTHY, "too few healthy GPUs")
    if count < size:
        return Misfit(MisfitKind.BUSY, "too few free GPUs")
    if count - state.unknown < size:
        return Misfit(MisfitKind.UNOBSERVED, "GPUs held by pods of other schedulers, unobserved")
    return None
