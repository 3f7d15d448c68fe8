"""What the ends of the NVLinks show of the traffic of a GPU set."""

import pytest

from gputopo.counters.link_peers import LinkPeer, LinkPeers, OtherEnd, traffic_source
from gputopo.counters.model import TrafficSource
from gputopo.topology.model import GpuIndex
from support.counters import RATE, all_to, gpu_indices, mesh


def test_links_between_every_pair_show_pairs() -> None:
    assert traffic_source(mesh(4), gpu_indices(4)) is TrafficSource.NVLINK_PAIRS


@pytest.mark.parametrize("end", [OtherEnd.SWITCH, OtherEnd.UNKNOWN])
def test_links_to_a_switch_show_totals(end: OtherEnd) -> None:
    assert traffic_source(all_to(end, 4), gpu_indices(4)) is TrafficSource.NVLINK_TOTALS


@pytest.mark.parametrize(
    "peers",
    [LinkPeers({}), mesh(2), all_to(OtherEnd.HOST, 3)],
    ids=["no NVLink", "a GPU without NVLink", "links to processors"],
)
def test_pairs_without_nvlink_are_partial(peers: LinkPeers) -> None:
    assert traffic_source(peers, gpu_indices(3)) is TrafficSource.PARTIAL


def test_link_that_only_one_end_reports_is_partial() -> None:
    peers = LinkPeers({GpuIndex(0): {0: LinkPeer(GpuIndex(1), RATE)}})
    assert traffic_source(peers, gpu_indices(2)) is TrafficSource.PARTIAL


def test_links_keep_the_numbers_of_the_driver() -> None:
    peers = mesh(3, (0, 1), outside=1)
    assert peers.between(GpuIndex(0), GpuIndex(1)) == [0, 2]
    assert peers.ends(GpuIndex(0)) == {1, 2, 40}
    assert peers.links(GpuIndex(7)) == {}
