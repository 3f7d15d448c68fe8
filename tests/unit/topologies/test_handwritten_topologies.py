"""Handwritten topologies: results and rejected files."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputopo.catalogue import named, names
from gputopo.topology.hierarchy import blocks
from gputopo.topology.model import (
    Ancestor,
    GpuIndex,
    LinkKind,
    NodeTopology,
    TopologyError,
    indices_of,
)
from gputopo_topologies.load import parse, parse_document

FIELD_OF = {
    Ancestor.PIX: "switches",
    Ancestor.PXB: "switchTrees",
    Ancestor.PHB: "hostBridges",
    Ancestor.NODE: "sockets",
}


def written(topology: NodeTopology) -> dict[str, Any]:
    """Return a topology of the catalogue in the handwritten format."""
    link = topology.links[0]
    file: dict[str, Any] = {"gpus": len(topology.gpus), "model": topology.gpus[0].model}
    for level, field in FIELD_OF.items():
        file[field] = [list(indices_of(block)) for block in blocks(topology, level)]
    if link.kind is LinkKind.NVSWITCH:
        file["nvswitch"] = {"generation": link.version, "linksPerGpu": link.count}
    nvlinks = [one for one in topology.links if one.kind is LinkKind.NVLINK]
    if nvlinks:
        links = [[one.b, one.a, one.count] for one in nvlinks]
        file["nvlink"] = {"generation": nvlinks[0].version, "links": links}
    versions = {one.version for one in topology.links if one.kind is LinkKind.PCIE}
    if versions:
        [file["pcieGeneration"]] = versions
    return file


@pytest.mark.parametrize("name", names())
def test_every_server_of_the_catalogue_can_be_written_by_hand(name: str) -> None:
    assert parse_document(written(named(name)), "mine").fingerprint == named(name).fingerprint


def test_the_example_of_the_guide_is_a_dgx1() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "reference" / "topologies.md").read_text()
    [example] = re.findall(r"```json\n(.*?)```", guide, re.DOTALL)
    assert parse(example, "mine").fingerprint == named("dgx1-v100").fingerprint


def test_the_number_of_gpus_is_enough() -> None:
    topology = parse_document({"gpus": 2}, "mine")
    [link] = topology.links
    assert (link.kind, link.version, link.count) == (LinkKind.PCIE, 3, 16)
    assert link.ancestor is Ancestor.NODE
    assert [(gpu.model, gpu.memory_bytes, gpu.numa_node) for gpu in topology.gpus] == [
        ("", 0, 0),
        ("", 0, 0),
    ]


def test_given_values_of_gpus_and_pcie_are_used() -> None:
    topology = parse_document(
        {
            "gpus": 2,
            "model": "NVIDIA L4",
            "memory": "24Gi",
            "sockets": [[1], [0]],
            "pcieGeneration": 4,
            "pcieLanes": 8,
        },
        "mine",
    )
    [link] = topology.links
    assert (link.version, link.count, link.bandwidth_mb_per_s) == (4, 8, 12_000)
    assert link.ancestor is Ancestor.SYS
    assert [(gpu.model, gpu.memory_bytes, gpu.numa_node) for gpu in topology.gpus] == [
        ("NVIDIA L4", 24 * 2**30, 1),
        ("NVIDIA L4", 24 * 2**30, 0),
    ]


def test_the_default_pcie_generation_follows_nvlink() -> None:
    nvlink = {"generation": 3, "links": [[0, 1, 12]]}
    links = parse_document({"gpus": 3, "nvlink": nvlink}, "mine").link_of
    assert links[GpuIndex(0), GpuIndex(1)].bandwidth_mb_per_s == 300_000
    assert links[GpuIndex(0), GpuIndex(2)].version == 4


def test_uuids_are_derived_from_name_and_index() -> None:
    here, there = parse_document({"gpus": 2}, "n1"), parse_document({"gpus": 2}, "n2")
    assert here == parse_document({"gpus": 2}, "n1")
    assert len({*here.uuid_of.values(), *there.uuid_of.values()}) == 4


NVLINK_0_1 = {"generation": 2, "links": [[0, 1, 2]]}


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ({}, "gpus: is required"),
        ({"gpus": 0}, "gpus: 0: Input should be greater than or equal to 1"),
        ({"gpus": 65}, "gpus: 65: Input should be less than or equal to 64"),
        ({"gpus": "8"}, "gpus: '8': Input should be a valid integer"),
        ({"gpus": True}, "gpus: True: Input should be a valid integer"),
        ({"gpus": 2, "sokets": []}, "sokets: there is no such field; did you mean sockets?"),
        ({"gpus": 2, "colour": "red"}, "colour: there is no such field"),
        ({"gpus": 2, "pcie_generation": 3}, "pcie_generation: there is no such field; did you"),
        ({"gpus": 2, "model": 7}, "model: 7: Input should be a valid string"),
        ({"gpus": 2, "memory": "much"}, "memory: 'much': String should match pattern"),
        ({"gpus": 2, "pcieGeneration": 7}, "pcieGeneration: 7: Input should be less than"),
        ({"gpus": 2, "pcieLanes": 32}, "pcieLanes: 32: Input should be less than"),
        ({"gpus": 2, "sockets": [[0, 1], []]}, "sockets[1]: []: List should have at least 1"),
        ({"gpus": 2, "sockets": [[0, 1.5]]}, "sockets[0][1]: 1.5: Input should be a valid int"),
        ({"gpus": 2, "sockets": [[0, 2]]}, "sockets: GPU 2 is not one of 0..1"),
        ({"gpus": 2, "sockets": [[0, 1], [1]]}, "sockets: GPU 1 occurs more than once"),
        ({"gpus": 3, "sockets": [[0, 1]]}, "sockets: GPU 2 is in none of [[0, 1]]"),
        ({"gpus": 2, "switches": [[0, 0]]}, "switches: GPU 0 occurs more than once"),
        (
            {"gpus": 4, "sockets": [[0, 1], [2, 3]], "switches": [[1, 2]]},
            "switches: GPUs [1, 2] are in several groups of sockets: [[0, 1], [2, 3]]",
        ),
        (
            {"gpus": 4, "hostBridges": [[0, 1], [2, 3]], "switchTrees": [[0, 3]]},
            "switchTrees: GPUs [0, 3] are in several groups of hostBridges: [[0, 1], [2, 3]]",
        ),
        ({"gpus": 2, "nvlink": {"links": []}}, "nvlink.generation: is required"),
        (
            {"gpus": 2, "nvlink": {"generation": 6, "links": []}},
            "nvlink.generation: 6: Input should be less than or equal to 5",
        ),
        (
            {"gpus": 2, "nvlink": {"generation": 2, "links": [[0, 1]]}},
            "nvlink.links[0][2]: is required",
        ),
        (
            {"gpus": 2, "nvlink": {"generation": 2, "links": [[0, 1, 0]]}},
            "nvlink.links[0][2]: 0: Input should be greater than or equal to 1",
        ),
        (
            {"gpus": 2, "nvlink": {"generation": 2, "links": [[0, 5, 1]]}},
            "nvlink.links: [0, 5, 1]: GPU 5 is not one of 0..1",
        ),
        (
            {"gpus": 2, "nvlink": {"generation": 2, "links": [[1, 1, 1]]}},
            "nvlink.links: [1, 1, 1]: GPU 1 occurs more than once",
        ),
        (
            {"gpus": 2, "nvlink": {"generation": 2, "links": [[0, 1, 1], [1, 0, 1]]}},
            "nvlink.links: the pair [0, 1] occurs more than once",
        ),
        (
            {"gpus": 2, "nvlink": {**NVLINK_0_1, "speed": 9}},
            "nvlink.speed: there is no such field",
        ),
        (
            {"gpus": 2, "nvswitch": {"generation": 3, "linksPerGpu": 19}},
            "nvswitch.linksPerGpu: 19: Input should be less than or equal to 18",
        ),
        (
            {
                "gpus": 2,
                "nvlink": NVLINK_0_1,
                "nvswitch": {"generation": 3, "linksPerGpu": 12},
            },
            "nvswitch: not allowed together with nvlink",
        ),
        ([1, 2], "value: [1, 2]: Input should be a valid dictionary"),
        (None, "value: None: Input should be a valid dictionary"),
        ({"gpus": "x" * 1000}, f"gpus: '{'x' * 79}...: Input should be a valid integer"),
    ],
)
def test_a_wrong_file_is_rejected_with_the_field_and_its_value(file: object, message: str) -> None:
    with pytest.raises(TopologyError) as rejected:
        parse_document(file, "mine")
    assert str(rejected.value).startswith(f"mine: {message}")
    assert "\n" not in str(rejected.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [*FIELD_OF.values(), "gpus", "nvlink", "nvswitch", "generation", "links", "kind"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_document_is_a_topology_or_rejected(document: object) -> None:
    try:
        assert isinstance(parse_document(document, "mine"), NodeTopology)
    except TopologyError as error:
        message = str(error)
    else:
        message = "mine: "
    assert message.startswith("mine: ")
