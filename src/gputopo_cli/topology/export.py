"""Write a node topology as a graph for other programs (``gputopo topology export``)."""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import graphviz
import networkx as nx

from gputopo.topology.graph import VertexKind, pairs_to_networkx, to_networkx
from gputopo_cli.shared import output
from gputopo_cli.topology.load import load_topology

_SHAPES: Final[Mapping[str, str]] = MappingProxyType(
    {VertexKind.GPU: "ellipse", VertexKind.NVSWITCH: "hexagon"}
)
_GB_PER_S_OF_ONE_POINT: Final = 50  # 450 GB/s of a H100 are a line of 9 points


def export_topology(
    argument: str, form: str, gpus_only: bool, context: str | None, output_file: str | None
) -> None:
    """Write one topology as GraphML, as JSON (node-link) or in Graphviz's DOT language."""
    loaded = load_topology(argument, context)
    convert = pairs_to_networkx if gpus_only else to_networkx
    graph = _printable(convert(loaded.topology, loaded.name))
    output.write(FORMATS[form](graph), output_file)


def _printable(graph: "nx.Graph[str]") -> "nx.Graph[str]":
    """Replace control characters in texts by spaces: XML cannot contain them."""
    tables = [graph.graph, *graph.nodes.values(), *graph.edges.values()]
    for table in tables:
        table.update(
            {key: output.one_line(value) for key, value in table.items() if isinstance(value, str)}
        )
    return graph


def to_graphml(graph: "nx.Graph[str]") -> str:
    """Return a GraphML document, which :func:`networkx.read_graphml` reads."""
    return "\n".join(nx.generate_graphml(graph))


def to_node_link(graph: "nx.Graph[str]") -> str:
    """Return a JSON document, which :func:`networkx.node_link_graph` reads."""
    return json.dumps(nx.node_link_data(graph, edges="edges"), indent=2, allow_nan=False)


def to_dot(graph: "nx.Graph[str]") -> str:
    """Return a graph in Graphviz's language, with labels, and wide lines for fast links."""
    drawing = graphviz.Graph(graphviz.escape(graph.graph["name"]))
    for vertex, facts in graph.nodes.items():
        label = f"{vertex}\n{facts['model']}" if "model" in facts else vertex
        shape = _SHAPES.get(facts["kind"], "box")
        drawing.node(vertex, graphviz.escape(label), shape=shape)
    for (a, b), facts in graph.edges.items():
        drawing.edge(a, b, _label(facts), penwidth=_width(facts))
    return str(drawing.source).rstrip()


def _label(facts: Mapping[str, object]) -> str:
    """Return a text such as ``NVLink x2, 50 GB/s``; only the kind if the rate is unknown."""
    if "gb_per_s" not in facts:
        return str(facts["kind"])
    return f"{facts['kind']} x{facts['width']}, {facts['gb_per_s']:g} GB/s"


def _width(facts: Mapping[str, float]) -> str:
    return f"{max(1.0, facts.get('gb_per_s', 0) / _GB_PER_S_OF_ONE_POINT):.1f}"


FORMATS: Final[Mapping[str, Callable[["nx.Graph[str]"], str]]] = MappingProxyType(
    {"graphml": to_graphml, "json": to_node_link, "dot": to_dot}
)
