"""The explanation of a placed pod: request, choices, other nodes, intended and observed GPUs."""

import json
from typing import Any

import pytest

from gputopo.api.known_facts import FactsAnnotation, KnownPattern, KnownSlowdown
from gputopo.api.names import FACTS_ANNOTATION, GPUS_ANNOTATION
from gputopo.api.replay import RecordedNodes
from gputopo.topology.model import GpuIndex
from gputopo_explain.placed.explanation import PlacedExplanation, PodGpu, explain_placed
from gputopo_explain.placed.nodes import node_sentences
from gputopo_explain.placed.replay import ReplayVerdict
from gputopo_explain.placed.request import UNKNOWN_SOURCE, RequestPart
from support.builders.objects import Document, container, topology_object
from support.explain.placed import DGX1, altered, of_an_older_version, placed_pod

PAIR = placed_pod(2, busy=[0, 3])
UNKNOWN = "nothing is known of the workload: a job of several GPUs is assumed to be sensitive"


def explained(document: Document, **observed: Any) -> PlacedExplanation:
    return explain_placed(document, topology_object("n1", DGX1, **observed))


def parts(document: Document) -> dict[str, RequestPart]:
    return {part.name: part for part in explained(document).request}


def annotated(document: Document, **annotations: str) -> Document:
    names = {f"gputopo.io/{name.replace('_', '-')}": text for name, text in annotations.items()}
    metadata = document["metadata"]
    return document | {"metadata": metadata | {"annotations": metadata["annotations"] | names}}


def test_parts_of_a_request_without_annotations_are_defaults() -> None:
    assert list(explained(PAIR).request) == [
        RequestPart("GPUs", "2", "containers of the pod: main 2"),
        RequestPart("pattern", "Ring", "default"),
        RequestPart("sensitivity", "Sensitive", UNKNOWN),
        RequestPart("policy", "Preserve", "default of the installation"),
    ]


@pytest.mark.parametrize(("usable", "allowed"), [({"usable": [4, 5]}, "4 5"), ({}, None)])
def test_gpus_that_kubelet_would_take_are_a_part_of_the_request(
    usable: dict[str, list[int]], allowed: str | None
) -> None:
    replayed = {"topologyManagerPolicy": "restricted", **usable}
    found = explained(altered(PAIR, replay=replayed))
    record = found.recorded.record
    assert record is not None
    gpus = allowed or " ".join(map(str, record.free))
    source = "kubelet's topologyManagerPolicy restricted"
    assert found.request[-1] == RequestPart("allowed GPUs", gpus, source)


def test_parts_of_a_request_name_their_annotations_and_the_gpujob() -> None:
    document = placed_pod(
        containers=[container("a", 2), container("b", 1)],
        annotations={
            "gputopo.io/pattern": "Custom",
            "gputopo.io/edges": '[{"from": 0, "to": 2, "weight": 3}, {"from": 1, "to": 2}]',
            "gputopo.io/bandwidth-sensitivity": "Insensitive",
            "gputopo.io/policy": "Greedy",
        },
    )
    document["metadata"]["labels"] = {"gputopo.io/job": "train"}
    by = "(set by GPUJob train)"
    assert list(explained(document).request) == [
        RequestPart("GPUs", "3", "containers of the pod: a 2, b 1"),
        RequestPart("pattern", "Custom", f"annotation gputopo.io/pattern {by}"),
        RequestPart("edges", "0-2:3 1-2:1", f"annotation gputopo.io/edges {by}"),
        RequestPart(
            "sensitivity", "Insensitive", f"annotation gputopo.io/bandwidth-sensitivity {by}"
        ),
        RequestPart("policy", "Greedy", f"annotation gputopo.io/policy {by}"),
    ]


