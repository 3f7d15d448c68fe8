"""Parser of nvidia-smi topo -m: formats and rejected texts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputopo.topology.model import Ancestor, GpuIndex, NodeTopology, TopologyError
from gputopo_topologies.load import parse
from gputopo_topologies.topo_matrix import has_matrix, parse_matrix

RECORDINGS = sorted((Path(__file__).parents[2] / "data" / "topo").glob("*.txt"))

PAIR = """\
        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NODE    0-7             0               N/A
GPU1    NODE     X      0-7             0               N/A
"""


def ancestor(text: str, a: int = 0, b: int = 1) -> Ancestor:
    return parse(text, "node").link_of[GpuIndex(a), GpuIndex(b)].ancestor


def rejection(text: str) -> str:
    with pytest.raises(TopologyError) as rejected:
        parse(text, "node")
    assert "\n" not in str(rejected.value)
    return str(rejected.value)


@pytest.mark.parametrize(
    "text",
    [
        PAIR,
        PAIR.replace("\n", "\r\n"),
        PAIR.replace("    ", "\t"),
        PAIR.replace("GPU0    GPU1", "\x1b[4mGPU0    GPU1").replace("GPU NUMA ID", "\x1b[0m", 1),
        PAIR.replace("GPU0    GPU1", "[4mGPU0    GPU1").replace("GPU NUMA ID", "GPU NUMA ID[0m", 1),
        f"$ nvidia-smi topo -m\n{PAIR}\nLegend:\n\n  X    = Self\n",
        f"{PAIR}\n{PAIR.replace('NODE', 'SYS')}",
        PAIR.replace("GPU0    GPU1", "GPU0GPU1"),
        PAIR.replace("GPU NUMA ID", "").replace("N/A", ""),
    ],
    ids=[
        "aligned",
        "windows",
        "tabs",
        "underlined",
        "underlined, copied",
        "prompt and legend",
        "two matrices: the first counts",
        "header run together",
        "older driver",
    ],
)
def test_every_format_of_a_matrix_gives_the_same_result(text: str) -> None:
    assert parse(text, "node") == parse(PAIR, "node")


@pytest.mark.parametrize(
    ("word", "level"),
    [
        ("PSB", Ancestor.INTERNAL),
        ("PIX", Ancestor.PIX),
        ("PXB", Ancestor.PXB),
        ("PHB", Ancestor.PHB),
        ("NODE", Ancestor.NODE),
        ("SYS", Ancestor.SYS),
        ("SOC", Ancestor.SYS),
    ],
)
def test_every_level_is_known(word: str, level: Ancestor) -> None:
    assert ancestor(PAIR.replace("NODE", word)) is level


def test_one_gpu_is_a_node_without_links() -> None:
    text = "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t\tN/A\n"
    [gpu] = parse(text, "node").gpus
    assert gpu.numa_node is None
    assert parse("GPU0\nGPU0 X\n", "node").links == ()
    assert parse("GPU0 mlx5_0 CPU Affinity\nGPU0 X PIX 0-7\n", "node").links == ()


def test_indices_may_have_gaps() -> None:
    text = PAIR.replace("GPU1", "GPU12")
    assert [gpu.index for gpu in parse(text, "node").gpus] == [0, 12]


@pytest.mark.parametrize("numa", ["0-1", "N/A", "-1", "x"])
def test_a_numa_affinity_that_is_not_one_node_is_unknown(numa: str) -> None:
    text = PAIR.replace("0               N/A", f"{numa}             N/A")
    assert [gpu.numa_node for gpu in parse(text, "node").gpus] == [None, None]


def test_a_line_about_a_nic_after_the_matrix_is_ignored() -> None:
    text = PAIR.replace("GPU1    CPU", "GPU1  mlx5_0  CPU").replace("0-7", "PIX 0-7")
    assert ancestor(text + "mlx5_0 port 1 ==> ib0 (Up)\nmlx5_0\n") is Ancestor.NODE


NVLINKED = """\
GPU0 GPU1 {columns} CPU Affinity NUMA Affinity
GPU0 X NV2 {first} {affinities[0]}
GPU1 NV2 X {second} {affinities[1]}
"""


@pytest.mark.parametrize(
    ("nics", "affinities", "level"),
    [
        ({}, ("0-3 0", "4-7 1"), Ancestor.SYS),
        ({}, ("0-3 0", "0-3 0"), Ancestor.NODE),
        ({}, ("0-3 N/A", "0-3 N/A"), Ancestor.NODE),
        ({}, ("0-3 N/A", "4-7 N/A"), Ancestor.SYS),
        ({}, ("", ""), Ancestor.SYS),
        ({"NIC0": ("PIX", "PIX")}, ("", ""), Ancestor.PIX),
        ({"NIC0": ("PIX", "PXB")}, ("0-3 0", "0-3 0"), Ancestor.PXB),
        ({"NIC0": ("PIX", "SYS")}, ("1-1", "1-1"), Ancestor.SYS),
        ({"NIC0": ("SYS", "SYS")}, ("0-3 0", "0-3 0"), Ancestor.NODE),
        ({"NIC0": ("NODE", "NODE"), "NIC1": ("PHB", "PIX")}, ("0-3 0", "0-3 0"), Ancestor.PHB),
        ({"NIC0": ("PIX", "NODE")}, ("0-3 0", "4-7 1"), Ancestor.SYS),
    ],
)
def test_ancestors_of_gpus_with_nvlinks_are_inferred(
    nics: dict[str, tuple[str, str]], affinities: tuple[str, str], level: Ancestor
) -> None:
    first, second = (" ".join(cells[row] for cells in nics.values()) for row in (0, 1))
    text = NVLINKED.format(
        columns=" ".join(nics), first=first, second=second, affinities=affinities
    )
    assert ancestor(text) is level


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            PAIR.replace("NODE", "FOO", 1),
            "row GPU0, column GPU1: 'FOO' is not one of NV1, NV2, ..., PSB, PIX, PXB, PHB, NODE",
        ),
        (PAIR.replace("NODE", "NV0", 1), "row GPU0, column GPU1: 'NV0' is not one of"),
        (PAIR.replace("NODE", "X", 1), "row GPU0, column GPU1: 'X' is not one of"),
        (PAIR.replace(" X ", "PIX", 1), "row GPU0, column GPU0: 'PIX' is not one of X"),
        (
            PAIR.replace("NODE", "SYS", 1),
            "row GPU1, column GPU0 is NODE, but row GPU0, column GPU1 is SYS",
        ),
        (
            PAIR.replace("NODE", "NV4", 1),
            "row GPU1, column GPU0 is NODE, but row GPU0, column GPU1 is NV4",
        ),
        (PAIR[: PAIR.rindex("GPU1")], "row GPU1 is missing"),
        (PAIR[: PAIR.rindex("NODE")], "row GPU1 is missing"),
        (PAIR[: PAIR.rindex("X")], "row GPU1: column GPU1 is missing"),
        (PAIR + PAIR.splitlines()[1], "row GPU0 occurs more than once"),
        (
            PAIR + PAIR.splitlines()[1].replace("GPU0", "GPU2"),
            "row GPU2: the matrix has no column GPU2",
        ),
        (PAIR.replace("GPU1    CPU", "GPU0    CPU"), "column GPU0 occurs more than once"),
        (
            PAIR.replace("GPU1", "GPU64"),
            "column GPU64: indices above 63 are not supported",
        ),
        (
            "GPU 0: Tesla T4 (UUID: GPU-a)\n" + PAIR,
            "nvidia-smi -L lists GPUs [0], but the matrix has [0, 1]",
        ),
        (
            "GPU 0: Tesla T4 (UUID: GPU-a)\nGPU 1: Tesla T4 (UUID: GPU-a)\n" + PAIR,
            "gpus[].uuid: GPU-a occurs more than once",
        ),
    ],
)
def test_a_broken_matrix_is_rejected_with_row_column_and_value(text: str, message: str) -> None:
    assert rejection(text).startswith(f"node: {message}")


def test_only_a_text_with_a_header_has_a_matrix() -> None:
    assert has_matrix(PAIR)
    for text in ("", "GPU 0: Tesla T4 (UUID: GPU-a)", "GPU0 X NODE 0-7", "GPU1 FOO X"):
        assert not has_matrix(text)


def test_nics_are_devices_and_not_gpus() -> None:
    matrix = parse_matrix("GPU0 NIC0 CPU Affinity\nGPU0 X PIX 0-7\nNIC0 PIX X\n")
    assert matrix.devices == ("GPU0", "NIC0")
    assert dict(matrix.gpus) == {0: "GPU0"}
    assert dict(matrix.cells) == {("GPU0", "NIC0"): Ancestor.PIX, ("NIC0", "GPU0"): Ancestor.PIX}


WORDS = st.sampled_from(
    [
        *("GPU0", "GPU1", "GPU2", "GPU64", "NIC0", "mlx5_0", "X", "NV1", "NV4", "NV18", "NV99"),
        *("SYS", "NODE", "PIX", "SOC", "CPU Affinity", "NUMA Affinity", "0-7", "0", "N/A", "FOO"),
        *("\n", "\n", "\t", "  ", "\x1b[4m", "GPU 0: Tesla T4 (UUID: GPU-a)", "{", "Legend:"),
    ]
)


@given(st.lists(WORDS, max_size=40))
def test_any_words_are_a_topology_or_rejected(words: list[str]) -> None:
    assert_topology_or_rejected(" ".join(words))


@given(st.data())
def test_a_damaged_recording_is_a_topology_or_rejected(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(RECORDINGS)).read_text()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 200)))
    assert_topology_or_rejected(text[:start] + data.draw(WORDS) + text[end:])


@given(st.text())
def test_any_text_is_a_topology_or_rejected(text: str) -> None:
    assert_topology_or_rejected(text)


def assert_topology_or_rejected(text: str) -> None:
    try:
        assert isinstance(parse(text, "node"), NodeTopology)
    except TopologyError as error:
        message = str(error)
    else:
        message = "node: "
    assert message.startswith("node: ")
