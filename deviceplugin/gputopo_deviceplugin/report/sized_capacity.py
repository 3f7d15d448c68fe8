"""Computes the CPUs, memory and GPUs that the node has for the pods which gputopo sizes.

The operator divides these CPUs and memory among the sized pods. The extender compares nodes by
their CPUs for sized pods.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from gputopo.api.annotations import AnnotationError
from gputopo.api.shares import gpu_of
from gputopo.api.v1alpha1 import SizedCapacity
from gputopo.topology.model import GpuUuid
from gputopo_kube.document import Document
from gputopo_kube.own_gpus import own_gpus
from gputopo_kube.pods import PodView
from gputopo_kube.tuned_node import allocatable, to_amounts

_LEAST_CHANGE: Final = 0.02
"""The agent publishes no change by a smaller part: short pods with few CPUs cause no writes."""

_MOST: Final = 2**53 - 1
_MOST_GPUS: Final = 64


def sized_capacity(node: Document, pods: Iterable[PodView], resource: str) -> SizedCapacity | None:
    """Return the allocatable CPUs, memory and GPUs minus those of pods that gputopo does not size.

    Args:
        node: the Node object; empty if the agent has not read it. The result is then None.
        pods: the pods of the node, with their runtime.
        resource: extended resource that counts the GPUs.
    """
    if not node:
        return None
    offered = allocatable(node)
    amounts, live = to_amounts(offered), [pod for pod in pods if pod.live]
    others = [pod for pod in live if not pod.runtime.sized]
    milli_cpu = amounts.milli_cpu - sum(pod.runtime.held.milli_cpu for pod in live)
    memory = amounts.memory - sum(pod.runtime.held.memory for pod in live)
    whole = sum(pod.most_gpus for pod in others if not pod.shares)
    gpus = offered[resource] // 1000 - whole - len(_shared_gpus(others))
    return SizedCapacity(
        milli_cpu=min(max(0, milli_cpu), _MOST),
        memory=min(max(0, memory), _MOST),
        gpus=min(max(0, gpus), _MOST_GPUS),
    )


def _shared_gpus(pods: Iterable[PodView]) -> set[GpuUuid]:
    """Return the GPUs of which pods have shares: several pods may have the same GPU."""
    found: set[GpuUuid] = set()
    for pod in pods:
        with suppress(AnnotationError):
            if pod.shares and (placed := own_gpus(pod)) is not None:
                found |= {
                    gpu_of(each) for devices in placed.containers.values() for each in devices
                }
    return found


class CapacityReport:
    """Decides which capacity for sized pods the agent publishes.

    Small changes and frequent changes are not published: on many nodes, pods without GPUs often
    start and end.
    """

    def __init__(
        self, interval_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Publish at most one change in ``interval_seconds``; ``clock`` returns seconds."""
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._known: SizedCapacity | None = None
        self._changed_at = float("-inf")

    def update(self, now: SizedCapacity | None) -> SizedCapacity | None:
        """Return the capacity to publish; ``now`` is the current capacity, None if unknown."""
        early = self._clock() - self._changed_at < self._interval_seconds
        if now is not None and not early and not _is_close(self._known, now):
            self._known, self._changed_at = now, self._clock()
        return self._known


def _is_close(before: SizedCapacity | None, now: SizedCapacity) -> bool:
    if before is None or before.gpus != now.gpus:
        return False
    pairs = (before.milli_cpu, now.milli_cpu), (before.memory, now.memory)
    return all(abs(new - old) <= _LEAST_CHANGE * max(old, new) for old, new in pairs)