@pytest.mark.parametrize(
    ("low", "high", "source"),
    [
        (
            40,
            50,
            (
                "GPUProfile bert: 45 % (40..50) slower on the worst links, 8 samples, Measured; "
                "the limit is 10 %"
            ),
        ),
        (
            4,
            60,
            (
                "GPUProfile bert: 45 % (4..60) slower on the worst links, 8 samples: "
                "too uncertain, the limit is 10 %: a job of several GPUs is assumed to be sensitive"
            ),
        ),
    ],
)
def test_sensitivity_names_the_fact_and_its_interval(low: int, high: int, source: str) -> None:
    fact = KnownSlowdown(percent=45, low=low, high=high, samples=8)
    facts = FactsAnnotation(profile="bert", source="Measured", links={2: fact})
    document = placed_pod(2, annotations={FACTS_ANNOTATION: facts.dump()})
    assert parts(document)["sensitivity"].source == source


LEARNT = FactsAnnotation(
    profile="bert",
    source="Counters",
    links={2: KnownSlowdown.by_counters(4, 3)},
    patterns={2: KnownPattern(kind="Star", confidence=900, windows=30)},
)


@pytest.mark.parametrize("declared", [{}, {"gputopo.io/pattern": "Auto"}])
def test_facts_of_counters_are_named(declared: dict[str, str]) -> None:
    document = placed_pod(2, annotations=declared | {FACTS_ANNOTATION: LEARNT.dump()})
    found = parts(document)
    assert found["pattern"] == RequestPart(
        "pattern", "Star", "GPUProfile bert: Star, seen in 90 % of 30 windows"
    )
    assert found["sensitivity"].source == (
        "GPUProfile bert: at most 4 % slower on the worst links by counters, 3 samples, Counters; "
        "the limit is 10 %"
    )


def test_pattern_auto_without_facts_is_the_default() -> None:
    document = placed_pod(2, annotations={"gputopo.io/pattern": "Auto"})
    assert parts(document)["pattern"] == RequestPart("pattern", "Ring", "default")


def test_pattern_that_was_set_to_auto_after_the_placement_is_reported() -> None:
    document = placed_pod(2, annotations={"gputopo.io/pattern": "Tree"})
    changed = parts(annotated(document, pattern="Auto"))["pattern"].changed
    assert changed.startswith("annotation gputopo.io/pattern is 'Auto' now")


def test_sensitivity_of_one_gpu_has_its_reason() -> None:
    assert parts(placed_pod(1))["sensitivity"].source == "one GPU uses no links"


def test_reason_of_a_newer_version_is_shown_unchanged() -> None:
    assert parts(altered(PAIR, reason="Guess"))["sensitivity"].source == "Guess"


def test_sources_of_a_pod_of_an_older_version_are_unknown() -> None:
    found = explained(of_an_older_version(PAIR))
    assert [part.source for part in found.request] == [
        "containers of the pod: main 2",
        UNKNOWN_SOURCE,
        UNKNOWN,
        UNKNOWN_SOURCE,
    ]
    assert (found.nodes, found.choices, found.differs) == (None, None, False)


def test_annotations_that_were_changed_after_the_placement_are_reported() -> None:
    changed = parts(annotated(PAIR, pattern="Tree", policy="Greedy", bandwidth_sensitivity="Auto"))
    after = "now: it was changed after the placement"
    assert changed["pattern"].changed == f"annotation gputopo.io/pattern is 'Tree' {after}"
    assert changed["policy"].changed == f"annotation gputopo.io/policy is 'Greedy' {after}"
    assert changed["sensitivity"].changed == ""


def test_removed_annotation_is_reported() -> None:
    document = placed_pod(2, annotations={"gputopo.io/pattern": "Tree"})
    del document["metadata"]["annotations"]["gputopo.io/pattern"]
    assert parts(document)["pattern"].changed == (
        "annotation gputopo.io/pattern was removed after the placement"
    )


def test_alternatives_state_what_each_would_have_cost() -> None:
    found = explained(PAIR).choices
    assert found is not None
    assert found.model == "eq2"
    assert (found.chosen.effective_difference, found.chosen.preserved_difference) == (0, 0)
    assert len(found.alternatives) == 3
    for other in found.alternatives:
        assert other.effective is not None
        assert found.chosen.effective is not None
        assert other.effective_difference == other.effective - found.chosen.effective
        assert other.effective_percent == pytest.approx(
            100 * other.effective_difference / found.chosen.effective
        )
        assert other.preserved_difference == other.preserved - found.chosen.preserved
        assert other.effective <= found.chosen.effective


