"""Whether the pods of a node together have more CPUs than the node. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from resizetest.soaking.model import Finding, PodSize

ABOVE = "sums above allocatable"

ALLOCATED = "allocated by kubelet, in its checkpoint"
REPORTED = "allocated, in the watch"
COUNTED = "counted by kube-scheduler"
IN_EFFECT = "in effect in the cgroups"

LIMITS: Mapping[str, float] = {ALLOCATED: 1.0, REPORTED: 5.0, COUNTED: 90.0, IN_EFFECT: 30.0}
"""For how many seconds a sum may be above what the node has.

- kubelet checks each allocation before it writes its checkpoint. A pod that has ended stays in the
  checkpoint for a moment after its CPUs are free.
- kubelet reports the pods of a node one after another, and the cut of a pod can arrive after the
  raise of another one.
- kubelet also changes the cgroups one after another. If it is killed between two of them, it
  changes the rest after its restart.
- The operator raises a pod in the API server before it cuts others, so that kube-scheduler gives
  the CPUs to no other pod. It withdraws a raise for which kubelet finds no CPUs within 60 s.
"""


@dataclass(slots=True)
class Sums:
    """Follows the sum of each source on each node.

    Attributes:
        longest: seconds of the longest time above allocatable, by source.
        highest: highest sum relative to allocatable, by source.
    """

    longest: dict[str, float] = field(default_factory=dict)
    highest: dict[str, float] = field(default_factory=dict)
    _above_since: dict[tuple[str, str], float] = field(default_factory=dict)
    _reported: set[tuple[str, str, float]] = field(default_factory=set)

    def see(
        self, at: float, source: str, node: str, total: int, allocatable: int, why: str = ""
    ) -> Iterable[Finding]:
        """Judge one sum of CPUs at a time in seconds; ``why`` explains a high sum."""
        self.highest[source] = max(self.highest.get(source, 0.0), total / allocatable)
        if total <= allocatable:
            self._above_since.pop((source, node), None)
            return
        since = self._above_since.setdefault((source, node), at)
        self.longest[source] = max(self.longest.get(source, 0.0), at - since)
        if at - since > LIMITS[source] and (source, node, since) not in self._reported:
            self._reported.add((source, node, since))
            text = f"{node}, {source}: {total}m of {allocatable}m for {at - since:.1f} s{why}"
            yield Finding(ABOVE, text)


def totals(pods: Iterable[PodSize], node: str) -> dict[str, int]:
    """Return the sums of a node that the API server shows, by source."""
    own = [pod for pod in pods if pod.node == node and pod.live]
    return {
        REPORTED: sum(pod.allocated for pod in own),
        COUNTED: sum(pod.counted for pod in own),
    }


def with_checkpoint(pods: Iterable[PodSize], node: str, recorded: Mapping[str, int]) -> int:
    """Return the sum that kubelet has allocated.

    Args:
        pods: all pods.
        node: the node.
        recorded: CPU requests in kubelet's checkpoint, by UID of the pod.
    """
    return sum(recorded.get(pod.uid, 0) for pod in pods if pod.node == node and pod.live)
