"""The recorded input gives the same choice again, and altered input is reported."""

import dataclasses
import json
from typing import Any

import pytest

from gputopo.api.known_facts import FactsAnnotation, KnownPattern, KnownSlowdown
from gputopo.api.names import FACTS_ANNOTATION, GPUS_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo.catalogue import named
from gputopo.topology.model import GpuUuid
from gputopo_cluster.topologies import GpuNode, UnreadableTopology
from gputopo_explain.placed.recorded import NO_RECORD, recorded_placement
from gputopo_explain.placed.replay import NO_TOPOLOGY, Replay, ReplayVerdict, replay
from gputopo_kube.pods import parse_pod
from support.builders.objects import Document, container
from support.explain.placed import DGX1, altered, gpu_node, of_an_older_version, placed_pod

PAIR = placed_pod(2, busy=[0, 3])
CUSTOM = placed_pod(
    3,
    annotations={
        "gputopo.io/pattern": "Custom",
        "gputopo.io/edges": json.dumps(
            [{"from": 0, "to": 1, "weight": 9}, {"from": 1, "to": 2, "weight": 1}]
        ),
        "gputopo.io/policy": "Greedy",
    },
)
FACTS = FactsAnnotation(
    profile="bert",
    source="Measured",
    links={2: KnownSlowdown(percent=45, low=40, high=50, samples=8)},
)
MEASURED = placed_pod(2, annotations={FACTS_ANNOTATION: FACTS.dump()})
LEARNT = placed_pod(
    3,
    annotations={
        FACTS_ANNOTATION: FactsAnnotation(
            profile="bert",
            source="Counters",
            links={3: KnownSlowdown.by_counters(4, 3)},
            patterns={3: KnownPattern(kind="Star", confidence=900, windows=30)},
        ).dump()
    },
)
FACT = {
    "profile": "bert",
    "source": "Measured",
    "slowdown": {"percent": 4, "low": 2, "high": 6, "samples": 8},
}


def replayed(
    document: Document,
    node: GpuNode | UnreadableTopology | None = None,
    *,
    same_gpus: bool = True,
) -> Replay:
    recorded = recorded_placement(parse_pod(document))
    return replay(recorded, node or gpu_node(), same_gpus=same_gpus)


@pytest.mark.parametrize(
    "document",
    [
        PAIR,
        CUSTOM,
        MEASURED,
        LEARNT,
        placed_pod(1),
        placed_pod(8),
        placed_pod(4, annotations={"gputopo.io/bandwidth-sensitivity": "Insensitive"}),
        placed_pod(containers=[container("a", 1), container("b", 2)]),
    ],
)
def test_replay_of_the_recorded_input_gives_the_same_choice(document: Document) -> None:
    found = replayed(document)
    assert (found.verdict, found.reasons) == (ReplayVerdict.SAME, ())
    assert found.match is not None
    assert found.input is not None
    assert found.match.gpus == found.input.chosen


def test_chosen_gpus_that_the_replay_does_not_choose_are_reported() -> None:
    found = replayed(altered(PAIR, replay={"gpus": [1, 6]}))
    assert found.verdict is ReplayVerdict.DIFFERENT
    [reason] = found.reasons
    assert reason.startswith("GPUs: recorded 1, 6; the replay chooses ")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"replay": {"free": [1, 6]}}, "GPUs: "),
        ({"replay": {"free": [1, 9]}}, "free: GPU 9 is not in the topology"),
        ({"replay": {"free": [1]}}, "with the recorded input the pod does not fit: needs 2 GPUs"),
        ({"replay": {"size": 3}}, "GPUs: "),
        ({"pattern": "Custom"}, "edges: a Custom pattern needs at least one edge"),
        ({"policy": "Weakest"}, "GPUs: "),
        ({"sensitive": False}, "sensitivity: recorded Insensitive (SensitivityUnknown); "),
        ({"replay": {"declared": "Insensitive"}}, "sensitivity: recorded Sensitive ("),
        ({"model": "physical"}, "GPUs: "),
        ({"effectiveMBps": 1}, "effectiveMBps: recorded 1; "),
        ({"effectiveMBps": None}, "effectiveMBps: recorded None; the replay computes "),
        ({"aggregateMBps": 1}, "aggregateMBps: recorded 1; "),
        ({"preservedMBps": 1}, "preservedMBps: recorded 1; "),
        ({"physicalBestMBps": 1}, "physicalBestMBps: recorded 1; "),
        ({"exact": False}, "exact: recorded False; the replay computes True"),
    ],
)
def test_altered_input_is_reported(change: dict[str, Any], reason: str) -> None:
    found = replayed(altered(PAIR, **change))
    assert found.verdict is ReplayVerdict.DIFFERENT
    assert found.reasons[0].startswith(reason)


def test_altered_edges_are_reported() -> None:
    found = replayed(altered(CUSTOM, replay={"edges": [[0, 2, 9], [1, 2, 1]]}))
    assert found.verdict is ReplayVerdict.DIFFERENT


def test_altered_fact_that_changes_the_sensitivity_is_reported() -> None:
    found = replayed(altered(MEASURED, replay={"fact": FACT}))
    assert found.verdict is ReplayVerdict.DIFFERENT
    assert found.reasons == (
        (
            "sensitivity: recorded Sensitive (Profile); from the recorded declaration and fact it "
            "follows Insensitive (Profile)"
        ),
    )


