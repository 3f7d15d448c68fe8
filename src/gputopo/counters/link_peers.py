"""Where the NVLinks of a node end, and what the counters of a GPU set can therefore show."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from typing import Final, NamedTuple

from gputopo.counters.model import TrafficSource
from gputopo.topology.model import GpuIndex

MAX_PCIE_MB_PER_S: Final = 128_000
"""Limit for the PCIe link of a GPU whose speed is unknown: 16 lanes of generation 6."""


class OtherEnd(StrEnum):
    """The end of an NVLink that does not end at a GPU of the node.

    ``HOST`` is a processor (IBM Power). ``UNKNOWN`` is an end that the driver does not report, as
    in some virtual machines; NCCL assumes a switch there.
    """

    SWITCH = "NVSwitch"
    HOST = "Host"
    UNKNOWN = "Unknown"


class LinkPeer(NamedTuple):
    """One active NVLink of a GPU.

    Attributes:
        peer: the GPU at the other end, in the container or not; otherwise what is there.
        mb_per_s: peak bandwidth in one direction, as in :mod:`gputopo.topology.rates`.
    """

    peer: GpuIndex | OtherEnd
    mb_per_s: int


@dataclass(frozen=True, slots=True)
class LinkPeers:
    """The NVLinks of the GPUs of a node, by the driver's link numbers.

    The link number is the ``link`` argument of ``nvmlDeviceGetNvLinkState`` and the scope of the
    field values of :class:`gputopo.counters.model.ByteCount`. Inactive links leave gaps, so it is
    not the position of the link in the list of active links.

    Attributes:
        of: maps each GPU to its active links. A GPU without an entry has no NVLink.
        pcie_mb_per_s: peak bandwidth of each GPU's PCIe link in one direction; a GPU without an
            entry has an unknown PCIe link.
    """

    of: Mapping[GpuIndex, Mapping[int, LinkPeer]]
    pcie_mb_per_s: Mapping[GpuIndex, int] = field(default_factory=dict)

    def links(self, gpu: GpuIndex) -> Mapping[int, LinkPeer]:
        """Return the active NVLinks of a GPU."""
        return self.of.get(gpu, {})

    def between(self, gpu: GpuIndex, peer: GpuIndex) -> list[int]:
        """Return the numbers of the links of ``gpu`` that end at ``peer``."""
        return [number for number, link in self.links(gpu).items() if link.peer == peer]

    def ends(self, gpu: GpuIndex) -> set[GpuIndex | OtherEnd]:
        """Return what is at the other ends of the links of a GPU."""
        return {link.peer for link in self.links(gpu).values()}


def traffic_source(peers: LinkPeers, gpus: Iterable[GpuIndex]) -> TrafficSource:
    """Return what the NVLinks of these GPUs can show of the traffic between them."""
    members = tuple(gpus)
    pairs = combinations(members, 2)
    if all(peers.between(a, b) and peers.between(b, a) for a, b in pairs):
        return TrafficSource.NVLINK_PAIRS
    if all({OtherEnd.SWITCH, OtherEnd.UNKNOWN} & peers.ends(gpu) for gpu in members):
        return TrafficSource.NVLINK_TOTALS
    return TrafficSource.PARTIAL
