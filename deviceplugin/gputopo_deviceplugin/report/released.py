"""Decides when kubelet and the scheduler may count GPUs of ended pods as free. No I/O.

kubelet takes the lowest NUMA node that fits. If a pod ended after the extender has chosen GPUs for
another pod, and before kubelet admits it, kubelet could take a lower NUMA node than predicted. So
kubelet gets no NUMA node of a GPU in use, and counts such a GPU on no NUMA node. When a pod ends,
its GPUs get their NUMA nodes back as soon as no pod waits for its admission. The extender places no
pod on the node until then.
"""

from typing import Final

from gputopo.topology.model import GpuUuid

QUIET_SECONDS: Final = 0.3
"""Time without a waiting pod, after which each Binding of the node would be known."""


class ReleasedGpus:
    """The GPUs of which kubelet gets no NUMA node, and the pods that the scheduler must wait for.

    Attributes:
        hidden: GPUs that are in use, or were until a moment ago.
    """

    def __init__(self) -> None:
        self.hidden: frozenset[GpuUuid] = frozenset()
        self._shown: frozenset[str] = frozenset()
        self._quiet_since: float | None = None

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
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = now
        quiet = self._quiet_since is not None and now - self._quiet_since >= QUIET_SECONDS
        self._shown = admitted if quiet else self._shown | admitted
        self.hidden = used if quiet or (not gone and not waiting) else self.hidden | used
        return self._shown
