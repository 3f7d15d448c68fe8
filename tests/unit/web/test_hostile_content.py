"""Texts that users and agents write are rendered harmless and short."""

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from markupsafe import Markup

from gputopo.api.names import EDGES_ANNOTATION, PATTERN_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo_kube.document import ObjectKey
from gputopo_web.pages.environment import LONGEST, clean
from gputopo_web.pages.queries import Selection
from gputopo_web.pages.render import SECTIONS, Pages
from gputopo_web.server.explainer import Explainer
from gputopo_web.state.cluster import Changes, ClusterState
from support.builders import objects
from support.builders.objects import Document
from support.cli.healthy_cluster import topology, uuids
from support.web.clusters import PLACEMENT, cluster, placed_pod, set_gpu_job

HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</title></svg><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{ 7*7 }}{% raw %}",
    "a\x00b\x1b[31mc\u202ed\u2028e\r\nf",
    "x" * 300_000,
)


class Elements(HTMLParser):
    """Collects the elements of a page and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def assert_harmless(text: str) -> None:
    """Assert that a page has only its own script, no handlers, and no text that is too long."""
    for tag, attributes in Elements(text).tags:
        assert tag not in {"iframe", "object", "embed", "base", "style"}
        assert tag != "script" or attributes["src"] == "/static/web.js"
        assert tag != "img" or (attributes["src"] or "").startswith("/picture/")
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name != "style"
            assert name != "href" or re.match(r"[/#]|http://www.w3.org/", value or "#"), value
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2028\u2029]", text)
    assert max(map(len, text.split("\n"))) < 12_000


def hostile_cluster(text: str) -> tuple[ClusterState, str]:
    """Return a cluster with this text in all places that accept any text, and a pod's name.

    The API server rejects such names; the page does not rely on it.
    """
    name = text[:60]
    running = placed_pod(name, "n1", uuids("n1", 0, 3))
    running["metadata"]["labels"] = {"gputopo.io/job": text}
    figures = json.loads(PLACEMENT.dump())
    figures |= dict.fromkeys(("policy", "pattern", "reason", "model"), text)
    figures["fact"] = text[:512]
    running["metadata"]["annotations"][PLACEMENT_ANNOTATION] = json.dumps(figures)
    waiting = objects.pod(f"{name}2", 2, annotations={PATTERN_ANNOTATION: text})
    condition = objects.condition("PodScheduled", "False", text)
    waiting["status"]["conditions"] = [condition | {"message": text}]
    gated = objects.pod(f"{name}3", 2, annotations={EDGES_ANNOTATION: text})
    gated["spec"]["schedulingGates"] = [{"name": text}]
    rejected = placed_pod(f"{name}4", "n1", uuids("n1", 1))
    rejected["status"] |= {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": text}
    state = cluster(
        topologies=[hostile_topology(text), topology("n2")],
        pods=[running, waiting, gated, rejected],
    )
    set_gpu_job(state, hostile_gpu_job(name, text))
    state.set_error("pods", text)
    state.take_changes()
    return state, name


def hostile_topology(text: str) -> Document:
    document = topology("n1")
    for gpu in document["spec"]["gpus"]:
        gpu["model"] = text[:128]
    document["status"]["gpus"][1] |= {"healthy": False, "reason": text[:1024]}
    document["status"]["gpus"][2] |= {"podUID": "u", "pod": "p", "namespace": "n"}
    document["status"]["conditions"][0] |= {"status": "False", "message": text[:1024]}
    return document


def hostile_gpu_job(name: str, text: str) -> Document:
    conditions = [objects.condition("Suspended", "True", "Queued") | {"message": text[:1024]}]
    return {
        "metadata": {"name": f"{name}5", "namespace": "default"},
        "spec": {"gpusPerReplica": 2},
        "status": {"phase": text[:32], "conditions": conditions},
    }


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_texts_are_harmless_on_every_page(text: str) -> None:
    state, name = hostile_cluster(text)
    pages = Pages(state, text)
    explainer = Explainer(state)
    selection = Selection.parse({"q": "", "group": "", "state": text})
    shown = [pages.index(selection, "1-1"), pages.index(Selection.parse({"q": text}), text)]
    shown += [str(pages.section(section, selection)) for section in SECTIONS]
    node = pages.node("n1")
    assert node is not None
    shown += [str(node), pages.whole(text, node), str(pages.message(text, text))]
    for suffix in ("", "2", "3", "4"):
        key = ObjectKey("default", f"{name}{suffix}")
        panel = pages.pod(key, await explainer.pod(key))
        assert panel is not None, suffix
        shown.append(str(panel))
    key = ObjectKey("default", f"{name}5")
    job = pages.gpu_job(key, await explainer.gpu_job(key))
    shown.append(str(job))
    changes = pages.change(Changes({"n1", "n2"}, {"jobs"}))
    shown += changes["tiles"].values()
    for page in shown:
        assert_harmless(page)


@pytest.mark.parametrize("text", HOSTILE)
def test_pictures_with_hostile_texts_are_valid_svg_without_scripts(text: str) -> None:
    state, _ = hostile_cluster(text)
    picture = Pages(state, "c").picture(state.cards["n1"].group)
    assert picture is not None
    assert_harmless(picture)
    tags = {element.tag.partition("}")[2] for element in ET.fromstring(picture).iter()}  # noqa: S314
    assert tags <= {"svg", "rect", "text", "line", "circle", "g"}


def test_a_picture_of_a_group_that_does_not_exist_is_missing() -> None:
    assert Pages(cluster(), "c").picture("x") is None


def test_long_texts_are_cut_and_markup_stays() -> None:
    assert clean("y" * 300_000) == "y" * (LONGEST - 3) + "..."
    assert clean(Markup("<b>")) == Markup("<b>")
    assert clean(7) == 7
