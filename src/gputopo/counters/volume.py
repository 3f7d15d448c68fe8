"""The bytes that the GPUs of a container have sent in one window."""

from collections.abc import Collection, Iterable

from gputopo.counters.link_peers import LinkPeers, OtherEnd
from gputopo.counters.model import TrafficSource
from gputopo.counters.window import NVLINK_SUM, PCIE, CounterKey, TrafficWindow
from gputopo.topology.model import GpuIndex


def bytes_sent(
    window: TrafficWindow,
    gpus: Collection[GpuIndex],
    peers: LinkPeers,
    source: TrafficSource,
) -> float | None:
    """Return the bytes that one GPU has sent to the others, mean over the GPUs.

    With ``PARTIAL`` it is an upper bound: bytes to the host count, because they may be for another
    GPU. Without the counters of PCIe it would be no bound, so it is unknown.

    Returns:
        None if a counter is unknown in this window.
    """
    total = 0.0
    for gpu in gpus:
        sent = _sum(window, _counters(gpu, gpus, peers, source))
        if sent is None and source is TrafficSource.NVLINK_TOTALS:
            sent = _sum(window, [CounterKey(gpu, NVLINK_SUM)])
        if sent is None:
            return None
        total += sent
    return total / len(gpus)


def _counters(
    gpu: GpuIndex, gpus: Collection[GpuIndex], peers: LinkPeers, source: TrafficSource
) -> list[CounterKey]:
    """Return the counters whose sum is the traffic of ``gpu``."""
    counted: dict[TrafficSource, set[GpuIndex | OtherEnd]] = {
        TrafficSource.NVLINK_PAIRS: {*gpus},
        TrafficSource.NVLINK_TOTALS: peers.ends(gpu),
        TrafficSource.PARTIAL: {*gpus, OtherEnd.HOST},
    }
    ends = counted[source]
    numbers = [number for number, link in peers.links(gpu).items() if link.peer in ends]
    found = [CounterKey(gpu, number) for number in numbers]
    return [*found, CounterKey(gpu, PCIE)] if source is TrafficSource.PARTIAL else found


def _sum(window: TrafficWindow, counters: Iterable[CounterKey]) -> float | None:
    """Return the bytes that these counters show for the length of the window."""
    total = 0.0
    for counter in counters:
        flow = window.flow(counter)
        if flow is None:
            return None
        total += flow.sent / flow.seconds * window.seconds
    return total
