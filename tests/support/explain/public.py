"""The pods of public issues, placed by the extender's own code in the order of the issue."""

import csv
from pathlib import Path
from typing import Final

from gputopo.api.replay import RecordedNodes
from gputopo.topology.model import NodeTopology
from gputopo_cli.topology.load import load_topology
from gputopo_explain.placed.recorded import recorded_placement
from gputopo_kube.pods import parse_pod
from support.builders.objects import Document
from support.explain.placed import placed_pod

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = "examples/public-topologies"
CASES: Final = {
    "k8s-device-plugin-546": "txt",
    "dra-driver-214": "txt",
    "k8s-device-plugin-436": "txt",
    "k8s-device-plugin-1193": "json",
}
"""Names of the issues, and the form of their topology."""

ONE_NODE: Final = RecordedNodes(compared=1, fitted=1, better=0, equal=0, score=10)


def topology_of(case: str) -> NodeTopology:
    """Return the topology of an issue, with the UUIDs that the command line derives."""
    return load_topology(str(ROOT / FOLDER / f"{case}.{CASES[case]}")).topology


def placed_pods(case: str) -> list[Document]:
    """Return the pods of an issue; each stays when the next one comes."""
    topology, busy, pods = topology_of(case), set[int](), []
    with (ROOT / FOLDER / f"{case}.csv").open() as file:
        for row in csv.DictReader(file):
            document = placed_pod(
                int(row["gpus"]), name=row["id"], topology=topology, busy=busy, nodes=ONE_NODE
            )
            record = recorded_placement(parse_pod(document)).record
            assert record is not None
            busy.update(record.gpus)
            pods.append(document)
    return pods
