"""Reports to the extender how kubelet takes NUMA nodes, and hides those of GPUs in use from it."""

from gputopo.api.alignment import KubeletAlignment
from gputopo.api.shares import gpu_of
from gputopo_deviceplugin.admit.numa_report import NumaReporter
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.clock import loop_time
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.report.alignment import alignment_report, bound_pods, kubelet_alignment
from gputopo_deviceplugin.report.released import ReleasedGpus


class NumaAlignment:
    """The NUMA nodes of GPUs in use, which kubelet must not count.

    Attributes:
        stable: whether kubelet has admitted all bound pods and released all others.
    """

    def __init__(self, numa: NumaReporter, tracker: UsageTracker, node: str) -> None:
        self._numa = numa
        self._tracker = tracker
        self._pods = tracker.pods
        self._node = node
        self._released = ReleasedGpus()
        self.stable = True

    def update(self, hardware: NodeHardware) -> KubeletAlignment | None:
        """Return how kubelet takes NUMA nodes, and hide the NUMA nodes of GPUs in use from kubelet.

        This must happen before the status is published, so that kubelet counts what the extender
        then knows.
        """
        policy, tracker = self._numa.aligned_by, self._tracker
        if policy is None or hardware.topology is None:
            self.stable = True
            return None
        unhealthy = {gpu for gpu, fault in hardware.health.items() if fault is not None}
        report = alignment_report(
            kubelet_alignment(policy, tracker.listed or (), self._pods, cpus=self._numa.cpus),
            self._released,
            bound=bound_pods(self._pods.values(), self._node),
            used=frozenset(map(gpu_of, tracker.assigned_gpus())) | unhealthy,
            now=loop_time(),
        )
        self._numa.hide(report.hidden)
        self.stable = report.stable
        return report.alignment

    def confirm(self) -> None:
        """Record that the GPUTopology has the last result of ``update``."""
        self._numa.confirm(stable=self.stable)
