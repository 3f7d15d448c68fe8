"""The known servers are what their makers built."""

from collections import Counter

import pytest

from gputopo.api.enums import Ancestor, LinkKind
from gputopo.topology.catalogue import named, names
from gputopo.topology.model import GpuIndex, TopologyError
from oracle import mapa_rows

MAPA_NAMES = {"dgx1-v100": "dgx-v", "dgx1-p100": "dgx-p", "summit": "summit"}


def test_the_names_are_told() -> None:
    assert names() == ("dgx1-v100", "dgx1-p100", "summit", "dgx-a100", "pcie-8gpu")


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
def test_what_has_no_nvlink_is_on_pcie_of_12_gb_per_s(name: str) -> None:
    rates = {link.bandwidth_mb_per_s for link in named(name).links if link.kind is LinkKind.PCIE}
    assert rates == {12_000}


def test_every_gpu_of_a_dgx1_uses_all_its_nvlinks() -> None:
    for name, links_of_a_gpu in (("dgx1-v100", 6), ("dgx1-p100", 4)):
        used: Counter[GpuIndex] = Counter()
        for link in named(name).links:
            if link.kind is LinkKind.NVLINK:
                used.update({link.a: link.count, link.b: link.count})
        assert set(used.values()) == {links_of_a_gpu}


def test_every_pair_of_a_dgx_a100_has_300_gb_per_s_through_the_switch() -> None:
    links = named("dgx-a100").links
    assert {(one.kind, one.count, one.bandwidth_mb_per_s) for one in links} == {
        (LinkKind.NVSWITCH, 12, 300_000)
    }


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
def test_bus_ids_are_distinct_and_written_as_nvml_writes_them(name: str) -> None:
    bus_ids = [gpu.pci_bus_id for gpu in named(name).gpus]
    assert len(set(bus_ids)) == len(bus_ids)
    assert {len(bus_id) for bus_id in bus_ids} == {len("00000000:06:00.0")}


def test_uuids_are_the_same_in_every_run_and_differ_between_nodes() -> None:
    here, there = named("summit", node="n1"), named("summit", node="n2")
    assert here == named("summit", node="n1")
    assert not {gpu.uuid for gpu in here.gpus} & {gpu.uuid for gpu in there.gpus}
    assert named("dgx1-v100").gpus[0].uuid == "GPU-62e8e433-b749-5fec-8f5d-8b247a96967e"


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(TopologyError, match="'dgx-9' is not one of dgx1-v100, dgx1-p100, summit"):
        named("dgx-9")
