"""The format of a text is found by its content."""

import json
from typing import Any

import pytest

from gputopo.api.topology import to_spec
from gputopo.catalogue import named
from gputopo.topology.model import TopologyError
from gputopo_topologies.load import parse, parse_document

SUMMIT = named("summit", node="n1")


def published(**changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gputopo.io/v1alpha1",
        "kind": "GPUTopology",
        "metadata": {"name": "n1", "generation": 3},
        "spec": to_spec(SUMMIT).to_json(),
        "status": {"fingerprint": "f"},
    } | changes


def listed(*items: object, kind: str = "List") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


@pytest.mark.parametrize(
    "document",
    [published(), listed(published()), listed(published(), kind="GPUTopologyList")],
)
def test_a_published_object_is_the_topology_of_its_node(document: dict[str, Any]) -> None:
    assert parse(f"\n  {json.dumps(document)}\n", "n1.json") == SUMMIT
    assert parse_document(document, "n1.json") == SUMMIT


def test_json_without_kind_is_a_handwritten_topology() -> None:
    assert len(parse('{"gpus": 3}', "mine.json").gpus) == 3


def test_a_matrix_is_a_recording() -> None:
    assert len(parse("GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n", "topo.txt").links) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is neither a JSON object nor output of `nvidia-smi topo -m`"),
        ("gpus: 3", "is neither a JSON object nor output of `nvidia-smi topo -m`"),
        ("[]", "is neither a JSON object nor output of `nvidia-smi topo -m`"),
        ('{"gpus": 3', "line 1, column 11: is not JSON: Expecting ',' delimiter"),
        ('{\n"gpus": three}', "line 2, column 9: is not JSON: Expecting value"),
        (f'{{"gpus": {"1" * 5000}}}', "is JSON that cannot be parsed: Exceeds the limit"),
        ('{"a":' * 100_000, "is JSON that cannot be parsed: "),
    ],
)
def test_other_text_is_rejected(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as rejected:
        parse(text, "file")
    assert str(rejected.value).startswith(f"file: {message}")
    assert "\n" not in str(rejected.value)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "Pod"}, "kind: 'Pod' is neither GPUTopology nor a list with one"),
        ({"kind": None}, "kind: None is neither GPUTopology nor a list with one"),
        (listed(), "items: 0 objects, not one GPUTopology; give kubectl a node's name"),
        (
            {"kind": "List"},
            "items: 0 objects, not one GPUTopology; give kubectl a node's name",
        ),
        (listed(published(), published()), "items: 2 objects, not one GPUTopology; give"),
        (listed({"kind": "Pod"}), "kind: 'Pod' is neither GPUTopology nor a list with one"),
        (listed(7), "kind: 7 is neither GPUTopology nor a list with one"),
        (published(spec=None), "spec: None: Input should be a valid dictionary"),
        (published(spec={"gpus": [{}]}), "spec.gpus[0].uuid: is required"),
        (
            published(spec=to_spec(SUMMIT).to_json() | {"links": []}),
            "links[]: (0, 1) is missing",
        ),
    ],
)
def test_other_objects_are_rejected(document: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError) as rejected:
        parse_document(document, "n1")
    assert str(rejected.value).startswith(f"n1: {message}")
