"""Decides whether a pod fits a node in a given state, and which GPUs it would get there."""

from collections.abc import Hashable, Iterable

from gputopo.bandwidth.preserved import preserved_mb_per_s
from gputopo.placement.model import Match, NoFit, PlacementRequest
from gputopo.placement.paths import surroundings_on_node
from gputopo.placement.place import place
from gputopo.placement.score import Candidate
from gputopo.topology.model import GpuMask
from gputopo_cluster.topologies import UnreadableTopology
from gputopo_cluster.usage import NodeState, ObstacleKind, RestrictionKind
from gputopo_scheduling.evaluation import (
    BESIDE_AVOIDED,
    BESIDE_STOPPING,
    AnyNodeState,
    Misfit,
    MisfitKind,
    NodeFit,
    SurroundedState,
)
from gputopo_scheduling.surroundings import NOTHING_RUNS, NodeSurroundings

_NUMA_KINDS = {
    ObstacleKind.WAITING: MisfitKind.NUMA_WAITING,
    ObstacleKind.BUSY: MisfitKind.NUMA_BUSY,
    ObstacleKind.PERMANENT: MisfitKind.NUMA_SHAPE,
}

_TOO_FEW = {MisfitKind.BUSY, MisfitKind.SHARED, MisfitKind.NOT_SHARED}


def evaluate_states(
    states: Iterable[AnyNodeState], request: PlacementRequest
) -> dict[Hashable, NodeFit]:
    """Return for each state whether a node in this state fits, or why it does not fit.

    On a node whose key is a NodeState, no other job runs.
    """
    return {state: _evaluate(state, request) for state in states}


def match_on(
    state: NodeState, request: PlacementRequest, running: NodeSurroundings = NOTHING_RUNS
) -> Match | Misfit:
    """Return the match that the policy chooses on a node in this state, or why there is none.

    ``running`` are the jobs that run on the node. Only the policy Utility uses them.
    """
    match = _match(state, state.free, request, running)
    if not isinstance(match, Misfit):
        if state.not_ready is not None:
            return Misfit(MisfitKind.NOT_READY, state.not_ready)
        if state.obstacle is not None:
            return Misfit(_NUMA_KINDS[state.obstacle.kind], state.obstacle.reason)
        return match
    if state.deleted and match.kind in _TOO_FEW:
        freed = GpuMask(state.free | state.deleted)
        if not isinstance(_match(state, freed, request, running), Misfit):
            return Misfit(MisfitKind.DELETED_PODS, "GPUs in use by processes of deleted pods")
    return match


def missing(topology: UnreadableTopology | None) -> Misfit:
    """Return why a node without a valid GPUTopology fits no pod."""
    if topology is None:
        return Misfit(MisfitKind.NO_TOPOLOGY, "no GPUTopology")
    return Misfit(MisfitKind.UNREADABLE, f"unreadable GPUTopology: {topology.reason}")


def _evaluate(key: AnyNodeState, request: PlacementRequest) -> NodeFit:
    state, running = key if isinstance(key, SurroundedState) else (key, NOTHING_RUNS)
    if not isinstance(state, NodeState):
        return missing(state)
    match = match_on(state, request, running)
    if isinstance(match, Misfit):
        return match
    before = preserved_mb_per_s(state.structure, state.free)
    return Candidate(match=match, lost_mb_per_s=before - match.preserved_mb_per_s)


def _match(
    state: NodeState,
    free: GpuMask,
    request: PlacementRequest,
    running: NodeSurroundings,
) -> Match | Misfit:
    if misfit := _shortage(state, free, request.size):
        return misfit
    if misfit := _restricted(state, free, request.size):
        return misfit
    around = surroundings_on_node(request, running.neighbours)
    usable = state.usable(free) if state.restrictions else None
    match = place(state.structure, free, request, surroundings=around, usable=usable)
    if isinstance(match, NoFit):
        kind = MisfitKind.TOO_SMALL if match.permanent else MisfitKind.BUSY
        return Misfit(kind, match.reason)
    return match


def _shortage(state: NodeState, free: GpuMask, size: int) -> Misfit | None:
    if state.blocked is not None:
        return Misfit(MisfitKind.BLOCKED, state.blocked)
    count = free.bit_count()
    if len(state.structure.gpus) < size:
        return Misfit(MisfitKind.TOO_SMALL, "too few GPUs")
    if state.healthy.bit_count() < size:
        return Misfit(MisfitKind.UNHEALTHY, "too few healthy GPUs")
    if count < size:
        return _too_few(state, free, size)
    if count - state.unknown < size:
        reason = "the agent does not yet report which GPUs other schedulers' pods use"
        return Misfit(MisfitKind.UNOBSERVED, reason)
    return None


def _too_few(state: NodeState, free: GpuMask, size: int) -> Misfit:
    if state.not_shared is not None:
        kind = MisfitKind.NOT_READY if state.awaits_mps else MisfitKind.NOT_SHARED
        return Misfit(kind, state.not_shared)
    if size <= (free | state.not_whole).bit_count():
        reason = "too few free GPUs beside those that MPS still serves"
        return Misfit(MisfitKind.NOT_READY, reason)
    if size <= (free | state.in_shares & state.healthy).bit_count():
        return Misfit(MisfitKind.SHARED, "too few free GPUs beside those that pods share")
    return Misfit(MisfitKind.BUSY, "too few free GPUs")


def _restricted(state: NodeState, free: GpuMask, size: int) -> Misfit | None:
    """Return why enough GPUs are free, but the pod may not use them."""
    usable = later = free
    for each in state.restrictions:
        usable, later = GpuMask(usable & ~each.gpus), GpuMask(later & ~each.lasting)
        if later.bit_count() - state.unknown < size:
            if each.kind is RestrictionKind.NUMA:
                reason = "the GPUs that kubelet would take are beside pods to avoid"
                return Misfit(MisfitKind.NUMA_BUSY, reason)
            return Misfit(MisfitKind(each.kind), BESIDE_AVOIDED)
        if usable.bit_count() - state.unknown < size:
            return Misfit(MisfitKind.DELETED_PODS, BESIDE_STOPPING)
    return None
