"""The node topology rejects inconsistent values."""

from dataclasses import replace

import pytest

from gputopo.topology.model import (
    GpuIndex,
    GpuMask,
    GpuUuid,
    NodeTopology,
    TopologyError,
    indices_of,
)
from support.builders.topologies import gpu, gpus, link, node


def test_a_node_of_no_gpus_is_a_topology() -> None:
    assert NodeTopology((), ()).mask == 0


def test_indices_may_have_gaps() -> None:
    assert indices_of(node(5, 0, 2).mask) == (0, 2, 5)


def test_a_link_is_found_by_both_orders_of_its_pair() -> None:
    topology = node(0, 1)
    assert topology.link_of[GpuIndex(1), GpuIndex(0)] is topology.link_of[GpuIndex(0), GpuIndex(1)]


def test_index_and_uuid_map_to_each_other() -> None:
    topology = node(0, 3)
    assert topology.index_of[GpuUuid("GPU-n-3")] == 3
    assert topology.uuid_of[GpuIndex(3)] == "GPU-n-3"


def test_indices_of_a_mask_ascend() -> None:
    assert indices_of(GpuMask(0b101001)) == (0, 3, 5)
    assert gpus(5, 0, 3) == 0b101001


def test_a_repeated_index_is_rejected() -> None:
    with pytest.raises(TopologyError, match=r"gpus\[\]\.index: 0 occurs more than once"):
        NodeTopology((gpu(0), gpu(0, node="other")), ())


def test_a_repeated_uuid_is_rejected() -> None:
    with pytest.raises(TopologyError, match=r"gpus\[\]\.uuid: GPU-n-0 occurs more than once"):
        NodeTopology((gpu(0), replace(gpu(1), uuid=GpuUuid("GPU-n-0"))), (link(0, 1),))


@pytest.mark.parametrize("index", [-1, 64])
def test_an_index_out_of_range_is_rejected(index: int) -> None:
    with pytest.raises(TopologyError, match=rf"gpus\[\]\.index: {index} is not in 0\.\.63"):
        NodeTopology((gpu(index),), ())


def test_a_missing_link_is_rejected() -> None:
    with pytest.raises(TopologyError, match=r"links\[\]: \(0, 2\) is missing"):
        NodeTopology((gpu(0), gpu(1), gpu(2)), (link(0, 1), link(1, 2)))


def test_a_repeated_link_is_rejected() -> None:
    with pytest.raises(TopologyError, match=r"links\[\]: \(0, 1\) occurs more than once"):
        NodeTopology((gpu(0), gpu(1)), (link(0, 1), link(0, 1)))


@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 0), (0, 7)])
def test_a_link_of_no_ascending_pair_of_gpus_is_rejected(a: int, b: int) -> None:
    with pytest.raises(TopologyError, match="is not an ascending pair of GPUs of this node"):
        NodeTopology((gpu(0), gpu(1)), (link(a, b),))


@pytest.mark.parametrize("mb_per_s", [0, -1])
def test_a_link_without_bandwidth_is_rejected(mb_per_s: int) -> None:
    with pytest.raises(TopologyError, match=rf"\(0, 1\) has bandwidth {mb_per_s} MB/s"):
        NodeTopology((gpu(0), gpu(1)), (link(0, 1, mb_per_s=mb_per_s),))
