"""Counters of containers with constant rates, for tests."""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Final

from gputopo.counters.difference import Flow
from gputopo.counters.link_peers import LinkPeer, LinkPeers, OtherEnd
from gputopo.counters.meter import TrafficMeter
from gputopo.counters.model import ByteCount, GpuCounters, LoadReading
from gputopo.counters.window import CounterKey, TrafficWindow
from gputopo.topology.model import GpuIndex

RATE: Final = 25_000
"""MB/s of one NVLink."""

MB: Final = 10**6
BEGIN_US: Final = 10**15


def gpu_indices(count: int) -> tuple[GpuIndex, ...]:
    return tuple(map(GpuIndex, range(count)))


def mesh(count: int, *more: tuple[int, int], outside: int = 0) -> LinkPeers:
    """One NVLink for each pair of GPUs, one more for each of ``more``, some to another GPU 40."""
    ends: dict[GpuIndex, dict[int, LinkPeer]] = {gpu: {} for gpu in gpu_indices(count)}
    for a, b in (*combinations(range(count), 2), *more):
        for gpu, peer in ((GpuIndex(a), GpuIndex(b)), (GpuIndex(b), GpuIndex(a))):
            ends[gpu][len(ends[gpu])] = LinkPeer(peer, RATE)
    for links in ends.values():
        links.update({10 + n: LinkPeer(GpuIndex(40), RATE) for n in range(outside)})
    return LinkPeers(ends)


def all_to(end: OtherEnd, count: int, links: int = 2) -> LinkPeers:
    """Links that all end at a switch, the host, or an unknown end."""
    return LinkPeers(
        {gpu: dict.fromkeys(range(links), LinkPeer(end, RATE)) for gpu in gpu_indices(count)}
    )


def window(
    peers: LinkPeers,
    mb_per_s: Mapping[tuple[int, int], float],
    *,
    seconds: float = 6.0,
    steps: float | None = 12.0,
) -> TrafficWindow:
    """A window of the links between GPUs, from the rates by sender and receiver."""
    flows = {}
    for gpu, links in peers.of.items():
        for number, link in links.items():
            if not isinstance(link.peer, OtherEnd):
                share = MB * seconds / max(1, len(peers.between(gpu, link.peer)))
                sent = mb_per_s.get((gpu, link.peer), 0) * share
                received = mb_per_s.get((link.peer, gpu), 0) * share
                flows[CounterKey(gpu, number)] = Flow(int(sent), int(received), seconds)
    return TrafficWindow(seconds, steps, flows)


def counters_at(
    second: float,
    peers: LinkPeers,
    mb_per_s: Mapping[tuple[int, int], float],
    *,
    other_mb_per_s: float = 0.0,
    pcie_mb_per_s: float | None = None,
    loads: Mapping[int, LoadReading] | None = None,
) -> dict[GpuIndex, GpuCounters]:
    """The counters after ``second`` seconds at constant rates.

    ``other_mb_per_s`` is the traffic of each link that does not end at one of the GPUs.
    """

    def count(sent: float, received: float) -> ByteCount:
        return ByteCount(
            int(sent * MB * second), int(received * MB * second), BEGIN_US + int(second * MB)
        )

    found = {}
    for gpu, links in peers.of.items():
        counts = {}
        for number, link in links.items():
            if link.peer in peers.of and not isinstance(link.peer, OtherEnd):
                parts = len(peers.between(gpu, link.peer))
                sent = mb_per_s.get((gpu, link.peer), 0.0) / parts
                received = mb_per_s.get((link.peer, gpu), 0.0) / parts
                counts[number] = count(sent, received)
            else:
                counts[number] = count(other_mb_per_s, other_mb_per_s)
        pcie = None if pcie_mb_per_s is None else count(pcie_mb_per_s, pcie_mb_per_s)
        found[gpu] = GpuCounters(links=counts, pcie=pcie, load=(loads or {}).get(gpu))
    return found


def both_ways(pairs: Iterable[tuple[int, int]], mb_per_s: float) -> dict[tuple[int, int], float]:
    return {way: mb_per_s for a, b in pairs for way in ((a, b), (b, a))}


def fed(
    meter: TrafficMeter,
    readings: Iterable[Mapping[GpuIndex, GpuCounters]],
    *,
    steps_per_read: float | None = 2.0,
    alone: bool = True,
) -> TrafficMeter:
    """Add readings, with a count of steps that increases by ``steps_per_read``."""
    for number, each in enumerate(readings):
        meter.add(each, None if steps_per_read is None else number * steps_per_read, alone=alone)
    return meter
