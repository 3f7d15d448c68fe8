"""The HTML of the templates: classes, options and lists."""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from jinja2 import nodes

from gputopo_web.pages.environment import environment
from gputopo_web.pages.queries import Selection
from gputopo_web.pages.render import Pages
from gputopo_web.state.cluster import ClusterState
from support.builders import objects, topologies
from support.cli.healthy_cluster import pod
from support.web.clusters import cluster


def section(state: ClusterState, name: str) -> str:
    shown = Pages(state, "here").section(name, Selection())
    assert shown is not None
    return str(shown)


def written_texts(expression: nodes.Node) -> Iterator[str]:
    """Yield the constant texts that an expression can write."""
    if isinstance(expression, nodes.Const):
        yield str(expression.value)
    elif isinstance(expression, nodes.CondExpr):
        yield from written_texts(expression.expr1)
        if expression.expr2 is not None:
            yield from written_texts(expression.expr2)


def test_no_text_of_an_expression_begins_or_ends_with_a_space() -> None:
    """The output of expressions is cleaned: without the space two words would become one."""
    templates = environment()
    found = [
        f"{name}: {text!r}"
        for name in templates.list_templates()
        for output in templates.parse(source(name)).find_all(nodes.Output)
        for expression in output.nodes
        for text in written_texts(expression)
        if text != text.strip()
    ]
    assert found == []


def source(name: str) -> str:
    return (files("gputopo_web.pages") / "templates" / name).read_text()


def test_a_node_that_needs_attention_keeps_the_class_of_its_tile() -> None:
    known = topologies.node(0, 1)
    shown = section(
        cluster(topologies=[objects.topology_object("n1", known, unhealthy=[1])]), "map"
    )
    assert '<article class="node attention" id="node-n1">' in shown
    assert '<article class="node" id="node-n1">' in section(
        cluster(topologies=[objects.topology_object("n1", known)]), "map"
    )


def test_the_ninth_pod_of_a_node_has_the_colour_of_the_first_and_a_class_of_its_own() -> None:
    known = topologies.node(*range(10))
    running = [pod(f"p{at}", "n1", [known.gpus[at].uuid]) for at in range(10)]
    state = cluster(topologies=[objects.topology_object("n1", known)], pods=running)
    classes = re.findall(r'<g class="gpu \w+( c\d(?: p1)?)"', section(state, "map"))
    assert [it.split() for it in classes[:1] + classes[8:]] == [["c0"], ["c0", "p1"], ["c1", "p1"]]


def test_names_in_a_list_have_a_space_after_the_comma() -> None:
    macros: Any = environment().get_template("macros.html").module
    assert macros.nodes(["n1", "n2"]).striptags() == "n1, n2"
    many = macros.nodes([f"n{number}" for number in range(14)]).striptags()
    assert many.endswith("n10, n11 and 2 more")
