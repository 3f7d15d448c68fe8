"""The objects of the examples in the guide are what the extender writes."""

import json
import os
from pathlib import Path

import pytest

from gputopo.api.known_facts import FactsAnnotation, KnownSlowdown
from gputopo.api.names import FACTS_ANNOTATION
from gputopo.api.replay import RecordedNodes
from gputopo.catalogue import named
from support.builders.objects import Document, topology_object
from support.explain.placed import altered, of_an_older_version, placed_pod

FOLDER = Path(__file__).parents[2] / "data/explain"
TOPOLOGY = named("dgx1-v100", node="n1")
FACTS = FactsAnnotation(
    profile="bert",
    source="Measured",
    links={3: KnownSlowdown(percent=45, low=40, high=50, samples=8)},
)
NODES = RecordedNodes(
    compared=5, fitted=3, better=0, equal=1, score=10, misfits={"busy": 1, "no_topology": 1}
)


def objects() -> dict[str, Document]:
    annotations = {FACTS_ANNOTATION: FACTS.dump()}
    train = placed_pod(3, busy=[0, 3, 6], topology=TOPOLOGY, annotations=annotations, nodes=NODES)
    node = topology_object("n1", TOPOLOGY, used_by=dict.fromkeys([4, 5, 7], "uid-train"))
    message = "Allocate failed: GPU 4 of the annotation is unhealthy: XID 79"
    rejected = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}
    return {
        "train.json": train,
        "rejected.json": train | {"status": rejected},
        "node.json": node,
        "older.json": of_an_older_version(train),
        "altered.json": altered(train, replay={"free": [1, 2, 4, 6, 7]}),
    }


@pytest.mark.parametrize("name", objects())
def test_saved_object_is_what_the_extender_writes(name: str) -> None:
    text = json.dumps(objects()[name], indent=1) + "\n"
    if os.environ.get("GPUTOPO_WRITE"):
        (FOLDER / name).write_text(text)
    assert (FOLDER / name).read_text() == text
