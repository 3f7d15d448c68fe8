"""Which GPUs of a node a sharing pod may get: a part of a shared GPU, or an idle GPU.

A pod that requests a share gets a GPU that it shares with others if the prediction says that this
pays (:mod:`gputopo.sharing`), the memory of all its pods fits, and the agent's MPS daemon takes
clients. Otherwise it gets an idle GPU, which later pods may share with it. The decision is a
function of the node's usage, the pod and what the GPUProfiles show.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from gputopo.api.annotations import AnnotationError
from gputopo.api.profile import MAX_SHARES
from gputopo.api.shares import SharingLimits, gpu_of, parse_sharing, share_id, usable_bytes
from gputopo.sharing.choice import SharingDecision, SharingReason, SharingSettings
from gputopo.sharing.decision import decide_sharing
from gputopo.sharing.model import MeasuredSharing, SharingJob, SharingWorkload
from gputopo.sharing.predictor import SharingPredictor
from gputopo.topology.model import GpuIndex, GpuMask, GpuUuid, indices_of, mask_of
from gputopo_kube.pods import PodView
from gputopo_scheduling.occupants import Occupant
from gputopo_scheduling.restrictions import AvoidingPod, avoid_restriction, restricted_state
from gputopo_scheduling.sharing_facts import measured_sharings
from gputopo_scheduling.surroundings import InterferenceFacts, workload_name
from gputopo_scheduling.topologies import known_mask
from gputopo_scheduling.usage import NodeState, NodeUsage

NO_SHARES: Final = "the node offers no shares of GPUs"
BESIDE_NUMA: Final = "the node offers no shares of GPUs while kubelet takes GPUs by NUMA node"

_NO_IDLE: Final = "no idle GPU, and on shared GPUs "
_REASONS: Final = {
    SharingReason.TOO_SLOW: "a job would be slower than its limit",
    SharingReason.NO_GAIN: "sharing would not pay",
    SharingReason.UNKNOWN_SPEED: "the speed of the pod beside the others is unknown",
    SharingReason.TOO_MANY_JOBS: "there are the most pods already",
    SharingReason.MPS_NOT_AVAILABLE: "MPS is not ready",
}
_DEFAULT: Final = SharingSettings()
_NO_MEMORY: Final = "too little memory is left"
_NOT_KNOWN: Final = "the pods are not known yet"
_NO_GPU: Final = "no GPU is idle, and none is shared by pods beside which the pod may run"
_NONE_READY: Final = "MPS is not ready on the idle GPUs"
_TOO_SMALL: Final = "the idle GPUs have less memory than the pod needs"


class Unknown(StrEnum):
    """What to do with workloads whose speed beside each other is unknown.

    EXCLUSIVE: they do not share a GPU. TRY: they do if no GPU of the node is idle, so that their
    speeds are measured.
    """

    EXCLUSIVE = "Exclusive"
    TRY = "Try"


class ShareKind(StrEnum):
    """How a pod got its share: of an idle GPU, by a prediction, or to measure unknown speeds."""

    ALONE = "alone"
    PREDICTED = "predicted"
    TRIED = "tried"


class Preference(StrEnum):
    """Which GPU a sharing pod gets if sharing pays and other GPUs are idle."""

    SHARED = "Shared"
    IDLE = "Idle"


@dataclass(frozen=True, slots=True)
class SharingPolicy:
    """Settings of the installation.

    Attributes:
        max_slowdown_percent: limit of pods that declare none; None for no limit.
    """

    settings: SharingSettings = _DEFAULT
    unknown: Unknown = Unknown.EXCLUSIVE
    preference: Preference = Preference.SHARED
    max_slowdown_percent: int | None = None

    @classmethod
    def of(
        cls,
        min_gain_percent: int = 5,
        max_slowdown_percent: int = 100,
        unknown: Unknown = Unknown.EXCLUSIVE,
        preference: Preference = Preference.SHARED,
    ) -> "SharingPolicy":
        """Return the policy for the extender's settings. The nodes limit the number of pods."""
        settings = SharingSettings(margin=1 + min_gain_percent / 100, max_jobs=MAX_SHARES)
        return cls(settings, unknown, preference, max_slowdown_percent)


