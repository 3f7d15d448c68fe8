"""Bytes that a GPU has sent, by what the counters show of its traffic."""

import pytest

from gputopo.counters.difference import Flow
from gputopo.counters.link_peers import LinkPeer, LinkPeers, OtherEnd
from gputopo.counters.model import TrafficSource
from gputopo.counters.volume import bytes_sent
from gputopo.counters.window import NVLINK_SUM, PCIE, CounterKey, TrafficWindow
from gputopo.topology.model import GpuIndex
from support.counters import RATE, all_to, gpu_indices, mesh, window

GPUS = gpu_indices(2)
GB = 10**9


def totals(*flows: tuple[int, int | str, int]) -> TrafficWindow:
    """Return a window of 6 s; each flow has a GPU, a counter and the bytes sent."""
    return TrafficWindow(
        6, None, {CounterKey(GpuIndex(gpu), name): Flow(sent, 0, 6) for gpu, name, sent in flows}
    )


def test_pairs_count_only_links_of_the_container() -> None:
    peers = mesh(2, (0, 1), outside=1)
    found = window(peers, {(0, 1): 1000, (1, 0): 500, (0, 40): 9000})
    assert bytes_sent(found, GPUS, peers, TrafficSource.NVLINK_PAIRS) == 4.5 * GB


def test_bytes_are_those_of_the_whole_window() -> None:
    found = TrafficWindow(6, None, {CounterKey(gpu, 0): Flow(5 * GB, 0, 5) for gpu in GPUS})
    assert bytes_sent(found, GPUS, mesh(2), TrafficSource.NVLINK_PAIRS) == 6 * GB


def test_totals_count_all_links() -> None:
    peers = all_to(OtherEnd.SWITCH, 2)
    found = totals((0, 0, GB), (0, 1, GB), (1, 0, 2 * GB), (1, 1, 0))
    assert bytes_sent(found, GPUS, peers, TrafficSource.NVLINK_TOTALS) == 2 * GB


def test_sum_of_the_links_replaces_missing_links() -> None:
    peers = all_to(OtherEnd.SWITCH, 2)
    found = totals((0, 0, GB), (0, NVLINK_SUM, 3 * GB), (1, 0, GB), (1, 1, GB))
    assert bytes_sent(found, GPUS, peers, TrafficSource.NVLINK_TOTALS) == 2.5 * GB


def test_partial_counts_pcie_and_links_to_processors() -> None:
    of = {
        GpuIndex(0): {
            0: LinkPeer(OtherEnd.HOST, RATE),
            1: LinkPeer(GpuIndex(40), RATE),
            2: LinkPeer(GpuIndex(1), RATE),
        },
        GpuIndex(1): {0: LinkPeer(GpuIndex(0), RATE)},
    }
    found = totals((0, 0, GB), (0, 1, 50 * GB), (0, 2, GB), (0, PCIE, GB), (1, 0, GB), (1, PCIE, 0))
    assert bytes_sent(found, GPUS, LinkPeers(of), TrafficSource.PARTIAL) == 2 * GB


@pytest.mark.parametrize(
    ("peers", "source"),
    [
        (mesh(2), TrafficSource.NVLINK_PAIRS),
        (all_to(OtherEnd.SWITCH, 2), TrafficSource.NVLINK_TOTALS),
        (LinkPeers({}), TrafficSource.PARTIAL),
    ],
)
def test_bytes_are_unknown_if_a_counter_is(peers: LinkPeers, source: TrafficSource) -> None:
    found = totals((0, 0, GB), (0, 1, GB), (0, PCIE, GB))
    assert bytes_sent(found, GPUS, peers, source) is None
