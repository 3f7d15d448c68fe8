"""The traffic of each pair of GPUs in one window, checked at both ends of the links."""

from collections.abc import Iterable
from itertools import combinations
from typing import Final, NamedTuple

from gputopo.counters.link_peers import LinkPeers
from gputopo.counters.window import CounterKey, TrafficWindow
from gputopo.topology.model import GpuIndex

END_TOLERANCE: Final = 0.25
"""Largest relative difference of the bytes that one end has sent and the other has received.

The two ends are read at different times, so a burst of traffic can be between the two reads."""

_NEGLIGIBLE: Final = 0.005
"""A difference of less than this share of the capacity of the pair does not matter."""


class PairTraffic(NamedTuple):
    """Traffic between two GPUs.

    Attributes:
        mb_per_s: sum of both directions.
        utilisation: share of the capacity of the pair, of the direction with more traffic.
    """

    mb_per_s: float
    utilisation: float


def pair_traffic(
    window: TrafficWindow, gpus: Iterable[GpuIndex], peers: LinkPeers
) -> dict[tuple[GpuIndex, GpuIndex], PairTraffic] | None:
    """Return the traffic of each pair of GPUs that are all connected by NVLinks.

    Links to other GPUs do not count: they carry traffic of other containers.

    Returns:
        The pairs ``(a, b)`` with a < b; None if a counter is unknown in this window, or if the two
        ends of a pair differ.
    """
    found = {}
    for a, b in combinations(sorted(gpus), 2):
        forward, backward = _direction(window, a, b, peers), _direction(window, b, a, peers)
        if forward is None or backward is None:
            return None
        most = max(forward, backward) / _capacity(a, b, peers)
        found[a, b] = PairTraffic(forward + backward, most)
    return found


def _capacity(a: GpuIndex, b: GpuIndex, peers: LinkPeers) -> int:
    return sum(peers.links(a)[number].mb_per_s for number in peers.between(a, b))


def _direction(
    window: TrafficWindow, sender: GpuIndex, receiver: GpuIndex, peers: LinkPeers
) -> float | None:
    """Return the traffic in one direction, in MB/s: the mean of what both ends show."""
    sent = received = 0.0
    for number in peers.between(sender, receiver):
        flow = window.flow(CounterKey(sender, number))
        if flow is None:
            return None
        sent += flow.sent / flow.seconds / 1e6
    for number in peers.between(receiver, sender):
        flow = window.flow(CounterKey(receiver, number))
        if flow is None:
            return None
        received += flow.received / flow.seconds / 1e6
    limit = END_TOLERANCE * max(sent, received) + _NEGLIGIBLE * _capacity(sender, receiver, peers)
    return (sent + received) / 2 if abs(sent - received) <= limit else None
