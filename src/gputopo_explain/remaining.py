"""Finds out for how long the GPUs of a cluster stay in use: the start of a simulation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from gputopo.topology.model import GpuMask, NodeTopology, indices_of
from gputopo_cluster.usage import NodeUsage
from gputopo_explain.machines import Machine
from gputopo_explain.objects import ClusterObjects, LiveKind
from gputopo_explain.pending.ends import PodEnds
from gputopo_explain.pending.model import EndKind, PodEnd
from gputopo_explain.pending.releases import HeldGpus, held_gpus
from gputopo_kube.document import Document

FOREVER = "never, because no end is known"
UNHEALTHY = "never, because the GPUs are unhealthy"
ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class RemainingUse:
    """GPUs of a node that are in use now.

    Attributes:
        pod: namespace and name of the user; empty for unhealthy GPUs and unknown users.
        seconds: time from now until the GPUs become free; infinite if they never do.
        source: why this time is used.
    """

    node: str
    gpus: GpuMask
    pod: str
    seconds: float
    source: str


@dataclass(frozen=True, slots=True)
class RemainingUses:
    """The nodes on which jobs could start, and their GPUs in use. No GPU is in two uses.

    Attributes:
        left_out: the other nodes, and why no job can start there.
        waiting: number of pending pods with GPUs; they are not simulated.
    """

    nodes: Mapping[str, NodeTopology]
    uses: Sequence[RemainingUse]
    left_out: Mapping[str, str]
    waiting: int


def remaining_uses(objects: ClusterObjects, assumed_seconds: float | None) -> RemainingUses:
    """Return the GPUs in use and when they become free.

    Args:
        objects: the cluster.
        assumed_seconds: remaining time of a pod without a known end; None: such a pod never ends.
    """
    snapshot, ends = objects.snapshot, PodEnds(objects)
    documents = {str(pod["metadata"].get("uid")): pod for pod in objects[LiveKind.PODS]}
    nodes: dict[str, NodeTopology] = {}
    uses: list[RemainingUse] = []
    left_out: dict[str, str] = {}
    for name, usage in sorted(snapshot.usages.items()):
        if not isinstance(usage, NodeUsage):
            left_out[name] = "its GPUTopology is unreadable"
        elif reason := _why_closed(usage, objects.machines.get(name)):
            left_out[name] = reason
        else:
            nodes[name] = usage.topology
            held = held_gpus(usage)
            until = {uid: _until(documents.get(uid), ends, assumed_seconds) for uid in held}
            uses.extend(_uses(name, usage, held, until))
    waiting = sum(pod.live and pod.node is None for pod in snapshot.pods)
    return RemainingUses(nodes, uses, left_out, waiting)


def _why_closed(usage: NodeUsage, machine: Machine | None) -> str:
    """Return why no job can start on the node; empty if a job can."""
    if machine is not None and machine.rules["spec"].get("unschedulable"):
        return "the node is cordoned"
    if usage.unknown:
        return "the agent does not yet report which GPUs other schedulers' pods use"
    return usage.blocked or usage.not_ready or ""


def _uses(
    name: str,
    usage: NodeUsage,
    held: Mapping[str, HeldGpus],
    until: Mapping[str, tuple[float, str]],
) -> Iterator[RemainingUse]:
    """Yield unhealthy GPUs, then each user's; a GPU of two users is with the one that stays longer.

    GPUs in use without a known user stay in use.
    """
    unhealthy = GpuMask(usage.topology.mask & ~usage.healthy)
    if unhealthy:
        yield RemainingUse(name, unhealthy, "", inf, UNHEALTHY)
    left = usage.used & usage.healthy
    for uid in sorted(held, key=lambda uid: (-until[uid][0], held[uid].name)):
        gpus = GpuMask(held[uid].gpus & left)
        left &= ~gpus
        if gpus:
            yield RemainingUse(name, gpus, held[uid].name, *until[uid])


def _until(pod: Document | None, ends: PodEnds, assumed: float | None) -> tuple[float, str]:
    """Return for how many seconds a pod keeps its GPUs, and why."""
    found = [each for each in (ends.of_pod(pod) if pod else ()) if _is_ahead(each)]
    if found:
        return float(max(0, found[0].seconds)), found[0].source
    return (inf, FOREVER) if assumed is None else (assumed, ASSUMED)


def _is_ahead(end: PodEnd) -> bool:
    """Return whether an end is in the future, or enforced: then it is due now."""
    return end.kind is EndKind.DEADLINE or end.seconds > 0


def gpu_list(gpus: GpuMask) -> str:
    """Return the indices of GPUs as text.

    >>> gpu_list(GpuMask(0b1101))
    '0,2,3'
    """
    return ",".join(map(str, indices_of(gpus)))
