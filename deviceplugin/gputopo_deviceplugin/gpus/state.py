"""Keeps the state of this node's GPUs, which the agent reports to kubelet and the API server.

The folder ``gpus`` writes the hardware. ``admit.offer`` writes which GPUs kubelet may use.
"""

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.changes import ChangeSignal
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.health import Health


class GpuState:
    """The hardware, and the GPUs that are offered to kubelet.

    Attributes:
        changes: signals each change.
        hardware: None until the GPUs were read for the first time.
        unregistered_reason: why the agent must not register with kubelet, None if it may.
    """

    def __init__(self) -> None:
        self.changes = ChangeSignal()
        self.hardware: NodeHardware | None = None
        self.unregistered_reason: str | None = "the GPUs of this node were not read yet"
        self._withheld_reason: str | None = None
        self._assigned: frozenset[GpuUuid] = frozenset()

    @property
    def offered(self) -> Health:
        """The health of every GPU as reported to kubelet.

        Withheld GPUs are reported as unhealthy, because kubelet has no other way to keep new pods
        out. GPUs of containers keep the health of their hardware: after a restart, kubelet rejects
        a running pod if one of the pod's devices is unhealthy.
        """
        health = self.hardware.health if self.hardware else {}
        if self._withheld_reason is None:
            return health
        return {
            gpu: self._withheld_reason if fault is None and gpu not in self._assigned else fault
            for gpu, fault in health.items()
        }

    def set_hardware(self, hardware: NodeHardware) -> None:
        """Replace the hardware."""
        if hardware != self.hardware:
            self.hardware = hardware
            self.changes.notify()

    def withhold(self, reason: str | None, assigned: frozenset[GpuUuid]) -> None:
        """Offer only the ``assigned`` GPUs, for this reason. Without a reason, offer all GPUs."""
        if (reason, assigned) != (self._withheld_reason, self._assigned):
            self._withheld_reason, self._assigned = reason, assigned
            self.changes.notify()
