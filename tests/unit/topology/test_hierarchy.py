"""Groups of GPUs with a common PCIe ancestor at a level or nearer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputopo.catalogue import named, names
from gputopo.topology.hierarchy import LEVELS, blocks
from gputopo.topology.model import Ancestor, NodeTopology
from support.builders.topologies import link, node


def test_the_levels_of_a_dgx1_are_its_switches_sockets_and_the_node() -> None:
    topology = named("dgx1-v100")
    assert blocks(topology, Ancestor.INTERNAL) == tuple(1 << gpu for gpu in range(8))
    assert blocks(topology, Ancestor.PIX) == (0x03, 0x0C, 0x30, 0xC0)
    assert blocks(topology, Ancestor.PXB) == (0x03, 0x0C, 0x30, 0xC0)
    assert blocks(topology, Ancestor.NODE) == (0x0F, 0xF0)
    assert blocks(topology, Ancestor.SYS) == (0xFF,)


def test_a_single_gpu_is_a_group_and_indices_may_have_gaps() -> None:
    assert blocks(node(1, 5), Ancestor.NODE) == (0b10, 0b100000)
    assert blocks(node(3), Ancestor.SYS) == (0b1000,)
    assert blocks(node(), Ancestor.SYS) == ()


def test_groups_are_transitive_for_any_order_of_the_links() -> None:
    gpus = node(0, 1, 2).gpus
    far, near = link(0, 2), [link(1, 2), link(0, 1)]
    near = [
        type(one)(one.a, one.b, one.kind, one.version, one.count, Ancestor.PIX, 12_000)
        for one in near
    ]
    topology = NodeTopology(gpus=gpus, links=(near[0], far, near[1]))
    assert blocks(topology, Ancestor.PIX) == (0b111,)


@pytest.mark.parametrize("name", names())
@given(level=st.sampled_from(LEVELS))
def test_groups_are_disjoint_and_complete_and_nested_in_farther_levels(
    name: str, level: Ancestor
) -> None:
    topology = named(name)
    found = blocks(topology, level)
    assert sum(found) == topology.mask
    assert list(found) == sorted(found, key=lambda block: block & -block)
    for wider in LEVELS[LEVELS.index(level) :]:
        for block in found:
            assert sum(block & outer == block for outer in blocks(topology, wider)) == 1
