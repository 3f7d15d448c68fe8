"""The node's GPUs and their health, as the agent knows them at one time."""

from dataclasses import dataclass
from typing import Final

from gputopo.counters.link_peers import LinkPeers
from gputopo.topology.model import Gpu, GpuUuid, NodeTopology
from gputopo_deviceplugin.gpus.health import Health

NO_LINKS: Final = LinkPeers({})


@dataclass(frozen=True, slots=True)
class NodeHardware:
    """The node's GPUs and their health.

    Attributes:
        topology: None if no GPU was ever found on the node.
        fault: the reason why NVML is unavailable; None while NVML is available.
        peers: where the NVLinks end. Without the links of GPUs that NVML cannot read now.
    """

    topology: NodeTopology | None
    health: Health
    fault: str | None
    peers: LinkPeers = NO_LINKS

    @property
    def gpus(self) -> dict[GpuUuid, Gpu]:
        """The GPUs by UUID."""
        return {gpu.uuid: gpu for gpu in self.topology.gpus} if self.topology else {}


UNKNOWN: Final = NodeHardware(None, {}, None)
"""Before the GPUs were read for the first time."""
