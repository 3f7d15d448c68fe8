"""Whether each pod has what gputopo guarantees: its share of the node, or equal speed. Pure.

This computes the shares from docs/use/live-sizing.md, and not as ``gputopo.tuning`` does.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from resizetest.soaking.model import Expected, Finding, PodSize

SHARE = "pods below their guaranteed share"

LACK = 0.06
"""A lack below 5 % may wait for a minute, and amounts are whole thousandths of a CPU."""

SECONDS = 150.0
"""For so long a pod may lack its share: the next resize waits 60 s after the former one, and
kubelet may defer a raise for 60 s."""

_PASSES = 60


class _Guarantee(NamedTuple):
    pod: PodSize
    expected: Expected

    def share(self, per_gpu: float) -> float:
        """Return the share within the bounds of the pod."""
        most = self.expected.most
        share = self.pod.gpus * per_gpu
        return max(self.expected.floor, share if most is None else min(share, most))


def guaranteed(
    allocatable: int, gpus: int, pods: Iterable[PodSize], expected: Mapping[str, Expected]
) -> dict[str, float]:
    """Return the CPUs that each tuned pod of a node is guaranteed, by UID.

    Args:
        allocatable: CPUs of the node.
        gpus: GPUs of the node.
        pods: all pods of the node that have not ended.
        expected: what the soak has created, by its name.
    """
    live = [pod for pod in pods if pod.live]
    tuned = [
        _Guarantee(pod, expected[pod.owner])
        for pod in live
        if pod.owner in expected and _is_tuned(pod, expected[pod.owner])
    ]
    uids = {each.pod.uid for each in tuned}
    others = [pod for pod in live if pod.uid not in uids]
    capacity = allocatable - sum(pod.counted for pod in others)
    free = gpus - sum(pod.gpus for pod in others)
    per_gpu = _per_gpu(capacity, free, tuned)
    return {each.pod.uid: _enough(each, each.share(per_gpu)) for each in tuned}


def _is_tuned(pod: PodSize, expected: Expected) -> bool:
    pinned = pod.record.get("pinned", False)
    return expected.is_tuned and pod.phase == "Running" and not pod.deleting and not pinned


def _per_gpu(capacity: float, gpus: int, pods: Sequence[_Guarantee]) -> float:
    """Return the share of one GPU: high floors of some pods leave less for the others."""
    low, high = 0.0, max(0.0, capacity / max(gpus, 1))
    for _ in range(_PASSES):
        middle = (low + high) / 2
        fits = sum(each.share(middle) for each in pods) <= capacity
        low, high = (middle, high) if fits else (low, middle)
    return low


def _enough(each: _Guarantee, share: float) -> float:
    """Return the fewest CPUs with which the pod is as fast as with its share."""
    expected = each.expected
    if expected.learns:
        return expected.floor
    if expected.mode != "Auto" or expected.enough is None:
        return share
    return max(expected.floor, min(share, expected.enough))


@dataclass(slots=True)
class Shortages:
    """Follows for how long each pod lacks its guaranteed CPUs.

    Attributes:
        longest: seconds of the longest lack.
        excused: UIDs of pods that lack CPUs after a raise that was deferred or not possible.
    """

    longest: float = 0.0
    excused: set[str] = field(default_factory=set)
    _since: dict[str, float] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)

    def see(
        self, at: float, pods: Iterable[PodSize], least: Mapping[str, float]
    ) -> Iterable[Finding]:
        """Judge the pods of a node at a time in seconds."""
        for pod in pods:
            wanted = least.get(pod.uid)
            has = pod.size.limit if pod.applied is None else min(pod.size.limit, pod.applied)
            if wanted is None or has >= wanted * (1 - LACK):
                self._since.pop(pod.uid, None)
            elif pod.record.get("deferrals") or "mostMilliCPU" in pod.record:
                self.excused.add(pod.uid)
            else:
                yield from self._lacks(at, pod, has, wanted)

    def _lacks(self, at: float, pod: PodSize, has: int, wanted: float) -> Iterable[Finding]:
        seconds = at - self._since.setdefault(pod.uid, at)
        self.longest = max(self.longest, seconds)
        if seconds > SECONDS and pod.uid not in self._reported:
            self._reported.add(pod.uid)
            text = f"{pod.name}: has {has}m, guaranteed {wanted:.0f}m, for {seconds:.0f} s"
            yield Finding(SHARE, text)
