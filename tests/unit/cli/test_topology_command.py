"""``gputopo topology``: sources of topologies, the matrix and the picture."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from gputopo import catalogue
from gputopo_cli.shared.options import complete_topologies
from gputopo_cli.topology.load import LoadedTopology
from gputopo_cli.topology.matrix import format_matrix
from gputopo_explain.drawing.layout import lay_out
from gputopo_explain.drawing.svg import Marks, draw_topology
from support.builders.topologies import DOUBLE, node
from support.cli.command_line import Command, process

RECORDING = """\
\tGPU0\tGPU1\tCPU Affinity
GPU0\t X \tNV2\t0-19
GPU1\tNV2\t X \t0-19
"""


def test_list_names_every_server_of_the_catalogue(gputopo: Command) -> None:
    listed = gputopo("topology list -o json").document
    assert [entry["name"] for entry in listed] == list(catalogue.names())
    assert listed[0] == {
        "name": "dgx1-v100",
        "gpus": 8,
        "links": catalogue.SERVERS["dgx1-v100"].description,
        "aliases": list(catalogue.SERVERS["dgx1-v100"].aliases),
        "aliasGpus": {"p3.16xlarge": "Tesla V100-SXM2-16GB"},
    }
    table = gputopo("topology list").out
    assert all(name in table for name in catalogue.names())


@pytest.mark.parametrize("name", catalogue.names())
def test_every_server_has_a_matrix_and_a_picture(gputopo: Command, name: str) -> None:
    count = catalogue.SERVERS[name].gpus
    out = gputopo(f"topology show {name}").out
    assert [line.split()[0] for line in out.splitlines()[3 : 3 + count]] == [
        f"GPU{gpu}" for gpu in range(count)
    ]
    picture = ET.fromstring(gputopo(f"topology show {name} -o svg").out)  # noqa: S314 - our own
    circles = picture.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(circles) == count


def test_matrix_shows_links_bandwidths_sockets_and_switches(gputopo: Command) -> None:
    lines = gputopo("topology show dgx1-v100").out.splitlines()
    assert lines[0] == "dgx1-v100: 8 GPUs, Tesla V100-SXM2-32GB"
    row = "GPU0 X NV1 25 NV1 25 NV2 50 NV2 50 SYS 12 SYS 12 SYS 12 0"
    assert " ".join(lines[3].split()) == row
    assert "NV2     50 GB/s  2 NVLinks of generation 2" in lines
    assert "SYS     12 GB/s  PCIe 3 x16 across sockets" in lines
    assert "sockets: {0,1,2,3} {4,5,6,7}" in lines
    assert lines[-1].endswith(": {0,1} {2,3} {4,5} {6,7}")


def test_marks_are_shown_at_their_gpus(gputopo: Command) -> None:
    lines = gputopo("topology show dgx1-v100 --gpus 2,0 --busy 6").out.splitlines()
    assert [line.split()[-2:] for line in (lines[3], lines[5], lines[9])] == [
        ["rank", "1"],
        ["rank", "0"],
        ["1", "busy"],
    ]
    states = gputopo("topology show dgx1-v100 --gpus 2,0 --busy 6 -o json").document["states"]
    assert states == {"0": "rank 1", "2": "rank 0", "6": "busy"}


def test_a_gpu_cannot_be_busy_and_allocated(gputopo: Command) -> None:
    done = gputopo("topology show dgx1-v100 --gpus 2,0 --busy 0")
    assert (done.status, done.err) == (2, "gputopo: gpus: 0 is busy\n")


def test_a_narrow_terminal_cuts_the_matrix_and_no_cell() -> None:
    topology = catalogue.named("dgx-2")
    wide = [line.plain for line in format_matrix(topology, {}, 200)]
    narrow = [line.plain for line in format_matrix(topology, {}, 40)]
    assert max(map(len, narrow)) <= 70  # the legend's words, which a terminal may wrap
    cells = " ".join(line for line in narrow if line.startswith("GPU"))
    assert cells.count("NV6 150") == 16 * 15 == " ".join(wide).count("NV6 150")
    tiny = [line.plain for line in format_matrix(topology, {}, 1)]
    assert " ".join(tiny).count("NV6 150") == 16 * 15


def test_width_is_that_of_the_terminal_and_unlimited_in_a_pipe() -> None:
    narrow = process("topology", "show", "dgx-2", COLUMNS="60").out.splitlines()
    assert sum(line.startswith("GPU0 ") for line in narrow) > 1
    piped = process("topology", "show", "dgx-2").out.splitlines()
    assert sum(line.startswith("GPU0 ") for line in piped) == 1


def test_fast_links_stand_out_by_colour() -> None:
    topology = node(0, 1, 2, links={(0, 1): DOUBLE})
    first_row = list(format_matrix(topology, {}, 100))[1]
    styles = {first_row.plain[span.start : span.end]: span.style for span in first_row.spans}
    assert styles["NV2 50"] == "bold green"
    assert styles["SYS 12"] == "dim"


def test_json_can_be_loaded_again(gputopo: Command, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    gputopo("topology show summit -o json --output-file", str(path))
    again = gputopo(f"topology show {path}")
    assert again.out.splitlines()[1:] == gputopo("topology show summit").out.splitlines()[1:]
    piped = gputopo("topology show -", stdin=path.read_bytes())
    assert piped.out.startswith("standard input: 6 GPUs")


def test_yaml_of_kubectl_can_be_loaded(gputopo: Command) -> None:
    import yaml  # noqa: PLC0415

    document = gputopo("topology show summit -o json").document
    shown = gputopo("topology show -", stdin=yaml.safe_dump(document).encode())
    assert shown.out.startswith("standard input: 6 GPUs")


def test_recording_of_nvidia_smi_can_be_loaded(gputopo: Command, tmp_path: Path) -> None:
    path = tmp_path / "topo.txt"
    path.write_text(RECORDING)
    assert "NV2" in gputopo(f"topology show {path}").out


def test_file_in_the_current_folder_needs_no_slash(
    gputopo: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("topo.txt").write_text(RECORDING)
    assert gputopo("topology show topo.txt").status == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "bad: is neither a JSON object nor output of `nvidia-smi topo -m`"),
        (b"\x7fELF\x02\xff", "topology: '{path}' is not UTF-8 text: byte 5 is 0xff"),
        (b"{", "bad: line 1, column 2: is not JSON"),
        (b"gpus: [", "bad: is neither a JSON object nor"),
        (b"gpus: two\n", "bad: gpus: "),
        (b"[" * 2000, "bad: is "),
        (b'{"kind": "Pod"}', "bad: kind: 'Pod' is neither GPUTopology"),
    ],
)
def test_invalid_topology_is_rejected_in_one_line(
    gputopo: Command, tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content)
    done = gputopo(f"topology show {path}")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("gputopo: " + message.replace("{path}", str(path))[:60])
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("/", "topology: '/' cannot be read: Is a directory"),
        ("/nonexistent/x", "topology: '/nonexistent/x' cannot be read: No such file or directory"),
        ("a\0/b", "topology: 'a\\x00/b' cannot be read: embedded null byte"),
        ("/dev/zero", "topology: '/dev/zero' is longer than 64 MiB"),
    ],
)
def test_unreadable_file_is_reported(gputopo: Command, argument: str, message: str) -> None:
    done = gputopo("topology show", argument)
    assert (done.status, done.err) == (2, f"gputopo: {message}\n")


def test_unknown_name_is_reported_with_the_nearest_one(gputopo: Command) -> None:
    done = gputopo("topology show dgx1-v10")
    assert done.status == 2
    assert done.err.startswith(
        "gputopo: topology: 'dgx1-v10' is not a name of the catalogue, a file or a node"
        " (kubeconfig: "
    )
    assert done.err.endswith("; did you mean 'dgx1-v100'?\n")
    assert "did you mean" not in gputopo("topology show qqq").err


def test_completion_offers_the_catalogue() -> None:
    done = process(
        _GPUTOPO_COMPLETE="complete_bash",
        COMP_WORDS="gputopo topology show dgx1",
        COMP_CWORD="3",
    )
    assert done.out.split() == ["dgx1-v100", "dgx1-p100"]
    assert complete_topologies("dgx1") == ["dgx1-v100", "dgx1-p100"]


def test_no_link_of_a_picture_crosses_a_gpu() -> None:
    for name in catalogue.names():
        points = list(lay_out(catalogue.named(name)).points.values())
        for number, (x, y) in enumerate(points):
            for other in points[number + 1 :]:
                assert (x - other[0]) ** 2 + (y - other[1]) ** 2 > 50**2


def test_a_node_of_one_gpu_has_a_picture() -> None:
    assert "<circle" in draw_topology(node(0), Marks(), name="one", summary="1 GPU")


def test_gpus_with_one_socket_each_are_drawn_in_one_box() -> None:
    apart = lay_out(node(0, 1, 2))
    assert len(apart.sockets) == 1


def test_names_are_escaped_in_pictures() -> None:
    picture = draw_topology(node(0, 1), Marks(), name="<a&b>", summary="")
    assert ET.fromstring(picture).get("aria-label") == "<a&b>"  # noqa: S314 - our own


def test_all_links_of_an_allocation_with_an_unknown_pattern_are_used(gputopo: Command) -> None:
    out = gputopo("topology show dgx1-v100 --gpus 2,0,1 -o svg").out
    assert out.count('stroke="#e4572e"') == 3 + 3 + 1  # links, GPUs and legend


def test_models_of_gpus_are_named_once() -> None:
    assert LoadedTopology("x", node(0, 1)).summary == "2 GPUs, Tesla V100-SXM2-32GB"
    assert LoadedTopology("x", node(0)).summary == "1 GPU, Tesla V100-SXM2-32GB"


def test_json_document_of_the_catalogue_is_a_gputopology(gputopo: Command) -> None:
    document = json.loads(gputopo("topology show summit -o json").out)
    assert (document["kind"], document["metadata"]) == ("GPUTopology", {"name": "summit"})
