"""``gputopo topology export``: graphs that networkx and Graphviz read."""

import io
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from gputopo import catalogue
from gputopo.topology.graph import pairs_to_networkx, to_networkx
from support.cli.command_line import Command

ROOT = Path(__file__).parents[3]
SERVERS = ("dgx1-v100", "summit", "dgx-2", "pcie-8gpu")


def assert_equal(one: Any, other: Any) -> None:
    assert dict(one.nodes) == dict(other.nodes)
    assert {frozenset(pair): facts for pair, facts in one.edges.items()} == {
        frozenset(pair): facts for pair, facts in other.edges.items()
    }
    for field in ("name", "fingerprint"):
        assert one.graph[field] == other.graph[field]


@pytest.mark.parametrize("name", SERVERS)
def test_graphml_is_read_back_equal(gputopo: Command, name: str) -> None:
    done = gputopo(f"topology export {name}")
    again = nx.read_graphml(io.BytesIO(done.out.encode()))
    assert_equal(again, to_networkx(catalogue.named(name), name))


@pytest.mark.parametrize("name", SERVERS)
def test_node_link_json_is_read_back_equal(gputopo: Command, name: str) -> None:
    document = gputopo(f"topology export {name} --format json").document
    assert_equal(
        nx.node_link_graph(document, edges="edges"), to_networkx(catalogue.named(name), name)
    )


@pytest.mark.parametrize("form", ["graphml", "json"])
def test_gpus_only_leaves_out_all_other_hardware(gputopo: Command, form: str) -> None:
    out = gputopo(f"topology export summit --gpus-only --format {form}").out
    graph = (
        nx.read_graphml(io.BytesIO(out.encode()))
        if form == "graphml"
        else nx.node_link_graph(json.loads(out), edges="edges")
    )
    assert_equal(graph, pairs_to_networkx(catalogue.named("summit"), "summit"))


def drawn(text: str) -> str:
    """Return Graphviz's drawing of a DOT text, as SVG."""
    done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("options", ["", "--gpus-only"])
def test_graphviz_draws_the_dot_text(gputopo: Command, options: str) -> None:
    graph = to_networkx(catalogue.named("dgx1-v100"))
    if options:
        graph = pairs_to_networkx(catalogue.named("dgx1-v100"))
    svg = drawn(gputopo(f"topology export dgx1-v100 --format dot {options}").out)
    assert svg.count('class="node"') == len(graph)
    assert svg.count('class="edge"') == graph.number_of_edges()
    assert ">NVLink x2, 50 GB/s<" in svg
    assert ">Tesla V100&#45;SXM2&#45;32GB<" in svg


def test_fast_links_are_wide_lines_in_dot(gputopo: Command) -> None:
    dot = gputopo("topology export dgx-h100 --format dot").out
    assert 'GPU0 -- NVSwitch0 [label="NVLink x18, 450 GB/s" penwidth=9.0]' in dot
    assert "GPU0 -- NUMANode0 [label=PCIe penwidth=1.0]" in dot


HOSTILE = 'V100\x00\x1b[31m <b>"\\N" & --> }'


@pytest.mark.parametrize("form", ["graphml", "json", "dot"])
def test_hostile_names_of_gpus_are_only_text(gputopo: Command, tmp_path: Path, form: str) -> None:
    document = gputopo("topology show summit -o json").document
    document["spec"]["gpus"][0]["model"] = HOSTILE
    file = tmp_path / "a&b <c>.json"
    file.write_text(json.dumps(document))
    done = gputopo("topology export", str(file), "--format", form)
    assert (done.status, done.err) == (0, "")
    clean = 'V100 [31m <b>"\\N" & --> }'
    if form == "dot":
        assert "V100 [31m &lt;b&gt;&quot;\\N&quot; &amp; &#45;&#45;&gt; }" in drawn(done.out)
        return
    graph = (
        nx.read_graphml(io.BytesIO(done.out.encode()))
        if form == "graphml"
        else nx.node_link_graph(json.loads(done.out), edges="edges")
    )
    assert graph.nodes["GPU0"]["model"] == clean
    assert graph.graph["name"] == "a&b <c>.json"


def test_file_is_exported_to_a_file(gputopo: Command, tmp_path: Path) -> None:
    gputopo("topology show summit -o json --output-file", str(tmp_path / "mine.json"))
    exported = tmp_path / "mine.graphml"
    done = gputopo(f"topology export {tmp_path}/mine.json --output-file {exported}")
    assert (done.out, done.err) == ("", "")
    assert len(nx.read_graphml(exported)) == len(to_networkx(catalogue.named("summit")))


def test_unknown_format_or_topology_is_rejected(gputopo: Command) -> None:
    done = gputopo("topology export summit --format svg")
    assert (done.status, done.out) == (2, "")
    assert "graphml" in done.err
    assert gputopo("topology export sumit").err.endswith("did you mean 'summit'?\n")


def test_example_in_the_docs_runs_and_prints_what_it_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs/reference/topologies.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 1
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks[0], "docs/reference/topologies.md", "exec"), {})  # noqa: S102 - our own page
    said = re.findall(r"# prints (.*)", blocks[0])
    assert said
    assert capsys.readouterr().out.splitlines() == said