def test_idle_node_shows_how_much_of_the_best_bandwidth_the_pod_reaches() -> None:
    # GPUs 0..3 of a DGX-1 have pairs with two NVLinks; 4 and 1 are connected over PCIe.
    found = explained(placed_pod(2, busy=[0, 2, 3, 5, 6, 7])).choices
    assert found is not None
    assert found.chosen.gpus == (1, 4)
    assert not found.alternatives
    assert found.idle.most_effective == found.idle.choice.effective
    assert found.chosen.effective is not None
    assert found.idle.most_effective is not None
    reached = 100 * found.chosen.effective / found.idle.most_effective
    assert found.idle.reached_percent == pytest.approx(reached)
    assert reached < 50


def test_one_gpu_has_no_effective_bandwidth_to_compare() -> None:
    found = explained(placed_pod(1)).choices
    assert found is not None
    assert (found.model, found.chosen.effective, found.idle.reached_percent) == (None, None, None)
    assert found.alternatives[0].effective_difference is None


def test_choices_are_shown_if_the_replay_differs() -> None:
    found = explained(altered(PAIR, aggregateMBps=1))
    assert (found.differs, found.replay.verdict) == (True, ReplayVerdict.DIFFERENT)
    assert found.choices is not None


def test_intended_and_observed_gpus_are_compared() -> None:
    chosen = json.loads(PAIR["metadata"]["annotations"][GPUS_ANNOTATION])["containers"]["main"]
    first, second = (DGX1.index_of[uuid] for uuid in chosen)
    found = explained(PAIR, used_by={first: "uid-train", 5: "uid-train", 0: "uid-other"})
    assert found.gpus == (
        PodGpu(chosen[0], 0, first, "main", "as intended"),
        PodGpu(chosen[1], 1, second, "main", "not observed"),
        PodGpu(DGX1.uuid_of[GpuIndex(5)], None, 5, None, "not intended"),
    )


def test_without_topology_the_intended_gpus_are_known_and_the_replay_is_not() -> None:
    found = explain_placed(PAIR, None)
    assert [gpu.index for gpu in found.gpus] == [None, None]
    assert found.replay.verdict is ReplayVerdict.UNKNOWN
    assert found.choices is None


def test_pod_that_gputopo_did_not_place_has_no_request() -> None:
    document = placed_pod(2)
    document["metadata"]["annotations"] = {}
    found = explained(document)
    assert (found.request, found.gpus, found.differs) == ((), (), False)


@pytest.mark.parametrize(
    ("nodes", "sentences"),
    [
        (
            RecordedNodes(compared=1, fitted=1, better=0, equal=0, score=10),
            ("n1 was the only node on which the pod fitted; score 10 of 10",),
        ),
        (
            RecordedNodes(
                compared=5, fitted=3, better=0, equal=1, score=10, misfits={"busy": 1, "new": 1}
            ),
            (
                "n1 was one of the 2 best of 3 nodes on which the pod fitted; score 10 of 10",
                "did not fit: 1 with too few free GPUs, 1 new",
            ),
        ),
        (
            RecordedNodes(compared=3, fitted=3, better=0, equal=0, score=10),
            ("n1 was the best of 3 nodes on which the pod fitted; score 10 of 10",),
        ),
        (
            RecordedNodes(compared=3, fitted=3, better=1, equal=0, score=9),
            (
                (
                    "1 of 3 nodes on which the pod fitted was better than n1, and kube-scheduler "
                    "preferred n1 for another reason, for example affinity; score 9 of 10"
                ),
            ),
        ),
        (
            RecordedNodes(compared=3, fitted=3, better=2, equal=0, score=8),
            (
                (
                    "2 of 3 nodes on which the pod fitted were better than n1, and kube-scheduler "
                    "preferred n1 for another reason, for example affinity; score 8 of 10"
                ),
            ),
        ),
    ],
)
def test_node_is_compared_with_the_others_in_words(
    nodes: RecordedNodes, sentences: tuple[str, ...]
) -> None:
    assert node_sentences("n1", nodes) == sentences