def test_model_of_a_node_that_it_does_not_support_is_reported() -> None:
    a100 = named("dgx-a100", node="n1")
    found = replayed(altered(placed_pod(2, topology=a100), model="eq2"), gpu_node(a100))
    assert found.verdict is ReplayVerdict.DIFFERENT
    assert found.reasons[0].startswith("model: eq2 cannot be used here")


def with_uuids(document: Document, uuids: list[str], generation: int = 1) -> Document:
    annotations = document["metadata"]["annotations"]
    gpus = json.loads(annotations[GPUS_ANNOTATION])
    gpus |= {"containers": {"main": uuids}, "generation": generation}
    changed = annotations | {GPUS_ANNOTATION: json.dumps(gpus)}
    return {**document, "metadata": {**document["metadata"], "annotations": changed}}


def test_altered_uuids_are_reported() -> None:
    other = with_uuids(PAIR, [DGX1.gpus[5].uuid, DGX1.gpus[0].uuid])
    found = replayed(other)
    assert found.verdict is ReplayVerdict.DIFFERENT
    assert found.reasons[0].startswith(f"UUIDs: recorded {DGX1.gpus[5].uuid}, ")


def test_replaced_gpu_of_the_node_makes_the_comparison_of_uuids_unknown() -> None:
    gpus = [dataclasses.replace(gpu, uuid=GpuUuid(f"GPU-new-{gpu.index}")) for gpu in DGX1.gpus]
    replaced = dataclasses.replace(DGX1, gpus=tuple(gpus))
    found = replayed(PAIR, gpu_node(replaced, generation=2))
    assert found.verdict is ReplayVerdict.UNKNOWN
    assert found.match is not None
    assert found.reasons[0].startswith(
        "the node's GPUs changed since: generation 1, now 2; UUIDs: recorded "
    )


def test_topology_of_a_file_without_uuids_is_enough_for_a_replay() -> None:
    assert (
        replayed(PAIR, gpu_node(named("dgx1-v100", node="file"))).verdict is ReplayVerdict.DIFFERENT
    )
    found = replayed(PAIR, gpu_node(named("dgx1-v100", node="file")), same_gpus=False)
    assert found.verdict is ReplayVerdict.SAME


def test_changed_structure_makes_the_result_unknown() -> None:
    found = replayed(PAIR, gpu_node(named("pcie-8gpu", node="n1")))
    assert found.verdict is ReplayVerdict.UNKNOWN
    assert found.reasons[0].startswith(
        "the GPUs or links of the node have changed since: fingerprint "
    )


def test_missing_topology_makes_the_result_unknown() -> None:
    found = replay(recorded_placement(parse_pod(PAIR)), None)
    assert (found.verdict, found.reasons) == (ReplayVerdict.UNKNOWN, (NO_TOPOLOGY,))


def test_invalid_topology_makes_the_result_unknown() -> None:
    found = replayed(PAIR, UnreadableTopology("n1", "links[]: (0, 1) is missing"))
    assert found.reasons == (
        "the GPUTopology of the node is not valid: links[]: (0, 1) is missing",
    )


def test_pod_of_an_older_version_has_no_known_input() -> None:
    older = of_an_older_version(PAIR)
    found = replayed(older)
    assert (found.verdict, found.reasons) == (ReplayVerdict.UNKNOWN, (NO_RECORD,))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"policy": "Oracle"}, "policy: 'Oracle' is unknown to this version of gputopo"),
        ({"pattern": "Torus"}, "pattern: 'Torus' is unknown to this version of gputopo"),
        ({"model": "eq9"}, "model: 'eq9' is unknown to this version of gputopo"),
        ({"replay": {"declared": "Maybe"}}, "declared: 'Maybe' is unknown to this version"),
        ({"replay": {"gpus": "all"}}, "gputopo.io/placement: replay.gpus: 'all': "),
        ({"aggregateMBps": "x"}, "gputopo.io/placement: aggregateMBps: 'x': "),
    ],
)
def test_values_of_a_newer_version_make_the_result_unknown(
    change: dict[str, Any], reason: str
) -> None:
    found = replayed(altered(PAIR, **change))
    assert found.verdict is ReplayVerdict.UNKNOWN
    assert found.reasons[0].startswith(reason)


@pytest.mark.parametrize("missing", [GPUS_ANNOTATION, PLACEMENT_ANNOTATION])
def test_pod_without_annotation_was_not_placed_by_gputopo(missing: str) -> None:
    kept = {key: text for key, text in PAIR["metadata"]["annotations"].items() if key != missing}
    document = {**PAIR, "metadata": {**PAIR["metadata"], "annotations": kept}}
    found = replayed(document)
    assert found.verdict is ReplayVerdict.UNKNOWN
    assert found.reasons == (f"the pod has no annotation {missing}: gputopo did not place the pod",)


def test_annotation_of_another_pod_is_not_used() -> None:
    copied = {**PAIR, "metadata": {**PAIR["metadata"], "uid": "uid-other"}}
    found = replayed(copied)
    assert found.verdict is ReplayVerdict.UNKNOWN
    assert found.reasons[0].startswith("gputopo.io/gpus: uid is uid-train, but ")