@dataclass(frozen=True)
class SharingKnowledge:
    """The policy, and what GPUProfiles show about workloads that share a GPU.

    Attributes:
        workloads: what is known of each workload alone, by name.
        measured: the measured sharings by GPU model.
    """

    policy: SharingPolicy = SharingPolicy()
    workloads: Mapping[str, SharingWorkload] = field(default_factory=dict)
    measured: Mapping[str, tuple[MeasuredSharing, ...]] = field(default_factory=dict)
    _predictors: dict[str, SharingPredictor] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, facts: InterferenceFacts, policy: SharingPolicy) -> "SharingKnowledge":
        """Return the knowledge from the facts of all GPUProfiles."""
        known = [each.sharing for each in facts.workloads.values() if each.sharing is not None]
        return cls(
            policy, {each.workload.name: each.workload for each in known}, measured_sharings(known)
        )

    def predictor(self, model: str) -> SharingPredictor:
        """Return the predictor for GPUs of a model."""
        if model not in self._predictors:
            facts = self.measured.get(model, ())
            self._predictors[model] = SharingPredictor(facts, self.workloads.values())
        return self._predictors[model]

    def job(self, pod: PodView) -> SharingJob:
        """Return a pod as a job that shares a GPU."""
        name = workload_name(pod)
        known = "" if name.endswith("/") else name
        limit = sharing_limits(pod).max_slowdown_percent
        return SharingJob(
            str(pod.key),
            self.workloads.get(known) or SharingWorkload(known),
            max_slowdown_percent=self.policy.max_slowdown_percent if limit is None else limit,
        )


@dataclass(frozen=True, slots=True)
class ShareOption:
    """Whether a pod may share one GPU with its present pods.

    Attributes:
        beside: namespaces and names of the present pods.
        decision: None if the memory does not fit, or the present pods are not known.
        reason: why the pod does not share the GPU, in short; None if it may.
        is_known: whether the speeds are known, so that the decision is not a trial.
    """

    gpu: GpuIndex
    beside: tuple[str, ...]
    decision: SharingDecision | None
    reason: str | None
    is_known: bool = True

    @property
    def rank(self) -> tuple[float, int]:
        """The best option has the lowest rank: the highest summed speed, then the lowest index."""
        gain = self.decision.gain if self.decision else None
        return (-gain.summed_speed if gain else 0.0, self.gpu)


@dataclass(frozen=True, slots=True)
class ChosenShare:
    """The share that a pod gets.

    Attributes:
        share: device ID of the share.
        option: the prediction; None if no other pod uses the GPU.
    """

    share: GpuUuid
    option: ShareOption | None

    @property
    def kind(self) -> "ShareKind":
        """How the pod got the share."""
        if self.option is None:
            return ShareKind.ALONE
        return ShareKind.PREDICTED if self.option.is_known else ShareKind.TRIED


def sharing_limits(pod: PodView) -> SharingLimits:
    """Return the limits that a pod declares; without limits if an annotation is wrong.

    The extender rejects a pod with a wrong annotation before it places the pod. A user can change
    the annotation of a running pod.
    """
    try:
        return parse_sharing(pod.annotations)
    except AnnotationError:
        return SharingLimits()


def sharing_state(usage: NodeUsage, pod: PodView, knowledge: SharingKnowledge) -> NodeState:
    """Return the state of a node for a pod that requests a share.

    Its free GPUs are the one that the pod should share, or else the idle ones on which MPS can
    serve the pod.
    """
    avoiding = AvoidingPod.of(pod)
    state = restricted_state(usage, avoiding)
    for gpus, reason in ((usage.not_shareable, _NONE_READY), (_too_small(usage, pod), _TOO_SMALL)):
        state = _without(state, gpus, reason)
    if usage.most_pods_per_gpu == 0:
        return replace(state, blocked=NO_SHARES)
    if usage.numa is not None:
        return replace(state, blocked=BESIDE_NUMA)
    barred = avoid_restriction(usage.topology, usage.occupants, avoiding)
    options = [
        option
        for option in share_options(usage, pod, knowledge)
        if barred is None or not mask_of([option.gpu]) & barred.gpus
    ]
    chosen = choose_option(options, state, knowledge.policy)
    if chosen is not None:
        return replace(state, free=mask_of([chosen.gpu]), restrictions=(), not_shared=None)
    reasons = {option.reason for option in options if option.reason is not None}
    return replace(state, not_shared=_first(reasons) or state.not_shared or _NO_GPU)


def free_for(usage: NodeUsage, pod: PodView, shared: ChosenShare) -> GpuMask:
    """Return the free GPUs from which :func:`sharing_state` let the policy choose this share."""
    if shared.option is not None:
        return known_mask(usage.topology, [shared.share])
    return GpuMask(usage.free & ~usage.not_shareable & ~_too_small(usage, pod))


def _without(state: NodeState, gpus: GpuMask, reason: str) -> NodeState:
    """Return the state without some of the free GPUs."""
    if not (state.free | state.deleted) & gpus:
        return state
    free, deleted = GpuMask(state.free & ~gpus), GpuMask(state.deleted & ~gpus)
    return replace(state, free=free, deleted=deleted, not_shared=reason)


