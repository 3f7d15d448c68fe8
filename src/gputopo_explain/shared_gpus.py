"""Explains which shared GPUs a pod may share, and why it does not share the others."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gputopo.sharing.choice import SharingDecision
from gputopo.topology.model import GpuIndex, mask_of
from gputopo_cluster.usage import NodeUsage
from gputopo_explain.snapshot import ClusterSnapshot
from gputopo_kube.pods import PodView
from gputopo_scheduling.restrictions import may_use
from gputopo_scheduling.share_options import ShareOption, share_options

AVOIDED: Final = "the GPU is beside a pod to avoid"
TRIAL: Final = "the speeds are not known; sharing.unknownPairs is Try, so they are measured"


@dataclass(frozen=True, slots=True)
class PodSlowdown:
    """How much longer a training step takes than alone, in percent.

    Attributes:
        pod: namespace and name.
        limit: the pod's own limit; None without limit.
    """

    pod: str
    percent: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class ShareOutlook:
    """Whether a pod may share one GPU now.

    Attributes:
        beside: namespaces and names of the pods that share the GPU.
        allowed: whether the pod may share the GPU with them.
        reason: why, with the values that decided.
        summed_speed: predicted sum of the speeds of all pods, each relative to its speed alone;
            None if it is unknown or was not needed.
        slowdowns: predicted slowdown of each pod of ``beside``, then of the pod itself; empty as
            before.
    """

    node: str
    gpu: GpuIndex
    beside: Sequence[str]
    allowed: bool
    reason: str
    summed_speed: float | None = None
    slowdowns: Sequence[PodSlowdown] = ()


def share_outlooks(
    pod: PodView, nodes: Iterable[str], snapshot: ClusterSnapshot
) -> list[ShareOutlook]:
    """Return the shared GPUs of these nodes; none for a pod that requests whole GPUs."""
    return [*_outlooks(pod, nodes, snapshot)] if pod.shares else []


def _outlooks(
    pod: PodView, nodes: Iterable[str], snapshot: ClusterSnapshot
) -> Iterator[ShareOutlook]:
    for node in nodes:
        usage = snapshot.usages.get(node)
        if isinstance(usage, NodeUsage) and usage.most_pods_per_gpu and usage.numa is None:
            for option in share_options(usage, pod, snapshot.sharing):
                found = outlook(node, option)
                barred = not may_use(usage, pod, mask_of([option.gpu]))
                yield replace(found, allowed=False, reason=AVOIDED) if barred else found


def outlook(node: str, option: ShareOption) -> ShareOutlook:
    """Describe an option of a node."""
    decision, allowed = option.decision, option.reason is None
    if decision is None:
        return ShareOutlook(node, option.gpu, option.beside, allowed, option.reason or "")
    reason = decision.text if option.is_known or not allowed else TRIAL
    return ShareOutlook(
        node,
        gpu=option.gpu,
        beside=option.beside,
        allowed=allowed,
        reason=reason,
        summed_speed=decision.gain.summed_speed if decision.gain else None,
        slowdowns=_slowdowns(decision) if decision.gain else (),
    )


def _slowdowns(decision: SharingDecision) -> tuple[PodSlowdown, ...]:
    return tuple(
        PodSlowdown(each.job, round(each.percent), each.limit) for each in decision.slowdowns
    )
