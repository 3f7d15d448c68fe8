"""Recordings of nvidia-smi topo -m of real machines give their topologies."""

from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from gputopo.catalogue import named, names
from gputopo.topology.hierarchy import blocks
from gputopo.topology.model import Ancestor, GpuIndex, LinkKind, NodeTopology, TopologyError
from gputopo_topologies.load import parse

RECORDINGS = Path(__file__).parents[2] / "data" / "topo"
Sort = tuple[LinkKind, int, int]

NVLINK, NVSWITCH, PCIE = LinkKind.NVLINK, LinkKind.NVSWITCH, LinkKind.PCIE

EXPECTED: dict[str, tuple[dict[Sort, int], tuple[int, ...], tuple[int, ...]]] = {
    "dgx1-v100": (
        {(NVLINK, 2, 2): 8, (NVLINK, 2, 1): 8, (PCIE, 3, 16): 12},
        (0x0F, 0xF0),
        (0x03, 0x0C, 0x30, 0xC0),
    ),
    "dgx1-p100": (
        {(NVLINK, 2, 1): 16, (PCIE, 3, 16): 12},
        (0x0F, 0xF0),
        (0x03, 0x0C, 0x30, 0xC0),
    ),
    "dgx-a100": (
        {(NVSWITCH, 3, 12): 28},
        (0x03, 0x0C, 0x30, 0xC0),
        (0x03, 0x0C, 0x30, 0xC0),
    ),
    "dgx-h100": ({(NVSWITCH, 4, 18): 28}, (0x0F, 0xF0), (1, 2, 4, 8, 16, 32, 64, 128)),
    "h100-interleaved-cpus": (
        {(NVSWITCH, 4, 18): 28},
        (0x0F, 0xF0),
        (1, 2, 4, 8, 16, 32, 64, 128),
    ),
    "hgx-b300": ({(NVSWITCH, 4, 18): 28}, (0x0F, 0xF0), (1, 2, 4, 8, 16, 32, 64, 128)),
    "gb200-4gpu": ({(NVSWITCH, 4, 18): 6}, (0b11, 0b1100), (1, 2, 4, 8)),
    "h100-4gpu": ({(NVLINK, 4, 6): 6}, (1, 2, 4, 8), (1, 2, 4, 8)),
    "polaris": ({(NVLINK, 3, 4): 6}, (1, 2, 4, 8), (1, 2, 4, 8)),
    "ac922": ({(NVLINK, 2, 3): 2, (PCIE, 3, 16): 4}, (0b11, 0b1100), (1, 2, 4, 8)),
    "a100-pcie-bridges": ({(NVLINK, 3, 12): 2, (PCIE, 4, 16): 4}, (1, 2, 4, 8), (1, 2, 4, 8)),
    "rtx3090-bridges": ({(NVLINK, 3, 4): 2, (PCIE, 4, 16): 4}, (0b1111,), (1, 2, 4, 8)),
    "l40s-8gpu": ({(PCIE, 3, 16): 28}, (0x0F, 0xF0), (1, 2, 4, 8, 16, 32, 64, 128)),
    "p40-8gpu": ({(PCIE, 3, 16): 28}, (0xFF,), (0xFF,)),
    "mixed-workstation": ({(PCIE, 3, 16): 10}, (0b00001, 0b11110), (1, 2, 4, 8, 16)),
}
"""Links by type, generation and count, sockets and PCIe switches of each recording."""

NUMA_NODES = {
    "dgx1-v100": (None,) * 8,
    "dgx-a100": (3, 3, 1, 1, 7, 7, 5, 5),
    "h100-interleaved-cpus": (0, 0, 0, 0, 1, 1, 1, 1),
    "hgx-b300": (0, 0, 0, 0, 1, 1, 1, 1),
    "h100-4gpu": (3, 1, 7, 5),
    "polaris": (3, 2, 1, 0),
    "ac922": (0, 0, 8, 8),
    "mixed-workstation": (1, 0, 0, 0, 0),
}

MODELS = {
    "ac922": "Tesla V100-SXM2-32GB",
    "dgx1-p100": "Tesla P100-SXM2-16GB",
    "gb200-4gpu": "NVIDIA GB200",
    "l40s-8gpu": "NVIDIA L40S",
    "rtx3090-bridges": "NVIDIA GeForce RTX 3090",
}


def recorded(name: str, *, listed: bool = False) -> NodeTopology:
    text = (RECORDINGS / f"{name}.txt").read_text()
    if listed:
        gpus = len(parse(text, name).gpus)
        text = listing(MODELS[name], gpus) + text
    return parse(text, name)


def listing(model: str, gpus: int) -> str:
    """Output of nvidia-smi -L."""
    return "".join(f"GPU {index}: {model} (UUID: GPU-{index:04x})\n" for index in range(gpus))


def test_every_recording_is_tested() -> None:
    found = {path.stem for path in RECORDINGS.glob("*.txt")}
    assert found == {*EXPECTED, "dgx2-cut-off"}