def _too_small(usage: NodeUsage, pod: PodView) -> GpuMask:
    """Return the GPUs that have less memory than the pod declares."""
    needed = sharing_limits(pod).memory_bytes or 0
    return mask_of(
        gpu.index for gpu in usage.topology.gpus if usable_bytes(gpu.memory_bytes) < needed
    )


def choose_option(
    options: Iterable[ShareOption], idle: NodeState, policy: SharingPolicy
) -> ShareOption | None:
    """Return the option that a pod takes; None if it takes an idle GPU or none at all."""
    allowed = [option for option in options if option.reason is None]
    has_idle = idle.usable(idle.free).bit_count() > idle.unknown
    if has_idle and policy.preference is Preference.IDLE:
        return None
    known = [option for option in allowed if option.is_known or not has_idle]
    return min(known, key=lambda option: (not option.is_known, option.rank), default=None)


def share_options(usage: NodeUsage, pod: PodView, knowledge: SharingKnowledge) -> list[ShareOption]:
    """Return for each healthy GPU in shares whether a pod may share it, by index of the GPU.

    A GPU that another pod has as a whole, against the rules, is left out.
    """
    present: dict[GpuIndex, list[Occupant]] = {}
    whole = usage.shared
    for occupant in usage.occupants:
        if not occupant.shares:
            whole = GpuMask(whole | occupant.gpus)
        elif occupant.uid != pod.uid:
            for gpu in indices_of(occupant.gpus):
                present.setdefault(gpu, []).append(occupant)
    in_shares = indices_of(GpuMask(usage.in_shares & usage.healthy & ~whole))
    return [_option(usage, gpu, present.get(gpu, []), pod, knowledge) for gpu in in_shares]


def shared_gpu(
    usage: NodeUsage, pod: PodView, gpu: GpuIndex, knowledge: SharingKnowledge
) -> ChosenShare:
    """Return the share of a GPU for a pod, with the prediction; the GPU may be idle."""
    option = next((each for each in share_options(usage, pod, knowledge) if each.gpu == gpu), None)
    return ChosenShare(next_share(usage, gpu), option)


def next_share(usage: NodeUsage, gpu: GpuIndex) -> GpuUuid:
    """Return the free share of a GPU with the lowest number."""
    uuid = usage.topology.uuid_of[gpu]
    numbers = range(len(usage.shares) + 1)
    return next(each for n in numbers if (each := share_id(uuid, n)) not in usage.shares)


def _option(
    usage: NodeUsage,
    gpu: GpuIndex,
    present: list[Occupant],
    pod: PodView,
    knowledge: SharingKnowledge,
) -> ShareOption:
    beside = tuple(str(each.key) for each in present)
    pods = [each.pod for each in present if each.pod is not None]
    # The pod may have a reservation of its own.
    others = usage.shares.difference(*(it.shares for it in usage.occupants if it.uid == pod.uid))
    used = {share for share in others if gpu_of(share) == usage.topology.uuid_of[gpu]}
    if len(pods) < len(used):
        return ShareOption(gpu, beside, None, _NOT_KNOWN)
    if len(pods) < usage.most_pods_per_gpu and not _memory_fits(usage, gpu, (*pods, pod)):
        return ShareOption(gpu, beside, None, _NO_MEMORY)
    policy, model = knowledge.policy, usage.topology.gpu_at[gpu].model
    settings = replace(
        policy.settings, max_jobs=min(policy.settings.max_jobs, usage.most_pods_per_gpu)
    )
    decision = decide_sharing(
        knowledge.job(pod),
        [knowledge.job(each) for each in pods],
        knowledge.predictor(model),
        settings,
        mps_available=not mask_of([gpu]) & usage.not_shareable,
    )
    tries = decision.reason is SharingReason.UNKNOWN_SPEED and policy.unknown is Unknown.TRY
    reason = None if decision.shares or tries else _REASONS.get(decision.reason, decision.text)
    return ShareOption(gpu, beside, decision, reason, is_known=decision.shares)


def _memory_fits(usage: NodeUsage, gpu: GpuIndex, pods: Iterable[PodView]) -> bool:
    size = usage.topology.gpu_at[gpu].memory_bytes
    needed = sum(sharing_limits(pod).memory_on(size, usage.most_pods_per_gpu) for pod in pods)
    return needed <= usable_bytes(size)


def _first(reasons: set[str]) -> str | None:
    """Return one reason for the node: the one that a user can change most easily."""
    order = (*_REASONS.values(), _NO_MEMORY, _NOT_KNOWN)
    found = sorted(reasons, key=lambda each: order.index(each) if each in order else len(order))
    return _NO_IDLE + found[0] if found else None
