"""Which GPUs of a node a sharing pod may get: a part of a shared GPU, or an idle GPU.

A pod that requests a share gets a GPU that it shares with others if the prediction says that this
pays (:mod:`gputopo.sharing`), the memory of all its pods fits, and the agent's MPS daemon takes
clients. Otherwise it gets an idle GPU, which later pods may share with it. The decision is a
function of the node's usage, the pod and what the GPUProfiles show.
"""

from dataclasses import replace
from typing import Final

from gputopo.api.names import SHARING_MEMORY_ANNOTATION
from gputopo.api.quantity import format_bytes
from gputopo.api.shares import most_memory
from gputopo.sharing.choice import SharingReason
from gputopo.topology.model import GpuMask, mask_of
from gputopo_cluster.topologies import known_mask
from gputopo_cluster.usage import NodeState, NodeUsage
from gputopo_kube.pods import PodView
from gputopo_scheduling.restrictions import (
    AvoidingPod,
    avoid_restriction,
    restricted_state,
    state_for,
)
from gputopo_scheduling.share_options import (
    NO_MEMORY,
    NOT_KNOWN,
    REASONS,
    ChosenShare,
    ShareOption,
    choose_option,
    share_options,
)
from gputopo_scheduling.sharing_knowledge import SharingKnowledge, sharing_limits

NO_SHARES: Final = "the node offers no shares of GPUs"
BESIDE_NUMA: Final = "the node offers no shares of GPUs while kubelet takes GPUs by NUMA node"
NO_IDLE: Final = "no idle GPU, and on shared GPUs "

_NO_GPU: Final = "no GPU is idle, and none is shared by pods beside which the pod may run"
_NONE_READY: Final = "MPS is not ready on the idle GPUs"
_OUTAGE: Final = "the component for MPS does not respond"
_MIB: Final = 2**20
_TOO_SMALL: Final = "the idle GPUs have less memory than the pod needs"


def sharing_state(usage: NodeUsage, pod: PodView, knowledge: SharingKnowledge) -> NodeState:
    """Return the state of a node for a pod that requests a share.

    Its free GPUs are the one that the pod should share, or else the idle ones on which MPS can
    serve the pod.
    """
    avoiding = AvoidingPod.of(pod)
    usage = usage.for_shares
    restricted = restricted_state(usage, avoiding)
    ready = _without(restricted, usage.not_shareable, _NONE_READY)
    if usage.most_pods_per_gpu == 0:
        return replace(ready, blocked=NO_SHARES)
    if usage.numa is not None:
        return replace(ready, blocked=BESIDE_NUMA)
    percent = knowledge.policy.max_memory_percent
    too_small = _too_small(usage, pod, percent)
    if too_small and too_small == usage.topology.mask:
        return replace(ready, blocked=_too_much_memory(usage, pod, percent))
    state = _without(ready, too_small, _TOO_SMALL)
    options = _permitted_options(usage, pod, knowledge)
    chosen = choose_option(options, state, knowledge.policy)
    if chosen is not None:
        return replace(state, free=mask_of([chosen.gpu]), restrictions=(), not_shared=None)
    reasons = {option.reason for option in options if option.reason is not None}
    awaited = _awaited(usage, reasons, idle=ready is not restricted)
    reason = awaited or _first(reasons) or state.not_shared or _NO_GPU
    return replace(state, not_shared=reason, awaits_mps=awaited is not None)


def state_of(usage: NodeUsage, pod: PodView, knowledge: SharingKnowledge) -> NodeState:
    """Return the state of a node for a pod, with all that restricts the pod on this node."""
    return sharing_state(usage, pod, knowledge) if pod.shares else state_for(usage, pod)


def _permitted_options(
    usage: NodeUsage, pod: PodView, knowledge: SharingKnowledge
) -> list[ShareOption]:
    """Return the options without the GPUs that the pod must avoid."""
    barred = avoid_restriction(usage.topology, usage.occupants, AvoidingPod.of(pod))
    return [
        option
        for option in share_options(usage, pod, knowledge)
        if barred is None or not mask_of([option.gpu]) & barred.gpus
    ]


def free_for(usage: NodeUsage, pod: PodView, shared: ChosenShare) -> GpuMask:
    """Return the free GPUs from which :func:`sharing_state` let the policy choose this share."""
    if shared.option is not None:
        return known_mask(usage.topology, [shared.share])
    too_small = _too_small(usage, pod, shared.max_memory_percent)
    return GpuMask(usage.for_shares.free & ~usage.not_shareable & ~too_small)


def _awaited(usage: NodeUsage, reasons: set[str], *, idle: bool) -> str | None:
    """Return why the pod must wait for MPS; None if it would share no GPU with MPS either.

    ``idle`` is whether MPS is not ready on an idle GPU, ``reasons`` why no shared GPU is taken.
    """
    on_shared = REASONS[SharingReason.MPS_NOT_AVAILABLE]
    if not idle and on_shared not in reasons:
        return None
    if usage.mps_outage:
        return _OUTAGE
    return _NONE_READY if idle else NO_IDLE + on_shared


def _without(state: NodeState, gpus: GpuMask, reason: str) -> NodeState:
    """Return the state without some of the free GPUs."""
    if not (state.free | state.deleted) & gpus:
        return state
    free, deleted = GpuMask(state.free & ~gpus), GpuMask(state.deleted & ~gpus)
    return replace(state, free=free, deleted=deleted, not_shared=reason)


def _too_small(usage: NodeUsage, pod: PodView, percent: int) -> GpuMask:
    """Return the GPUs of which the pod declares more memory than one pod may have."""
    needed = sharing_limits(pod).memory_bytes
    if needed is None:
        return GpuMask(0)
    most = usage.most_pods_per_gpu
    return mask_of(
        gpu.index
        for gpu in usage.topology.gpus
        if most_memory(gpu.memory_bytes, most, percent) < needed
    )


def _too_much_memory(usage: NodeUsage, pod: PodView, percent: int) -> str:
    """Return that the pod declares more memory than it may have of the largest GPU."""
    size = max(gpu.memory_bytes for gpu in usage.topology.gpus)
    most = most_memory(size, usage.most_pods_per_gpu, percent) // _MIB * _MIB
    declared = format_bytes(sharing_limits(pod).memory_bytes or 0)
    return (
        f"{SHARING_MEMORY_ANNOTATION}: {declared}, but one pod may have at most "
        f"{format_bytes(most)} of a GPU with {format_bytes(size)}; declare less, or request "
        "a whole GPU"
    )


def _first(reasons: set[str]) -> str | None:
    """Return one reason for the node: the one that a user can change most easily."""
    order = (*REASONS.values(), NO_MEMORY, NOT_KNOWN)
    found = sorted(reasons, key=lambda each: order.index(each) if each in order else len(order))
    return NO_IDLE + found[0] if found else None