@pytest.mark.parametrize("name", EXPECTED)
def test_links_sockets_and_switches_are_those_of_the_machine(name: str) -> None:
    sorts, sockets, switches = EXPECTED[name]
    topology = recorded(name)
    assert Counter((link.kind, link.version, link.count) for link in topology.links) == sorts
    assert blocks(topology, Ancestor.NODE) == sockets
    assert blocks(topology, Ancestor.PXB) == switches


@pytest.mark.parametrize("name", NUMA_NODES)
def test_numa_nodes_are_parsed(name: str) -> None:
    assert tuple(gpu.numa_node for gpu in recorded(name).gpus) == NUMA_NODES[name]


@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("dgx1-v100", "dgx1-v100"),
        ("dgx1-p100", "dgx1-p100"),
        ("dgx-h100", "dgx-h100"),
        ("h100-4gpu", "hgx-h100-4gpu"),
        ("polaris", "hgx-a100-4gpu"),
        ("ac922", "ac922-4gpu"),
        ("l40s-8gpu", "pcie-8gpu-l40s"),
        ("p40-8gpu", "pcie-8gpu-1socket"),
    ],
)
def test_a_recording_equals_the_server_of_the_catalogue(name: str, server: str) -> None:
    assert recorded(name, listed=name in MODELS).fingerprint == named(server).fingerprint


def test_an_incomplete_recording_is_rejected_with_the_missing_row() -> None:
    with pytest.raises(TopologyError, match=r"^dgx2-cut-off: row GPU5 is missing$"):
        recorded("dgx2-cut-off")


def test_ancestors_of_gpus_with_nvlinks_are_inferred_from_nics() -> None:
    links = recorded("dgx1-v100").link_of
    met = [links[GpuIndex(0), GpuIndex(peer)].ancestor for peer in range(1, 5)]
    assert met == [Ancestor.PIX, Ancestor.PHB, Ancestor.PHB, Ancestor.SYS]


def test_the_list_of_gpus_gives_generation_bandwidth_model_and_uuid() -> None:
    topology = recorded("rtx3090-bridges", listed=True)
    bridges = {link.bandwidth_mb_per_s for link in topology.links if link.kind is NVLINK}
    assert bridges == {56_248}
    assert {gpu.model for gpu in topology.gpus} == {"NVIDIA GeForce RTX 3090"}
    assert [gpu.uuid for gpu in topology.gpus] == ["GPU-0000", "GPU-0001", "GPU-0002", "GPU-0003"]
    [rate] = {link.bandwidth_mb_per_s for link in recorded("gb200-4gpu", listed=True).links}
    assert rate == 18 * 50_000


def test_without_the_list_uuids_are_derived_from_name_and_index() -> None:
    text = (RECORDINGS / "ac922.txt").read_text()
    assert parse(text, "a") == parse(text, "a")
    assert not set(parse(text, "a").uuid_of.values()) & set(parse(text, "b").uuid_of.values())


@pytest.mark.parametrize("name", names())
def test_the_output_of_a_known_server_is_parsed_as_that_server(name: str) -> None:
    known = named(name)
    read = parse(printed(known), name)
    for wanted, link in zip(known.links, read.links, strict=True):
        assert (link.a, link.b, link.kind, link.version, link.count) == (
            wanted.a,
            wanted.b,
            wanted.kind,
            wanted.version,
            wanted.count,
        )
        assert link.bandwidth_mb_per_s == wanted.bandwidth_mb_per_s
        assert (link.ancestor is Ancestor.SYS) == (wanted.ancestor is Ancestor.SYS)
        assert link.ancestor is wanted.ancestor or link.kind is not PCIE
    assert [gpu.uuid for gpu in read.gpus] == [gpu.uuid for gpu in known.gpus]
    assert [gpu.numa_node for gpu in read.gpus] == [gpu.numa_node for gpu in known.gpus]


def printed(topology: NodeTopology) -> str:
    """Return the list and the matrix of a node, in the format of current drivers."""
    indices = [gpu.index for gpu in topology.gpus]
    cells = {(index, index): " X " for index in indices}
    for a, b in combinations(indices, 2):
        link = topology.link_of[a, b]
        cells[a, b] = cells[b, a] = str(link.ancestor) if link.kind is PCIE else f"NV{link.count}"
    header = "\t".join(f"GPU{index}" for index in indices)
    lines = [
        *(f"GPU {gpu.index}: {gpu.model} (UUID: {gpu.uuid})" for gpu in topology.gpus),
        f"\t\x1b[4m{header}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m",
    ]
    for gpu in topology.gpus:
        row = "\t".join(cells[gpu.index, peer] for peer in indices)
        lines.append(f"GPU{gpu.index}\t{row}\t0-7\t{gpu.numa_node}\t\tN/A")
    return "\n".join(lines) + "\n"
