"""What the agent knows of its node's GPUs, and who wants to be told of changes."""

import asyncio
from dataclasses import dataclass

from gputopo.topology.model import Gpu, GpuUuid, NodeTopology
from gputopo_deviceplugin.admit.offer import Withheld, offered
from gputopo_deviceplugin.gpus.health import Health


@dataclass(frozen=True, slots=True)
class NodeHardware:
    """The node's GPUs and their health.

    Attributes:
        topology: None where the node never had GPUs that the agent knows of.
        fault: why NVML as a whole does not answer, None where it does.
    """

    topology: NodeTopology | None
    health: Health
    fault: str | None

    @property
    def gpus(self) -> dict[GpuUuid, Gpu]:
        """The GPUs by UUID."""
        return {gpu.uuid: gpu for gpu in self.topology.gpus} if self.topology else {}


class GpuState:
    """The hardware as it is now; waiters wake at every change."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.hardware: NodeHardware | None = None
        self._withheld: Withheld | None = None
        self._assigned: frozenset[GpuUuid] = frozenset()
        self._changed = asyncio.Event()

    @property
    def offered(self) -> Health:
        """The health of every GPU as reported to kubelet."""
        health = self.hardware.health if self.hardware else {}
        return offered(health, self._withheld, self._assigned)

    def set(self, hardware: NodeHardware) -> None:
        """Replace what is known; waiters wake if it differs."""
        if hardware != self.hardware:
            self.hardware = hardware
            self._wake()

    def withhold(self, withheld: Withheld | None, assigned: frozenset[GpuUuid]) -> None:
        """Offer no GPU but those ``assigned`` to a container; all of them where None."""
        if (withheld, assigned) != (self._withheld, self._assigned):
            self._withheld, self._assigned = withheld, assigned
            self._wake()

    async def change(self) -> None:
        """Return at the next change."""
        await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
