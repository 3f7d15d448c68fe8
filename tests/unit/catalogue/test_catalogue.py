"""Links, PCIe trees and names of the servers of the catalogue."""

from collections import Counter
from dataclasses import replace

import pytest

from gputopo.catalogue import SERVERS, all_names, named, names
from gputopo.topology.hierarchy import blocks
from gputopo.topology.model import Ancestor, GpuIndex, LinkKind, TopologyError
from support.mapa_oracle import mapa_rows

MAPA_NAMES = {
    "dgx1-v100": "dgx-v",
    "dgx1-p100": "dgx-p",
    "summit": "summit",
    "torus-2d-16": "torus-2d",
    "cubemesh-16": "cubeMesh-16_declared",
}
FURTHER_NAMES = [(alias, name) for name in names() for alias in SERVERS[name].aliases]
SOCKETS_SWITCHES = {
    "dgx1-v100": (2, 4),
    "dgx1-p100": (2, 4),
    "summit": (2, 6),
    "torus-2d-16": (2, 4),
    "cubemesh-16": (2, 4),
    "power8-minsky": (2, 4),
    "ac922-4gpu": (2, 4),
    "hgx-a100-4gpu": (4, 4),
    "hgx-h100-4gpu": (4, 4),
    "a100-pcie-4gpu": (2, 4),
    "rtx-a6000-2gpu": (1, 2),
    "dgx-2": (2, 4),
    "dgx-a100": (2, 4),
    "dgx-h100": (2, 8),
    "hgx-b200": (2, 4),
    "pcie-8gpu": (2, 4),
    "pcie-8gpu-1socket": (1, 1),
    "pcie-4gpu-1socket": (1, 4),
    "pcie-8gpu-l40s": (2, 8),
}


def test_the_names_are_listed() -> None:
    assert names() == tuple(SOCKETS_SWITCHES)


def test_names_are_unique() -> None:
    known = [*names(), *(alias for alias, _ in FURTHER_NAMES)]
    assert len(set(known)) == len(known)
    assert sorted(all_names()) == sorted(known)


@pytest.mark.parametrize("name", names())
def test_a_server_is_described_in_one_line_with_its_gpus(name: str) -> None:
    entry = SERVERS[name]
    assert entry.gpus == len(named(name).gpus)
    assert entry.description.splitlines() == [entry.description]
    assert 20 <= len(entry.description) <= 80


@pytest.mark.parametrize(("alias", "name"), FURTHER_NAMES)
def test_a_further_name_gives_the_same_server_except_for_the_gpu_model(
    alias: str, name: str
) -> None:
    further, main = named(alias, node="n1"), named(name, node="n1")
    assert (further.links, further.numa_nodes) == (main.links, main.numa_nodes)
    assert [replace(gpu, model="", memory_bytes=0) for gpu in further.gpus] == [
        replace(gpu, model="", memory_bytes=0) for gpu in main.gpus
    ]
    assert (further == main) == (alias not in SERVERS[name].alias_gpus)


@pytest.mark.parametrize(
    ("alias", "model", "memory_gib"),
    [
        ("g5.12xlarge", "NVIDIA A10G", 24),
        ("g5.24xlarge", "NVIDIA A10G", 24),
        ("g5.48xlarge", "NVIDIA A10G", 24),
        ("g6.12xlarge", "NVIDIA L4", 24),
        ("g6.24xlarge", "NVIDIA L4", 24),
        ("g6.48xlarge", "NVIDIA L4", 24),
        ("g6e.12xlarge", "NVIDIA L40S", 48),
        ("g6e.48xlarge", "NVIDIA L40S", 48),
        ("g4dn.metal", "Tesla T4", 16),
        ("p3.16xlarge", "Tesla V100-SXM2-16GB", 16),
        ("p3dn.24xlarge", "Tesla V100-SXM2-32GB", 32),
        ("p4d.24xlarge", "NVIDIA A100-SXM4-40GB", 40),
        ("p4de.24xlarge", "NVIDIA A100-SXM4-80GB", 80),
        ("a2-highgpu-8g", "NVIDIA A100-SXM4-40GB", 40),
        ("p5.48xlarge", "NVIDIA H100 80GB HBM3", 80),
        ("a3-highgpu-8g", "NVIDIA H100 80GB HBM3", 80),
        ("p5e.48xlarge", "NVIDIA H200", 141),
        ("dgx-h200", "NVIDIA H200", 141),
        ("p6-b200.48xlarge", "NVIDIA B200", 180),
        ("rtx-3090-2gpu", "NVIDIA GeForce RTX 3090", 24),
    ],
)
def test_a_further_name_has_the_gpus_of_its_server(alias: str, model: str, memory_gib: int) -> None:
    gpus = named(alias).gpus
    assert {(gpu.model, gpu.memory_bytes) for gpu in gpus} == {(model, memory_gib * 2**30)}


def test_only_aliases_have_other_gpus() -> None:
    for server in SERVERS.values():
        assert set(server.alias_gpus) <= set(server.aliases)


@pytest.mark.parametrize(("name", "counts"), SOCKETS_SWITCHES.items())
def test_the_pcie_tree_has_the_sockets_and_switches_of_the_server(
    name: str, counts: tuple[int, int]
) -> None:
    topology = named(name)
    sockets = blocks(topology, Ancestor.NODE)
    switches = blocks(topology, Ancestor.PXB)
    assert (len(sockets), len(switches)) == counts
    assert len({socket.bit_count() for socket in sockets}) == 1
    assert [socket & -socket for socket in sockets] == sorted(s & -s for s in sockets)
    for switch in switches:
        assert any(switch & socket == switch for socket in sockets)


