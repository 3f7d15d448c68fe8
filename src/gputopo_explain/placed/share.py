"""Describes the share of a GPU that a placed pod has, and what was predicted for it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gputopo.api.names import (
    SHARING_IF_SLOW_ANNOTATION,
    SHARING_MAX_SLOWDOWN_ANNOTATION,
    SHARING_MEMORY_ANNOTATION,
    SHARING_TERMINATION_ANNOTATION,
)
from gputopo.api.quantity import format_bytes
from gputopo.api.shares import SharingLimits, gpu_of, is_share
from gputopo.topology.model import GpuIndex
from gputopo_cluster.topologies import GpuNode
from gputopo_explain.placed.recorded import RecordedPlacement
from gputopo_kube.pods import PodView
from gputopo_scheduling.sharing_knowledge import sharing_limits

_SLOWDOWN: Final = "largest slowdown"
IDLE_GPU: Final = "the GPU was idle"


@dataclass(frozen=True, slots=True)
class PlacedShare:
    """The share of a placed pod.

    Attributes:
        id: device ID of the share.
        gpu: index of the GPU on the node now; None if the node has no such GPU.
        limits: what the pod declares now.
        memory_bytes: the pod's GPU memory; None if the size of the GPU is unknown.
        beside: namespaces and names of the pods that shared the GPU already.
        beside_now: namespaces and names of the other pods that share the GPU now.
        summed_speed: predicted sum of the speeds of all pods, each relative to its speed alone;
            None if it was unknown, or if the GPU was idle.
        slowdowns: each pod of ``beside``, then the pod itself, with its predicted slowdown in
            percent; empty as before.
        reason: the prediction in words.
    """

    id: str
    gpu: GpuIndex | None
    limits: SharingLimits
    memory_bytes: int | None
    beside: Sequence[str]
    beside_now: Sequence[str]
    summed_speed: float | None
    slowdowns: Sequence[tuple[str, int]]
    reason: str


@dataclass(frozen=True, slots=True)
class SharePart:
    """One value of a share, and where it came from or what it means."""

    name: str
    value: str
    why: str


def placed_share(
    pod: PodView, recorded: RecordedPlacement, node: GpuNode | None
) -> PlacedShare | None:
    """Return the share of a pod; None if the pod has whole GPUs."""
    figures = recorded.figures.sharing if recorded.figures else None
    chosen = next(filter(is_share, recorded.devices), None)
    if figures is None or chosen is None:
        return None
    limits, gpu = sharing_limits(pod), gpu_of(chosen)
    index = node.topology.index_of.get(gpu) if node else None
    users = node.users if node else ()
    names = [*figures.beside, str(pod.key)]
    return PlacedShare(
        id=chosen,
        gpu=index,
        limits=limits,
        memory_bytes=_memory(limits, node, index),
        beside=figures.beside,
        beside_now=[
            each.pod for each in users if each.share and each.gpu == index and each.uid != pod.uid
        ],
        summed_speed=_from_permille(figures.summed_speed_permille),
        slowdowns=[*zip(names, figures.slowdown_percents, strict=False)],
        reason=figures.reason or IDLE_GPU,
    )


def _memory(limits: SharingLimits, node: GpuNode | None, gpu: GpuIndex | None) -> int | None:
    if node is None or gpu is None or not node.most_pods_per_gpu:
        return limits.memory_bytes
    return limits.memory_on(node.topology.gpu_at[gpu].memory_bytes, node.most_pods_per_gpu)


def _from_permille(permille: int | None) -> float | None:
    return None if permille is None else permille / 1000


def share_parts(share: PlacedShare) -> Iterator[SharePart]:
    """Yield the parts of the explanation, for a table."""
    limits = share.limits
    yield SharePart("device", share.id, share.reason)
    for pod, percent in share.slowdowns:
        yield SharePart("predicted", f"{pod}: {percent} % longer", "a training step, when placed")
    now = ", ".join(share.beside_now) or "no other pod"
    yield SharePart("beside now", now, "users of the GPU that the agent reports")
    memory = "unknown" if share.memory_bytes is None else format_bytes(share.memory_bytes)
    declared = limits.memory_bytes is not None
    why = f"annotation {SHARING_MEMORY_ANNOTATION}" if declared else "an equal part of the GPU"
    yield SharePart("GPU memory", memory, f"{why}; the limit that MPS enforces")
    most = limits.max_slowdown_percent
    if most is None:
        yield SharePart(_SLOWDOWN, "of the installation", "sharing.maxSlowdownPercent of the chart")
    else:
        yield SharePart(_SLOWDOWN, f"{most} %", f"annotation {SHARING_MAX_SLOWDOWN_ANNOTATION}")
    yield SharePart(
        "if it is too slow",
        "moved, if it came last" if limits.moves else "reported",
        f"annotation {SHARING_IF_SLOW_ANNOTATION}" if limits.moves else "default",
    )
    yield SharePart(
        "termination",
        "by its program" if limits.ends_itself else "by the node, before SIGTERM",
        f"annotation {SHARING_TERMINATION_ANNOTATION}" if limits.ends_itself else "default",
    )
