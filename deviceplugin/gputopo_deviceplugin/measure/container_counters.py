"""Passes the readings of one container's GPUs to its ``TrafficMeter``."""

from collections.abc import Collection, Mapping

from gputopo.counters.link_peers import LinkPeers
from gputopo.counters.meter import TrafficMeter
from gputopo.counters.model import Load, Traffic
from gputopo.topology.model import GpuIndex, GpuUuid
from gputopo_deviceplugin.counters.gpu_reader import GpuReading
from gputopo_deviceplugin.gpus.hardware import NodeHardware


class ContainerCounters:
    """Measures traffic and load of one container between two samples of its speed."""

    def __init__(self) -> None:
        self._meter: TrafficMeter | None = None
        self._peers: LinkPeers | None = None
        self._epochs: Mapping[GpuUuid, tuple[int, int]] = {}

    def add(
        self,
        readings: Mapping[GpuUuid, GpuReading],
        gpus: Collection[GpuUuid],
        hardware: NodeHardware,
        steps: float | None,
    ) -> None:
        """Add what was read at one time, while no other container used the GPUs.

        Args:
            readings: the readings of all GPUs of the node.
            gpus: the GPUs of the container, which do not change.
            hardware: the GPUs of the node and their NVLinks.
            steps: number of steps of the container until now; None if it is unknown.
        """
        known = hardware.gpus
        own = {uuid: readings[uuid] for uuid in gpus if uuid in readings and uuid in known}
        if len(own) < len(gpus):
            return
        peers = _peers_of([known[uuid].index for uuid in own], hardware.peers)
        epochs = {uuid: each.epoch for uuid, each in own.items()}
        if self._meter is None or peers != self._peers:
            self._meter = TrafficMeter(peers.of, peers)
        elif epochs != self._epochs:
            self._meter.reset()
        self._peers, self._epochs = peers, epochs
        self._meter.add({known[uuid].index: each.counters for uuid, each in own.items()}, steps)

    def reset(self) -> None:
        """Forget everything, because the environment of the container has changed."""
        if self._meter is not None:
            self._meter.reset()

    def take(self) -> tuple[Traffic | None, Load | None]:
        """Return traffic and load since the last call; None if they are unknown."""
        return self._meter.take() if self._meter is not None else (None, None)


def _peers_of(gpus: Collection[GpuIndex], peers: LinkPeers) -> LinkPeers:
    """Return the links of ``gpus``: changes of other links do not concern the container."""
    pcie = {gpu: peers.pcie_mb_per_s[gpu] for gpu in gpus if gpu in peers.pcie_mb_per_s}
    return LinkPeers({gpu: peers.links(gpu) for gpu in gpus}, pcie)
