"""Decides when kubelet and the scheduler may count GPUs of ended pods as free. No I/O.

kubelet takes the lowest NUMA node that fits. If a pod ended after the extender has chosen GPUs for
another pod, and before kubelet admits it, kubelet could take a lower NUMA node than predicted. So
kubelet gets no NUMA node of a GPU in use, and counts such a GPU on no NUMA node. When a pod ends,
its GPUs get their NUMA nodes back as soon as no pod waits for its admission. The extender places no
pod on the node until then.
"""

from typing import Final

from gputopo.topology.model import GpuUuid

QUIET_SECONDS: Final = 1.0
"""Time without a waiting pod, after which each Binding of the node would be known.

The extender compares its decision with the node once more before it sends a Binding. So a Binding
that did not consider the end of a pod was sent at most a moment after this end.
"""

_LONGEST_STEP_SECONDS: Final = 0.25
"""Most that one update counts as quiet. If the agent stood still for seconds, the watch of pods may
have changes that are not processed yet. So the quiet time has at least four updates."""


class ReleasedGpus:
    """The GPUs of which kubelet gets no NUMA node, and the pods that the scheduler must wait for.

    Attributes:
        hidden: GPUs that are in use, or were until a moment ago.
    """

    def __init__(self) -> None:
        self.hidden: frozenset[GpuUuid] = frozenset()
        self._shown: frozenset[str] = frozenset()
        self._quiet_seconds = 0.0
        self._updated_at: float | None = None

    def update(
        self,
        admitted: frozenset[str],
        bound: frozenset[str],
        used: frozenset[GpuUuid],
        now: float,
    ) -> frozenset[str]:
        """Return the UIDs of the pods that must count as admitted.

        Args:
            admitted: UIDs of the pods that have GPUs in kubelet's list.
            bound: UIDs of the live pods with GPUs that are bound to the node.
            used: GPUs in use, and GPUs that no pod may get.
            now: a monotonic time in seconds.
        """
        waiting, gone = bound - admitted, self._shown - admitted
        if waiting or not gone:
            self._quiet_seconds, self._updated_at = 0.0, None
        else:
            before = now if self._updated_at is None else self._updated_at
            self._quiet_seconds += min(now - before, _LONGEST_STEP_SECONDS)
            self._updated_at = now
        quiet = self._quiet_seconds >= QUIET_SECONDS
        self._shown = admitted if quiet else self._shown | admitted
        self.hidden = used if quiet or (not gone and not waiting) else self.hidden | used
        return self._shown
