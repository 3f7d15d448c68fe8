"""Any value in the annotations of a placed pod is explained or reported as unknown.

The admission policy protects the annotations, but an installation can be without the policy, and a
file can have any content.
"""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo.catalogue import named
from gputopo.utility.interference import RunningNeighbour
from gputopo.utility.surroundings import job_surroundings
from gputopo_cli.cluster.explain.documents import placed_document
from gputopo_cli.cluster.explain.placed import placed_lines
from gputopo_explain.placed.explanation import explain_placed
from gputopo_explain.placed.replay import ReplayVerdict
from gputopo_scheduling.surroundings import NodeSurroundings
from support.builders.objects import Document, topology_object
from support.builders.topologies import gpus
from support.explain.placed import placed_pod
from support.mapping import NOISY, QUIET, SLOWDOWNS
from support.property_settings import fuzzed, tried

SUMMIT = named("summit", node="n1")
NODE = topology_object("n1", SUMMIT)
EDGES = '[{"from": 0, "to": 1, "weight": 3}, {"from": 1, "to": 2}]'
PODS = (
    placed_pod(2, topology=SUMMIT, busy=[0]),
    placed_pod(1, topology=SUMMIT),
    placed_pod(
        3,
        topology=SUMMIT,
        annotations={"gputopo.io/pattern": "Custom", "gputopo.io/edges": EDGES},
    ),
    placed_pod(
        2,
        topology=SUMMIT,
        busy=[0],
        annotations={"gputopo.io/policy": "Utility"},
        surroundings=job_surroundings(QUIET, SLOWDOWNS, [SUMMIT]),
        running=NodeSurroundings((RunningNeighbour(NOISY, gpus(0)),)),
    ),
)
Words = st.sampled_from(
    [
        "Ring",
        "Custom",
        "Star",
        "Preserve",
        "Weakest",
        "Utility",
        "Measured",
        "Auto",
        "eq2",
        "physical",
        "Declared",
        "GPU-1",
    ]
)
Values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 70)
    | st.sampled_from([2**31, 2**64, -(10**400), 0.5, "", "\x00", "\x1b[31m"])
    | Words
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(Words | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def altered_pods(draw: st.DrawFn) -> Document:
    """Draw a placed pod with other values in one to three keys of its annotations."""
    document = copy.deepcopy(draw(st.sampled_from(PODS)))
    annotations = document["metadata"]["annotations"]
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from([PLACEMENT_ANNOTATION] * 4 + [GPUS_ANNOTATION]))
        value: Any = json.loads(annotations[name])
        target = value
        record = value.get("replay")
        if record and isinstance(record, dict):
            inner = record.get("utility") or record
            choices = [value, record, inner if isinstance(inner, dict) else record]
            target = draw(st.sampled_from(choices))
        target[draw(st.sampled_from(sorted(target)))] = draw(Values)
        annotations[name] = json.dumps(value)
    return document


@fuzzed
@given(document=altered_pods())
def test_any_record_is_replayed_or_reported(document: Document) -> None:
    tried("altered placements, by explain")
    found = explain_placed(document, NODE)
    assert found.replay.verdict in ReplayVerdict
    assert bool(found.replay.reasons) == (found.replay.verdict is not ReplayVerdict.SAME)
    assert list(placed_lines(found))
    json.dumps(placed_document(found), allow_nan=False)
