"""Keeps the state of this node's GPUs, which the agent reports to kubelet and the API server.

``gpus.watch`` writes their health. ``admit.offer`` writes which GPUs new containers may get.
"""

from collections.abc import Mapping

from gputopo.api.shares import share_id
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.changes import ChangeSignal
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.health import Health


class GpuState:
    """The GPUs with their health, and the GPUs that the agent offers to kubelet.

    Attributes:
        changes: signals each change of this state.
        hardware: None until the GPUs were read for the first time.
        unregistered_reason: why the agent must not register with kubelet; None if it may register.
        numa_nodes: the NUMA nodes that the agent reports to kubelet: of every GPU, or none at all.
            If kubelet takes GPUs by NUMA node, GPUs in use are left out.
        aligned: whether kubelet takes GPUs by these NUMA nodes.
        shares_per_gpu: how many shares of each GPU the agent offers.
        sharing_faults: why GPUs take no further sharing pods.
    """

    def __init__(self, shares_per_gpu: int = 0) -> None:
        """Offer this number of shares of each GPU; 0 offers none."""
        self.shares_per_gpu = shares_per_gpu
        self.sharing_faults: Mapping[GpuUuid, str] = {}
        self.changes = ChangeSignal()
        self.hardware: NodeHardware | None = None
        self.unregistered_reason: str | None = "the GPUs of this node were not read yet"
        self.numa_nodes: Mapping[GpuUuid, int] = {}
        self.aligned = False
        self._withheld_reason: str | None = None
        self._assigned: frozenset[GpuUuid] = frozenset()
        self._assigned_known = False

    @property
    def offered(self) -> Health:
        """The health of every GPU as the agent reports it to kubelet.

        If new containers must not get a GPU, the agent reports the GPU as unhealthy, because the
        device-plugin API has no other way. If a container has the GPU, the agent reports the true
        health: after a restart, kubelet rejects a running pod with an unhealthy device.
        """
        health = self.hardware.health if self.hardware else {}
        if self._withheld_reason is None:
            return health
        return {
            gpu: self._withheld_reason if fault is None and gpu not in self._assigned else fault
            for gpu, fault in health.items()
        }

    @property
    def offered_shares(self) -> Health:
        """The health of every share of a GPU as the agent reports it to kubelet.

        A share in use has the health of its GPU. Another share is unhealthy also if MPS does not
        serve the GPU. A share stays healthy while a container has the whole GPU, because the health
        would reach kube-scheduler late: the extender and Allocate prevent such a use.
        """
        health = self.hardware.health if self.hardware else {}
        return {
            share: fault or (None if share in self._assigned else self._free_share_fault(gpu))
            for gpu, fault in health.items()
            for share in (share_id(gpu, number) for number in range(self.shares_per_gpu))
        }

    @property
    def offered_devices(self) -> Health:
        """The health of every GPU and of every share."""
        return {**self.offered, **self.offered_shares}

    def _free_share_fault(self, gpu: GpuUuid) -> str | None:
        # Until kubelet has listed its pods, each share may have a container.
        fault = self.sharing_faults.get(gpu) if self._assigned_known else None
        return self._withheld_reason or fault

    def set_sharing_faults(self, faults: Mapping[GpuUuid, str]) -> None:
        """Replace the reasons why GPUs take no further sharing pods."""
        if faults != self.sharing_faults:
            self.sharing_faults = faults
            self.changes.notify()

    def set_hardware(self, hardware: NodeHardware) -> None:
        """Replace the stored GPUs and their health."""
        if hardware != self.hardware:
            self.hardware = hardware
            self.changes.notify()

    def report_numa(self, nodes: Mapping[GpuUuid, int], *, aligned: bool = False) -> None:
        """Report these NUMA nodes to kubelet.

        ``aligned`` is whether kubelet has a policy by which it takes GPUs by NUMA node.
        """
        self.aligned = aligned and bool(nodes)
        if nodes != self.numa_nodes:
            self.numa_nodes = nodes
            self.changes.notify()

    def withhold(
        self, reason: str | None, assigned: frozenset[GpuUuid], *, known: bool = True
    ) -> None:
        """Report the GPUs without a container to kubelet as unhealthy, because of ``reason``.

        If ``reason`` is None, report the true health. ``assigned`` are the GPUs and shares with a
        container; ``known`` is whether kubelet has listed its pods.
        """
        before = self._withheld_reason, self._assigned, self._assigned_known
        if (reason, assigned, known) != before:
            self._withheld_reason, self._assigned, self._assigned_known = reason, assigned, known
            self.changes.notify()
