"""Keeps the state of this node's GPUs, which the agent reports to kubelet and the API server.

``gpus.watch`` writes their health. ``admit.offer`` writes which GPUs new containers may get.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gputopo.api.shares import share_id
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.gpus.hardware import UNKNOWN, NodeHardware
from gputopo_deviceplugin.gpus.health import Health
from gputopo_kube.changes import ChangeSignal


@dataclass(frozen=True, slots=True)
class MpsFaults:
    """What MPS cannot do now.

    Attributes:
        sharing: why single GPUs take no further sharing pods.
        whole: why no pod can get single GPUs as a whole, although no pod may use them.
        outage: why the component for MPS does not respond; None if it does.
        surviving: GPUs whose daemon takes clients during the outage.
    """

    sharing: Mapping[GpuUuid, str] = field(default_factory=dict)
    whole: Mapping[GpuUuid, str] = field(default_factory=dict)
    outage: str | None = None
    surviving: frozenset[GpuUuid] = frozenset()

    def sharing_fault(self, gpu: GpuUuid) -> str | None:
        """Return why a GPU takes no further sharing pods; None if it takes some."""
        return self.sharing.get(gpu) or (None if gpu in self.surviving else self.outage)


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
        mps_faults: which GPUs MPS cannot serve, or cannot leave, and why.
    """

    def __init__(self, shares_per_gpu: int = 0) -> None:
        """Offer this number of shares of each GPU; 0 offers none."""
        self.shares_per_gpu = shares_per_gpu
        self.mps_faults = MpsFaults()
        self.changes = ChangeSignal()
        self.hardware: NodeHardware | None = None
        self.unregistered_reason: str | None = "the GPUs of this node were not read yet"
        self.numa_nodes: Mapping[GpuUuid, int] = {}
        self.aligned = False
        self._withheld_reason: str | None = None
        self._assigned: frozenset[GpuUuid] = frozenset()

    @property
    def known(self) -> NodeHardware:
        """The hardware; without GPUs until it was read for the first time."""
        return self.hardware or UNKNOWN

    @property
    def idle(self) -> bool:
        """Whether NVML was read, and neither it nor an earlier agent has found GPUs."""
        return self.hardware is not None and self.hardware.topology is None

    async def wait_idle(self, *, idle: bool) -> None:
        """Wait until the node has no GPUs, or until it has some."""
        while self.idle != idle:
            await self.changes.wait_after(self.changes.count)

    @property
    def offered(self) -> Health:
        """The health of every GPU as the agent reports it to kubelet.

        If new containers must not get a GPU, the agent reports the GPU as unhealthy, because the
        device-plugin API has no other way. If a container has the GPU, the agent reports the true
        health: after a restart, kubelet rejects a running pod with an unhealthy device.
        """
        health = self.known.health
        if self._withheld_reason is None:
            return health
        return {
            gpu: self._withheld_reason if fault is None and gpu not in self._assigned else fault
            for gpu, fault in health.items()
        }

    @property
    def offered_shares(self) -> Health:
        """The health of every share of a GPU as the agent reports it to kubelet.

        A share in use has the health of its GPU. A share stays healthy while a container has the
        whole GPU, and while MPS does not serve the GPU. kubelet would reject a pod that is bound
        already, and kube-scheduler would see the change late. So the extender chooses by the
        GPUTopology, and Allocate confirms the choice.
        """
        return {
            share: fault or (None if share in self._assigned else self._withheld_reason)
            for gpu, fault in self.known.health.items()
            for share in (share_id(gpu, number) for number in range(self.shares_per_gpu))
        }

    @property
    def offered_devices(self) -> Health:
        """The health of every GPU and of every share."""
        return {**self.offered, **self.offered_shares}

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

    def withhold(self, reason: str | None, assigned: frozenset[GpuUuid]) -> None:
        """Report the GPUs without a container to kubelet as unhealthy, because of ``reason``.

        If ``reason`` is None, report the true health. ``assigned`` are the GPUs and shares with a
        container.
        """
        if (reason, assigned) != (self._withheld_reason, self._assigned):
            self._withheld_reason, self._assigned = reason, assigned
            self.changes.notify()
