"""A node topology as a networkx graph."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import networkx as nx
import pytest
from hypothesis import given

from gputopo import catalogue
from gputopo.topology.graph import pairs_to_networkx, to_networkx
from gputopo.topology.hierarchy import LEVELS
from gputopo.topology.model import Ancestor, GpuIndex, LinkKind, NodeTopology, NumaNode
from support.builders.strategies import topologies
from support.builders.topologies import DOUBLE, node

Graph = Any


def kinds(graph: Graph) -> dict[str, int]:
    found = [facts["kind"] for facts in graph.nodes.values()]
    return {kind: found.count(kind) for kind in found}


def pcie_tree(graph: Graph) -> Graph:
    return nx.Graph(pair for pair, facts in graph.edges.items() if facts["kind"] != "NVLink")


def meeting_level(graph: Graph, a: int, b: int) -> Ancestor:
    """Return the highest level on the path of two GPUs through the PCIe tree."""
    path = nx.shortest_path(pcie_tree(graph), f"GPU{a}", f"GPU{b}")
    return max((Ancestor(graph.nodes[each]["level"]) for each in path[1:-1]), key=LEVELS.index)


def test_dgx1_has_its_switches_host_bridges_and_numa_nodes() -> None:
    graph = to_networkx(catalogue.named("dgx1-v100"), "dgx1")
    assert kinds(graph) == {
        "GPU": 8,
        "PCIeSwitch": 4,
        "HostBridge": 2,
        "NUMANode": 2,
        "Interconnect": 1,
    }
    assert graph.graph["name"] == "dgx1"
    assert graph.graph["fingerprint"] == catalogue.named("dgx1-v100").fingerprint
    assert graph.edges["GPU0", "GPU3"] == {
        "kind": "NVLink",
        "generation": 2,
        "width": 2,
        "gb_per_s": 50.0,
    }
    assert not graph.has_edge("GPU0", "GPU5")  # they have only PCIe


def test_gpus_have_what_is_known_of_them() -> None:
    topology = node(0, 1)
    bare = replace(topology.gpus[1], pci_bus_id="", model="", memory_bytes=0, numa_node=None)
    graph = to_networkx(replace(topology, gpus=(topology.gpus[0], bare)))
    assert graph.nodes["GPU0"] == {
        "kind": "GPU",
        "index": 0,
        "minor": 0,
        "uuid": "GPU-n-0",
        "pci_bus_id": "00000000:00:00.0",
        "model": "Tesla V100-SXM2-32GB",
        "memory_bytes": 2**35,
        "numa_node": 0,
    }
    assert graph.nodes["GPU1"] == {"kind": "GPU", "index": 1, "minor": 1, "uuid": "GPU-n-1"}


def test_gpus_on_nvswitch_are_connected_through_one_vertex() -> None:
    graph = to_networkx(catalogue.named("dgx-h100"))
    assert kinds(graph)["NVSwitch"] == 1
    assert sorted(graph.neighbors("NVSwitch0")) == [f"GPU{gpu}" for gpu in range(8)]
    assert graph.edges["GPU5", "NVSwitch0"] == {
        "kind": "NVLink",
        "generation": 4,
        "width": 18,
        "gb_per_s": 450.0,
    }
    assert graph.edges["GPU5", "NUMANode1"] == {"kind": "PCIe"}  # the PCIe rate is unknown


def test_two_groups_on_nvswitch_have_a_vertex_each() -> None:
    switched = (LinkKind.NVSWITCH, 3, 12)
    graph = to_networkx(node(0, 1, 2, 3, links={(0, 3): switched, (1, 2): switched}))
    assert sorted(graph.neighbors("NVSwitch0")) == ["GPU0", "GPU3"]
    assert sorted(graph.neighbors("NVSwitch1")) == ["GPU1", "GPU2"]


def test_port_of_a_gpu_has_the_rate_of_its_fastest_pcie_link() -> None:
    slow = (LinkKind.PCIE, 3, 8)
    graph = to_networkx(node(0, 1, 2, links={(0, 1): slow, (0, 2): slow}))
    ports = {gpu: graph.edges[gpu, parent] for gpu, parent in graph.edges("GPU1")}
    assert ports == {"GPU1": {"kind": "PCIe", "generation": 3, "width": 16, "gb_per_s": 12.0}}
    assert [graph.edges[edge]["width"] for edge in graph.edges("GPU0")] == [8]


def test_numa_nodes_have_the_numbers_and_sizes_of_the_host() -> None:
    topology = catalogue.named("dgx1-v100")
    hosts = {numa.id: numa for numa in topology.numa_nodes}
    graph = to_networkx(topology)
    for number in (0, 1):
        assert graph.nodes[f"NUMANode{number}"] == {
            "kind": "NUMANode",
            "level": "NODE",
            "numa_node": number,
            "cpus": hosts[number].cpus,
            "memory_bytes": hosts[number].memory_bytes,
        }
        assert graph.nodes[f"GPU{4 * number}"]["numa_node"] == number


def apart(*numa_nodes: int | None, hosts: tuple[NumaNode, ...] = ()) -> NodeTopology:
    """Return a node of GPUs on PCIe with one GPU for each NUMA node, all SYS apart."""
    topology = node(*range(len(numa_nodes)))
    gpus = tuple(
        replace(gpu, numa_node=numa) for gpu, numa in zip(topology.gpus, numa_nodes, strict=True)
    )
    return replace(topology, gpus=gpus, numa_nodes=hosts)


def test_numa_nodes_are_named_by_their_numbers() -> None:
    graph = to_networkx(apart(3, 1, hosts=(NumaNode(3, 16, 2**30),)))
    assert list(graph.neighbors("GPU0")) == ["NUMANode3"]
    assert list(graph.neighbors("GPU1")) == ["NUMANode1"]
    assert graph.nodes["NUMANode3"]["cpus"] == 16
    assert "cpus" not in graph.nodes["NUMANode1"]


@pytest.mark.parametrize("numbers", [(None, 5), (5, None), (5, 5)])
def test_numa_nodes_without_clear_numbers_are_counted(numbers: tuple[int | None, ...]) -> None:
    graph = to_networkx(apart(*numbers, hosts=(NumaNode(0, 16, 2**30),)))
    assert list(graph.neighbors("GPU0")) == ["NUMANode0"]
    assert list(graph.neighbors("GPU1")) == ["NUMANode1"]
    assert graph.nodes["NUMANode0"] == {"kind": "NUMANode", "level": "NODE"}


def test_gpus_of_one_numa_node_that_name_different_numbers_leave_it_unnamed() -> None:
    topology = apart(0, 1)
    (link,) = topology.links
    together = replace(topology, links=(replace(link, ancestor=Ancestor.NODE),))
    graph = to_networkx(together)
    assert kinds(graph) == {"GPU": 2, "NUMANode": 1}
    assert "numa_node" not in graph.nodes["NUMANode0"]


def test_single_gpu_is_at_its_numa_node() -> None:
    graph = to_networkx(node(0))
    assert dict(graph.edges) == {("GPU0", "NUMANode0"): {"kind": "PCIe"}}


def test_node_without_gpus_is_an_empty_graph() -> None:
    assert not to_networkx(NodeTopology((), ()))
    assert not pairs_to_networkx(NodeTopology((), ()))


def test_each_level_that_joins_gpus_is_a_vertex() -> None:
    topology = node(*range(6))
    levels = {
        (0, 1): Ancestor.INTERNAL,
        (2, 3): Ancestor.PIX,
        (0, 2): Ancestor.PXB,
        (0, 4): Ancestor.PHB,
        (0, 5): Ancestor.NODE,
    }
    links = tuple(
        replace(link, ancestor=levels.get((link.a, link.b), Ancestor.SYS))
        for link in topology.links
    )
    graph = to_networkx(replace(topology, links=links))
    tree = {
        vertex: (facts.get("level"), sorted(graph.neighbors(vertex)))
        for vertex, facts in graph.nodes.items()
        if facts["kind"] != "GPU"
    }
    assert tree == {
        "PCIeSwitch0": ("INTERNAL", ["GPU0", "GPU1", "PCIeSwitch2"]),
        "PCIeSwitch1": ("PIX", ["GPU2", "GPU3", "PCIeSwitch2"]),
        "PCIeSwitch2": ("PXB", ["HostBridge0", "PCIeSwitch0", "PCIeSwitch1"]),
        "HostBridge0": ("PHB", ["GPU4", "NUMANode0", "PCIeSwitch2"]),
        "NUMANode0": ("NODE", ["GPU5", "HostBridge0"]),
    }
    assert graph.edges["PCIeSwitch2", "HostBridge0"] == {"kind": "PCIe"}
    assert graph.edges["HostBridge0", "NUMANode0"] == {"kind": "Interconnect"}


@pytest.mark.parametrize("name", catalogue.names())
def test_gpus_of_every_server_meet_where_their_link_says(name: str) -> None:
    topology = catalogue.named(name)
    graph = to_networkx(topology)
    assert nx.is_tree(pcie_tree(graph))
    for link in topology.links:
        assert meeting_level(graph, link.a, link.b) is link.ancestor


@pytest.mark.parametrize("name", catalogue.names())
def test_edges_of_every_server_have_the_rates_of_its_links(name: str) -> None:
    topology = catalogue.named(name)
    graph = to_networkx(topology)
    for link in topology.links:
        a, b = f"GPU{link.a}", f"GPU{link.b}"
        if link.kind is LinkKind.NVLINK:
            rates = [graph.edges[a, b]["gb_per_s"]]
        elif link.kind is LinkKind.NVSWITCH:
            rates = [graph.edges[gpu, "NVSwitch0"]["gb_per_s"] for gpu in (a, b)]
        else:
            path = nx.shortest_path(pcie_tree(graph), a, b)
            rates = [graph.edges[path[0], path[1]]["gb_per_s"]]
        assert min(rates) * 1000 == link.bandwidth_mb_per_s


@given(topologies())
def test_graph_of_pairs_has_every_link_of_a_topology(topology: NodeTopology) -> None:
    graph = pairs_to_networkx(topology)
    assert len(graph) == len(topology.gpus)
    assert graph.number_of_edges() == len(topology.links)
    for link in topology.links:
        assert graph.edges[f"GPU{link.a}", f"GPU{link.b}"] == {
            "kind": link.kind.value,
            "ancestor": link.ancestor.value,
            "generation": link.version,
            "width": link.count,
            "gb_per_s": link.bandwidth_mb_per_s / 1000,
        }


@given(topologies())
def test_hardware_of_any_topology_is_a_tree_and_its_nvlinks(topology: NodeTopology) -> None:
    graph = to_networkx(topology)
    assert nx.is_tree(pcie_tree(graph))
    direct = {(link.a, link.b) for link in topology.links if link.kind is LinkKind.NVLINK}
    for a, b in combinations([gpu.index for gpu in topology.gpus], 2):
        pair = (GpuIndex(min(a, b)), GpuIndex(max(a, b)))
        assert graph.has_edge(f"GPU{a}", f"GPU{b}") == (pair in direct)


def test_nvlinks_and_pcie_of_one_gpu_are_separate_edges() -> None:
    graph = to_networkx(node(0, 1, 2, links={(0, 1): DOUBLE}))
    assert sorted(facts["kind"] for facts in graph.adj["GPU0"].values()) == ["NVLink", "PCIe"]