@pytest.mark.parametrize("name", names())
def test_gpus_of_one_numa_node_are_of_one_socket(name: str) -> None:
    topology = named(name)
    for link in topology.links:
        ends = {gpu.numa_node for gpu in topology.gpus if gpu.index in (link.a, link.b)}
        assert (len(ends) == 2) == (link.ancestor is Ancestor.SYS)


@pytest.mark.parametrize("name", MAPA_NAMES)
def test_nvlinks_are_those_of_mapas_edge_list(name: str) -> None:
    edges = {
        (int(row["gpu_a"]) - 1, int(row["gpu_b"]) - 1): int(row["weight_gbps"]) * 1000
        for row in mapa_rows("topology_edges.csv")
        if row["topology"] == MAPA_NAMES[name]
    }
    nvlinks = {
        (link.a, link.b): link.bandwidth_mb_per_s
        for link in named(name).links
        if link.kind is LinkKind.NVLINK
    }
    assert nvlinks == edges


@pytest.mark.parametrize("name", MAPA_NAMES)
def test_pairs_without_nvlink_have_pcie_of_12_gb_per_s(name: str) -> None:
    rates = {link.bandwidth_mb_per_s for link in named(name).links if link.kind is LinkKind.PCIE}
    assert rates == {12_000}


@pytest.mark.parametrize(
    ("name", "links_of_a_gpu"),
    [
        ("dgx1-v100", 6),
        ("dgx1-p100", 4),
        ("summit", 4),
        ("power8-minsky", 2),
        ("ac922-4gpu", 3),
        ("hgx-a100-4gpu", 12),
        ("hgx-h100-4gpu", 18),
        ("a100-pcie-4gpu", 12),
        ("rtx-a6000-2gpu", 4),
    ],
)
def test_every_gpu_has_the_same_number_of_nvlinks(name: str, links_of_a_gpu: int) -> None:
    used: Counter[GpuIndex] = Counter()
    for link in named(name).links:
        if link.kind is LinkKind.NVLINK:
            used.update({link.a: link.count, link.b: link.count})
    assert set(used.values()) == {links_of_a_gpu}
    assert len(used) == len(named(name).gpus)


def test_cubemesh_has_its_32_links_and_torus_the_31_of_the_released_program() -> None:
    def nvlinks(name: str) -> int:
        return sum(link.kind is LinkKind.NVLINK for link in named(name).links)

    assert (nvlinks("cubemesh-16"), nvlinks("torus-2d-16")) == (32, 31)
    assert named("torus-2d-16").link_of[GpuIndex(0), GpuIndex(4)].kind is LinkKind.PCIE


def test_gpus_of_a_minsky_socket_have_40_gb_per_s() -> None:
    rates = [
        (link.a, link.b, link.bandwidth_mb_per_s)
        for link in named("power8-minsky").links
        if link.kind is LinkKind.NVLINK
    ]
    assert rates == [(0, 1, 40_000), (2, 3, 40_000)]


@pytest.mark.parametrize(
    ("name", "count", "mb_per_s"),
    [
        ("dgx-2", 6, 150_000),
        ("dgx-a100", 12, 300_000),
        ("dgx-h100", 18, 450_000),
        ("hgx-b200", 18, 900_000),
    ],
)
def test_every_pair_of_a_switched_server_has_the_full_rate(
    name: str, count: int, mb_per_s: int
) -> None:
    links = named(name).links
    assert {(one.kind, one.count, one.bandwidth_mb_per_s) for one in links} == {
        (LinkKind.NVSWITCH, count, mb_per_s)
    }


def test_bridged_workstation_boards_have_their_slower_nvlinks() -> None:
    [link] = named("rtx-a6000-2gpu").links
    assert (link.kind, link.count, link.bandwidth_mb_per_s) == (LinkKind.NVLINK, 4, 56_248)


def test_the_pcie_server_has_switches_sockets_and_nothing_else() -> None:
    links = named("pcie-8gpu").links
    assert {(one.kind, one.bandwidth_mb_per_s) for one in links} == {(LinkKind.PCIE, 12_000)}
    assert Counter(one.ancestor for one in links) == {
        Ancestor.PIX: 4,
        Ancestor.NODE: 8,
        Ancestor.SYS: 16,
    }


@pytest.mark.parametrize("name", names())
def test_every_gpu_lies_on_a_numa_node_of_its_server(name: str) -> None:
    topology = named(name)
    assert {gpu.numa_node for gpu in topology.gpus} == {numa.id for numa in topology.numa_nodes}


@pytest.mark.parametrize("name", names())
def test_bus_ids_are_unique_and_have_the_format_of_nvml(name: str) -> None:
    bus_ids = [gpu.pci_bus_id for gpu in named(name).gpus]
    assert len(set(bus_ids)) == len(bus_ids)
    assert {len(bus_id) for bus_id in bus_ids} == {len("00000000:06:00.0")}


def test_uuids_are_the_same_in_every_run_and_differ_between_nodes() -> None:
    here, there = named("summit", node="n1"), named("summit", node="n2")
    assert here == named("summit", node="n1")
    assert not {gpu.uuid for gpu in here.gpus} & {gpu.uuid for gpu in there.gpus}
    assert named("dgx1-v100").gpus[0].uuid == "GPU-62e8e433-b749-5fec-8f5d-8b247a96967e"


def test_an_unknown_name_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(
        TopologyError, match=r"'abacus' is not one of dgx1-v100, .*, pcie-8gpu-l40s$"
    ):
        named("abacus")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("dgx-a10", "dgx-a100"), ("torus2d", "torus-2d"), ("p4d.24xlrge", "p4d.24xlarge")],
)
def test_a_misspelt_name_is_rejected_with_the_nearest(typed: str, expected: str) -> None:
    with pytest.raises(TopologyError, match=f"; did you mean {expected}\\?$"):
        named(typed)
