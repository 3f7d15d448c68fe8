"""The node's GPUs and their health, as the agent knows them at one time."""

from dataclasses import dataclass

from gputopo.topology.model import Gpu, GpuUuid, NodeTopology
from gputopo_deviceplugin.gpus.health import Health


@dataclass(frozen=True, slots=True)
class NodeHardware:
    """The node's GPUs and their health.

    Attributes:
        topology: None if no GPU was ever found on the node.
        fault: the reason why NVML is unavailable; None while NVML is available.
    """

    topology: NodeTopology | None
    health: Health
    fault: str | None

    @property
    def gpus(self) -> dict[GpuUuid, Gpu]:
        """The GPUs by UUID."""
        return {gpu.uuid: gpu for gpu in self.topology.gpus} if self.topology else {}
