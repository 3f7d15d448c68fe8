"""Capacity across a cut: NVLinks of pairs, ports of an NVSwitch, the shared PCIe tree."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from gputopo.bandwidth.capacity import MAX_MB_PER_S, LinkCapacities, pcie_tree
from gputopo.bandwidth.effective import effective_table
from gputopo.bandwidth.models import PHYSICAL
from gputopo.catalogue import named
from gputopo.patterns.model import ring
from gputopo.topology.model import Ancestor, Link, LinkKind, NodeTopology
from support.builders.topologies import DOUBLE, PCIE, SINGLE, LinkSpec, gpu, link, node


def across(topology: NodeTopology, members: list[int]) -> dict[frozenset[int], int]:
    """Return MB/s of each cut by the side of the first member."""
    found = LinkCapacities.from_topology(topology).across(
        np.array(members, dtype=np.uint8)[:, None]
    )
    return {
        frozenset(
            [members[0], *(one for bit, one in enumerate(members[1:]) if number >> bit & 1)]
        ): int(mb_per_s)
        for number, mb_per_s in enumerate(found[:, 0])
    }


def node_with_ancestors(
    ancestors: Mapping[tuple[int, int], Ancestor], sort: LinkSpec = PCIE
) -> NodeTopology:
    """Return a node with these common ancestors of pairs; SYS for all others."""
    count = 1 + max(b for _, b in ancestors)
    links = [link(a, b, sort) for a, b in combinations(range(count), 2)]
    return NodeTopology(
        tuple(gpu(index) for index in range(count)),
        tuple(
            Link(
                one.a,
                one.b,
                one.kind,
                one.version,
                one.count,
                ancestors.get((one.a, one.b), Ancestor.SYS),
                one.bandwidth_mb_per_s,
            )
            for one in links
        ),
    )


@pytest.mark.parametrize(
    ("ancestor", "mb_per_s"),
    [
        (Ancestor.INTERNAL, 12_000),
        (Ancestor.PIX, 12_000),
        (Ancestor.PXB, 12_000),
        (Ancestor.PHB, 10_000),
        (Ancestor.NODE, 10_000),
        (Ancestor.SYS, 8_000),
    ],
)
def test_a_farther_ancestor_on_pcie_has_less_capacity(ancestor: Ancestor, mb_per_s: int) -> None:
    assert across(node_with_ancestors({(0, 1): ancestor}), [0, 1]) == {frozenset({0}): mb_per_s}


def test_the_example_of_the_module_is_correct() -> None:
    topology = node_with_ancestors({(0, 1): Ancestor.PIX, (2, 3): Ancestor.PIX})
    nvlinks = replace(topology.links[0], kind=LinkKind.NVLINK, version=2, count=2)
    nvlinks = replace(nvlinks, bandwidth_mb_per_s=50_000)
    topology = replace(topology, links=(nvlinks, *topology.links[1:]))
    found = across(topology, [0, 1, 2, 3])
    assert found[frozenset({0})] == 62_000
    assert found[frozenset({0, 1})] == 8_000
    assert found[frozenset({0, 2})] == 74_000
    assert found[frozenset({0, 1, 2})] == 12_000
    ring_of_4 = effective_table(topology, ring(4), PHYSICAL)
    assert ring_of_4.mb_per_s.tolist() == [11_446]  # the example of gputopo.bandwidth.physical


def test_two_gpus_of_a_switch_share_its_uplink() -> None:
    topology = node_with_ancestors(
        {(0, 1): Ancestor.PIX, (2, 3): Ancestor.PIX}
        | {(a, b): Ancestor.NODE for a in (0, 1) for b in (2, 3)}
    )
    found = across(topology, [0, 1, 2, 3])
    assert found[frozenset({0, 1})] == 10_000
    assert found[frozenset({0, 2})] == 24_000
    assert found[frozenset({0})] == 12_000


def test_all_gpus_of_a_socket_share_the_interconnect() -> None:
    topology = node_with_ancestors(
        dict.fromkeys(combinations(range(4), 2), Ancestor.NODE)
        | dict.fromkeys(combinations(range(4, 8), 2), Ancestor.NODE)
    )
    found = across(topology, list(range(8)))
    assert found[frozenset(range(4))] == 8_000
    assert found[frozenset({0, 1, 4, 5})] == 40_000


def test_nvlinks_add_to_pcie() -> None:
    topology = node(0, 1, 2, links={(0, 1): DOUBLE, (0, 2): SINGLE})
    found = across(topology, [0, 1, 2])
    assert found[frozenset({0})] == 75_000 + 8_000
    assert found[frozenset({0, 1})] == 25_000 + 8_000
    assert found[frozenset({0, 2})] == 50_000 + 8_000


def test_a_gpu_has_one_port_to_the_switch_for_all_peers() -> None:
    found = across(named("dgx-a100"), [0, 1, 2, 3])
    assert found[frozenset({0})] == 300_000 + 24_000
    assert found[frozenset({0, 2})] == 600_000 + 48_000


def test_gpus_without_nvswitch_have_no_port() -> None:
    switched = (LinkKind.NVSWITCH, 3, 4)
    found = across(node(0, 1, 2, links={(0, 1): switched}), [0, 1, 2])
    assert found[frozenset({0, 1})] == 8_000
    assert found[frozenset({0})] == 100_000 + 16_000


@pytest.mark.parametrize(
    ("sort", "lanes_mb_per_s"),
    [
        ((LinkKind.NVLINK, 1, 1), 12_000),
        ((LinkKind.NVLINK, 2, 1), 12_000),
        ((LinkKind.NVLINK, 3, 1), 24_000),
        ((LinkKind.NVSWITCH, 4, 18), 48_000),
        ((LinkKind.NVLINK, 5, 1), 48_000),
    ],
)
def test_pcie_hidden_by_nvlinks_has_the_generation_beside_them(
    sort: LinkSpec, lanes_mb_per_s: int
) -> None:
    tree = pcie_tree(node(0, 1, links={(0, 1): sort}))
    assert [gpu.uplink_mb_per_s for gpu in tree.branches] == [lanes_mb_per_s * 2 // 3] * 2


def test_a_gpu_with_few_lanes_limits_only_itself() -> None:
    few = (LinkKind.PCIE, 3, 4)
    found = across(node(0, 1, 2, links={(0, 2): few, (1, 2): few}), [0, 1, 2])
    assert found[frozenset({0, 1})] == 2_000
    assert found[frozenset({0})] == 8_000


def test_a_huge_bandwidth_does_not_overflow() -> None:
    one = node(0, 1)
    fast = NodeTopology(one.gpus, (link(0, 1, DOUBLE, mb_per_s=2**62),))
    assert across(fast, [0, 1]) == {frozenset({0}): MAX_MB_PER_S + 8_000}


def test_slow_links_have_a_positive_capacity() -> None:
    one = node(0, 1)
    slow = NodeTopology(one.gpus, (link(0, 1, PCIE, mb_per_s=1),))
    assert across(slow, [0, 1]) == {frozenset({0}): 1}


@pytest.mark.parametrize("name", ["dgx1-v100", "dgx1-p100", "pcie-8gpu", "dgx-a100", "summit"])
def test_the_capacity_of_a_cut_is_the_maximum_flow(name: str) -> None:
    topology = named(name)
    members = [0, 1, 3, 4, 5]
    network = _network(topology, members)
    for half, mb_per_s in across(topology, members).items():
        graph = network.copy()
        graph.add_edges_from(("from", one) for one in half)
        graph.add_edges_from((one, "to") for one in set(members) - half)
        assert mb_per_s == nx.maximum_flow_value(graph, "from", "to")


def _network(topology: NodeTopology, members: list[int]) -> "nx.DiGraph[object]":
    """Return the links of these GPUs, each in both directions."""
    graph: nx.Graph[object] = nx.Graph()
    kinds = {one.kind for one in topology.links}
    lanes = 24_000 if LinkKind.NVSWITCH in kinds else 12_000
    for one in topology.links:
        if one.kind is LinkKind.NVLINK and {one.a, one.b} <= set(members):
            graph.add_edge(one.a, one.b, capacity=one.bandwidth_mb_per_s)
    for index in members:
        switch, socket = (_place(topology, index, level) for level in ("PXB", "NODE"))
        graph.add_edge(index, ("switch", switch), capacity=lanes)
        graph.add_edge(("switch", switch), ("socket", socket), capacity=lanes * 5 // 6)
        graph.add_edge(("socket", socket), "interconnect", capacity=lanes * 2 // 3)
        if LinkKind.NVSWITCH in kinds:
            graph.add_edge(index, "nvswitch", capacity=300_000)
    return graph.to_directed()


def _place(topology: NodeTopology, index: int, level: str) -> int:
    """Return the lowest GPU that this one meets at a level or nearer."""
    levels = ["INTERNAL", "PIX", "PXB", "PHB", "NODE"]
    near = levels[: levels.index(level) + 1]
    met = [one for one in topology.links if index in {one.a, one.b} and one.ancestor in near]
    return min([index, *(one.a for one in met), *(one.b for one in met)])
