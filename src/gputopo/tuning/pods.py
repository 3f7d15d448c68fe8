"""What a tuned pod has on its node, and whether gputopo may resize it."""

from dataclasses import replace
from datetime import datetime

from gputopo.api.tuning import Amounts, ResourcesMode
from gputopo.tuning.model import TunedNode, TunedPod
from gputopo.tuning.waits import wait_left


def left_alone_because(pod: TunedPod) -> str:
    """Return why gputopo does not resize the pod now; empty if it does."""
    if pod.obstacle:
        return pod.obstacle
    if pod.measuring:
        return "gputopo measures the pod with several CPU limits"
    if pod.record is not None and pod.record.pinned:
        return pod.record.reason or "another client has resized the pod"
    if pod.mode is ResourcesMode.FIXED:
        return "its mode is Fixed"
    if pod.spec.limit_milli_cpu is None:
        return "the container has no CPU limit; set request and limit"
    return ""


def is_measured(pod: TunedPod) -> bool:
    """Return whether gputopo resizes the pod as soon as its measurement has ended."""
    return pod.measuring and not left_alone_because(replace(pod, measuring=False))


def amounts_of(pod: TunedPod) -> Amounts:
    """Return the amounts to which the pod was created or resized: the requests in its spec.

    The operator sets the CPU request of a Burstable pod 1m below the limit, so that the pod stays
    Burstable. In this case the result has the CPU limit.
    """
    request, limit = pod.spec.request, pod.spec.limit_milli_cpu
    if limit is not None and request.milli_cpu == limit - 1:
        return Amounts(limit, request.memory)
    return request


def floor_of(pod: TunedPod) -> Amounts:
    """Return the least amounts that the pod may have.

    These are the amounts with which the pod was created. The memory can be more, if the pod ran out
    of memory or kubelet rejected a cut of memory.

    The operator never gives a pod less than its floor. So the record, which is an annotation,
    counts only up to what the pod has: it must not take anything from other pods.
    """
    now, record = amounts_of(pod), pod.record
    if record is None:
        return now
    memory = max(record.floor.memory, record.least_memory)
    floor = Amounts(*map(min, (record.floor.milli_cpu, memory), had_by(pod)))
    return floor if tunes_memory(pod) else Amounts(floor.milli_cpu, now.memory)


def claimed_memory(pod: TunedPod) -> int:
    """Return the memory below which the pod ran out of memory; 0 if its memory is not tuned."""
    return pod.record.least_memory if pod.record is not None and tunes_memory(pod) else 0


def had_by(pod: TunedPod) -> Amounts:
    """Return the most that the pod has: in its spec, reserved by kubelet, or in its container."""
    spec, state = amounts_of(pod), pod.state
    return Amounts(*map(max, spec, state.allocated or spec, state.applied or spec))


def most_of(pod: TunedPod, allocatable: Amounts, now: datetime) -> Amounts:
    """Return the upper bounds of the pod, which are never below its floor.

    Bounds are set by the user, by the node, and by an earlier raise that has failed on this node.
    After kubelet has deferred a raise too long, the pod is not raised until a wait is over.
    """
    floor, record = floor_of(pod), pod.record
    cpus = [pod.most_milli_cpu, allocatable.milli_cpu]
    memory = [pod.most_memory, allocatable.memory]
    if record is not None:
        waiting = amounts_of(pod) if wait_left(record, now) > 0 else None
        cpus += [record.most_milli_cpu, waiting and waiting.milli_cpu]
        memory += [record.most_memory, waiting and waiting.memory]
    return Amounts(
        max(floor.milli_cpu, min(limit for limit in cpus if limit is not None)),
        max(floor.memory, min(limit for limit in memory if limit is not None))
        if tunes_memory(pod)
        else floor.memory,
    )


def within_bounds(pod: TunedPod, amounts: Amounts, node: TunedNode) -> Amounts:
    """Return the amounts that are closest to ``amounts`` among those that the pod may have."""
    most = most_of(pod, node.allocatable, node.now)
    return Amounts(*map(max, floor_of(pod), map(min, amounts, most)))


def held_by(pod: TunedPod) -> Amounts:
    """Return what the scheduler counts for a pod that gputopo does not resize now.

    What an annotation of the pod claims does not count: a measurement never lowers a sized pod.
    """
    return Amounts(*map(max, pod.spec.request, pod.state.allocated or pod.spec.request))


def tunes_memory(pod: TunedPod) -> bool:
    """Return whether gputopo decides about the memory of the pod, and not only about its CPUs."""
    data = pod.dataset
    if data is None or pod.spec.limit_memory is None or pod.spec.request.memory <= 0:
        return False
    return min(data.size, data.storage_mb_per_s, data.memory_floor, data.bytes_per_step) > 0
