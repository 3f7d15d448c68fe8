"""Computes the CPUs and memory that gputopo guarantees to each sized pod of a node."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from gputopo.api.tuning import Amounts, TunedRecord
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.tuning.matrix import sensitivity_of
from gputopo.tuning.model import PendingPod, TunedNode, TunedPod
from gputopo.tuning.pods import (
    amounts_of,
    claimed_memory,
    floor_of,
    held_by,
    is_measured,
    left_alone_because,
    most_of,
    tunes_memory,
)
from gputopo.tuning.shares import MEBIBYTE, Bounds, share_per_gpu
from gputopo.tuning.storage import storage_part
from gputopo.tuning.waits import RESIZE_INTERVAL_SECONDS, seconds_since_resize

NOTHING: Final = Amounts(0, 0)


@dataclass(frozen=True, slots=True)
class SizedPod:
    """A pod that gputopo resizes, and its guaranteed amounts.

    Attributes:
        now: amounts that the pod has now.
        share: proportional share of the pod, within ``floor`` and ``most``.
        least: the fewest CPUs and memory, from ``floor`` to ``share``, with which the pod is as
            fast as with its share. This holds also while the other pods do not use the storage. It
            is more if the pod ran out of memory.
        matrix: throughput of the pod; None if it is unknown. The pod then gets its share.
        resized_recently: whether the last resize was in the last ``RESIZE_INTERVAL_SECONDS``.
    """

    uid: str
    gpus: int
    now: Amounts
    floor: Amounts
    share: Amounts
    least: Amounts
    most: Amounts
    matrix: SensitivityMatrix | None = None
    resized_recently: bool = False

    def value(self, amounts: Amounts) -> float:
        """Return the throughput with these amounts, relative to that with the share.

        If the share gives no throughput, the result is relative to the best throughput. Without a
        matrix the result is 1.
        """
        if self.matrix is None:
            return 1.0
        scale = throughput(self.matrix, self.share) or self.matrix.best
        return throughput(self.matrix, amounts) / scale


@dataclass(frozen=True, slots=True)
class SizedNode:
    """The pods of a node that gputopo resizes, by UID, and the CPUs and memory for them.

    Attributes:
        capacity: CPUs and memory of the node for these pods and for new pods.
        kept_free: the part of ``capacity`` that is kept free for pending pods.
        share_per_gpu: the share of one GPU.
    """

    capacity: Amounts
    pods: tuple[SizedPod, ...]
    kept_free: Amounts = NOTHING
    share_per_gpu: Amounts = NOTHING

    @property
    def available(self) -> Amounts:
        """What the pods together may have: the capacity without what is kept free."""
        return minus(self.capacity, self.kept_free)

    @property
    def spare(self) -> Amounts:
        """What is left if each pod has its least amounts; negative if these do not fit."""
        return minus(self.available, total(pod.least for pod in self.pods))


def total(amounts: Iterable[Amounts]) -> Amounts:
    """Return the sum of amounts."""
    each = list(amounts)
    return Amounts(sum(one.milli_cpu for one in each), sum(one.memory for one in each))


def minus(one: Amounts, other: Amounts) -> Amounts:
    """Return the difference of two amounts, which may be negative."""
    return Amounts(one.milli_cpu - other.milli_cpu, one.memory - other.memory)


def throughput(matrix: SensitivityMatrix, amounts: Amounts) -> float:
    """Return the throughput with these amounts, in the unit of the matrix.

    A pod without a memory request has a matrix with one column, which begins at one byte.
    """
    return matrix.at(amounts.milli_cpu / 1000, max(1, amounts.memory) / 1e9)


def least_amounts(matrix: SensitivityMatrix, share: Amounts, floor: Amounts) -> Amounts:
    """Return the least amounts, from ``floor`` to ``share``, with the throughput of ``share``.

    First the function searches the fewest CPUs, and then the least memory for these CPUs.
    """
    needed = throughput(matrix, share)
    least = share
    for milli_cpu in (floor.milli_cpu, *(round(cpus * 1000) for cpus in matrix.cpus)):
        fewer = Amounts(milli_cpu, share.memory)
        if floor.milli_cpu <= milli_cpu < least.milli_cpu and throughput(matrix, fewer) >= needed:
            least = fewer
    for memory in (floor.memory, *(round(memory_gb * 1e9) for memory_gb in matrix.memory_gb)):
        less = Amounts(least.milli_cpu, memory)
        if floor.memory <= memory < least.memory and throughput(matrix, less) >= needed:
            least = less
    return least


def sized_node(node: TunedNode) -> SizedNode:
    """Return the pods of the node that gputopo resizes, and their guaranteed amounts."""
    tuned = [pod for pod in node.pods if not left_alone_because(pod)]
    tuned.sort(key=lambda pod: pod.uid)
    capacity, share = _divided(node)
    measured = [_guaranteed(pod, share, node) for pod in node.pods if is_measured(pod)]
    capacity = minus(capacity, total(measured))
    sized = SizedNode(
        capacity, tuple(_sized(pod, share, node) for pod in tuned), share_per_gpu=share
    )
    sized = _with_claims(sized, {pod.uid: claimed_memory(pod) for pod in tuned})
    return replace(sized, kept_free=_kept_free(sized.spare, node.pending))


def kept_for_measured(node: TunedNode) -> dict[str, Amounts]:
    """Return the amounts that the node keeps for each measured pod, by UID: at least its share.

    The pod gets its share at the end of the measurement. If other pods used these CPUs until then,
    the operator could not measure the pod with more than its floor.
    """
    _, share = _divided(node)
    return {pod.uid: _guaranteed(pod, share, node) for pod in node.pods if is_measured(pod)}


def _divided(node: TunedNode) -> tuple[Amounts, Amounts]:
    """Return what the node has for pods that are resized or measured, and the share of one GPU."""
    alone = [pod for pod in node.pods if left_alone_because(pod) and not is_measured(pod)]
    pods = [pod for pod in node.pods if is_measured(pod) or not left_alone_because(pod)]
    capacity = minus(minus(node.allocatable, node.others), total(map(held_by, alone)))
    gpus = node.gpus - sum(pod.gpus for pod in alone)
    return capacity, _share_per_gpu(capacity, gpus, pods, node)


def _least_of(pod: TunedPod) -> Amounts:
    """Return the lower bounds of the pod: its floor, or the current amounts of a measured pod."""
    return held_by(pod) if is_measured(pod) else floor_of(pod)


def _guaranteed(pod: TunedPod, per_gpu: Amounts, node: TunedNode) -> Amounts:
    """Return the share of the pod, within its lower and upper bounds."""
    most = most_of(pod, node.allocatable, node.now)
    bounds = zip(_least_of(pod), per_gpu, most, strict=True)
    return Amounts(*(Bounds(pod.gpus, low, high).guaranteed(each) for low, each, high in bounds))


def _share_per_gpu(
    capacity: Amounts, gpus: int, pods: Sequence[TunedPod], node: TunedNode
) -> Amounts:
    """Return the share of one GPU. Pods whose memory is not tuned have no share of the memory."""
    cpus, memory = [], []
    for pod in pods:
        floor, most = _least_of(pod), most_of(pod, node.allocatable, node.now)
        cpus.append(Bounds(pod.gpus, floor.milli_cpu, most.milli_cpu))
        if tunes_memory(pod):
            memory.append(Bounds(pod.gpus, floor.memory, most.memory))
    fixed = [pod for pod in pods if not tunes_memory(pod)]
    memory_left = capacity.memory - sum(_least_of(pod).memory for pod in fixed)
    gpus_left = gpus - sum(pod.gpus for pod in fixed)
    return Amounts(
        share_per_gpu(capacity.milli_cpu, gpus, cpus),
        share_per_gpu(memory_left, gpus_left, memory, unit=MEBIBYTE),
    )


def _sized(pod: TunedPod, per_gpu: Amounts, node: TunedNode) -> SizedPod:
    floor, share, now = floor_of(pod), _guaranteed(pod, per_gpu, node), amounts_of(pod)
    also, part = (floor, share, now), storage_part(pod, node.pods)
    matrix = sensitivity_of(pod, also, part, node.allocatable)
    alone = sensitivity_of(pod, also, most=node.allocatable)
    least = share if matrix is None else least_amounts(matrix, share, floor)
    if alone is not None:
        # The other pods may read nothing at times. Then more CPUs than with divided storage help.
        least = Amounts(*map(max, least, least_amounts(alone, share, floor)))
    return SizedPod(
        uid=pod.uid,
        gpus=pod.gpus,
        now=now,
        floor=floor,
        share=share,
        least=least,
        most=most_of(pod, node.allocatable, node.now),
        matrix=matrix,
        resized_recently=_is_recent(pod.record, node.now),
    )


def _with_claims(node: SizedNode, claimed: Mapping[str, int]) -> SizedNode:
    """Raise the least memory of pods that ran out of memory, by what the other pods do not need.

    The claims come from the records of the pods. So no claim makes another pod slower than with its
    share. Example: of 20 GiB, two pods have a share of 10 GiB, and one is as fast with 4 GiB. If
    the other claims 30 GiB, it gets 16 GiB.
    """
    spare, pods = max(0, node.spare.memory), list[SizedPod]()
    for pod in node.pods:
        wanted = min(claimed[pod.uid], pod.most.memory) - pod.least.memory
        more = min(spare, max(0, wanted))
        spare -= more
        pods.append(replace(pod, least=total((pod.least, Amounts(0, more)))))
    return replace(node, pods=tuple(pods))


def _is_recent(record: TunedRecord | None, now: datetime) -> bool:
    return record is not None and seconds_since_resize(record, now) < RESIZE_INTERVAL_SECONDS


def _kept_free(spare: Amounts, pending: Iterable[PendingPod]) -> Amounts:
    """Return the requests of the pending pods that fit, in the order of their importance."""
    accepted = NOTHING
    for pod in pending:
        with_pod = total((accepted, pod.requests))
        if min(minus(spare, with_pod)) >= 0:
            accepted = with_pod
    return accepted
