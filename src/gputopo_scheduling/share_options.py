"""Which GPUs in shares a pod may share: a prediction for each of them.

The decision is a function of the node's usage, the pod and what the GPUProfiles show.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from gputopo.api.shares import gpu_of, most_memory, share_id, usable_bytes
from gputopo.sharing.choice import SharingDecision, SharingReason
from gputopo.sharing.decision import decide_sharing
from gputopo.sharing.policy import ALL_MEMORY_PERCENT, Preference, SharingPolicy, Unknown
from gputopo.topology.model import GpuIndex, GpuMask, GpuUuid, indices_of, mask_of
from gputopo_cluster.occupants import Occupant
from gputopo_cluster.usage import NodeState, NodeUsage
from gputopo_kube.pods import PodView
from gputopo_scheduling.sharing_knowledge import SharingKnowledge, sharing_limits

REASONS: Final = {
    SharingReason.TOO_SLOW: "a job would be slower than its limit",
    SharingReason.NO_GAIN: "sharing would not pay",
    SharingReason.UNKNOWN_SPEED: "the speed of the pod beside the others is unknown",
    SharingReason.TOO_MANY_JOBS: "there are the most pods already",
    SharingReason.MPS_NOT_AVAILABLE: "MPS is not ready",
}
"""Why a pod does not share a GPU, in short."""

NO_MEMORY: Final = "too little memory is left"
NOT_KNOWN: Final = "the pods are not known yet"


class ShareKind(StrEnum):
    """How a pod got its share: of an idle GPU, by a prediction, or to measure unknown speeds."""

    ALONE = "alone"
    PREDICTED = "predicted"
    TRIED = "tried"


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
        max_memory_percent: largest part of a GPU that the pod was allowed to declare.
    """

    share: GpuUuid
    option: ShareOption | None
    max_memory_percent: int = ALL_MEMORY_PERCENT

    @property
    def kind(self) -> "ShareKind":
        """How the pod got the share."""
        if self.option is None:
            return ShareKind.ALONE
        return ShareKind.PREDICTED if self.option.is_known else ShareKind.TRIED


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
    return ChosenShare(next_share(usage, gpu), option, knowledge.policy.max_memory_percent)


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
        return ShareOption(gpu, beside, None, NOT_KNOWN)
    full = len(pods) >= usage.most_pods_per_gpu
    percent = knowledge.policy.max_memory_percent
    if not full and not _memory_fits(usage, gpu, pods, pod, percent):
        return ShareOption(gpu, beside, None, NO_MEMORY)
    policy, model = knowledge.policy, usage.topology.gpu_at[gpu].model
    settings = replace(
        policy.settings, max_jobs=min(policy.settings.max_jobs, usage.most_pods_per_gpu)
    )
    decision = decide_sharing(
        knowledge.job(pod, model),
        [knowledge.job(each, model) for each in pods],
        knowledge.predictor(model),
        settings,
        mps_available=not mask_of([gpu]) & usage.not_shareable,
    )
    tries = decision.reason is SharingReason.UNKNOWN_SPEED and policy.unknown is Unknown.TRY
    reason = None if decision.shares or tries else REASONS.get(decision.reason, decision.text)
    return ShareOption(gpu, beside, decision, reason, is_known=decision.shares)


def _memory_fits(
    usage: NodeUsage, gpu: GpuIndex, present: Iterable[PodView], pod: PodView, percent: int
) -> bool:
    size, most = usage.topology.gpu_at[gpu].memory_bytes, usage.most_pods_per_gpu
    own = sharing_limits(pod).memory_on(size, most)
    used = sum(sharing_limits(each).memory_on(size, most) for each in present)
    return own <= most_memory(size, most, percent) and used + own <= usable_bytes(size)
