"""The explanation of a placement by utility: terms, costs, and the jobs beside the pod."""

from dataclasses import replace

import pytest

from gputopo.api.known_facts import FactsAnnotation
from gputopo.api.names import FACTS_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo.api.replay import RecordedNodes
from gputopo.catalogue import named
from gputopo.topology.model import GpuMask
from gputopo.utility.interference import (
    RunningNeighbour,
    SlowdownSource,
    SlowdownTable,
    WorkloadKind,
)
from gputopo.utility.surroundings import INSTALLATION_WEIGHTS, job_surroundings
from gputopo_explain.placed.explanation import PlacedExplanation, explain_placed
from gputopo_explain.placed.replay import ReplayVerdict
from gputopo_explain.placed.request import RequestPart
from gputopo_explain.placed.terms import BesideJob, UtilityTerm
from gputopo_scheduling.evaluation import MisfitKind
from gputopo_scheduling.surroundings import NodeSurroundings
from support.builders.objects import Document, topology_object
from support.explain.by_utility import OWN, pod_by_utility
from support.explain.placed import DGX1, altered, figures_of, placed_pod

MEASURED, ALL = SlowdownSource.MEASURED, SlowdownSource.ALL


def explained(document: Document) -> PlacedExplanation:
    return explain_placed(document, topology_object("n1", DGX1))


def test_terms_have_weights_costs_and_the_next_best_set() -> None:
    found = explained(pod_by_utility())
    assert found.replay.verdict is ReplayVerdict.SAME, found.replay.reasons
    assert found.choices is not None
    utility = found.choices.utility
    assert utility is not None
    assert utility.terms == (
        UtilityTerm("communication", 34, 1000, 1000, "path length 2; best 2, worst 104"),
        UtilityTerm(
            "interference", 33, 369, 265, "half the sum of the slowdowns 38 %; best 0 %, worst 60 %"
        ),
        UtilityTerm(
            "fragmentation", 33, 1000, 835, "free part of its sockets 0 %; best 0 %, worst 75 %"
        ),
    )
    assert (utility.chosen, utility.next_best, utility.for_job) == (792, 703, 598)
    assert utility.minimum_percent == 50


def test_jobs_beside_the_pod_are_those_that_count_the_worst_first() -> None:
    choices = explained(pod_by_utility()).choices
    assert choices is not None
    assert choices.utility is not None
    assert choices.utility.beside == (
        BesideJob("default/noisy", True, 24, MEASURED, 10, MEASURED),
        BesideJob("a workload without a known slowdown", True, 17, ALL, 17, ALL),
        BesideJob("default/far", False, 3, MEASURED, 0, MEASURED),
    )
    assert str(choices.utility.beside[2]) == (
        "default/far on another socket: slows the pod by 3 % (Measured), is slowed by 0 %"
        " (Measured)"
    )


def test_job_on_another_socket_without_a_measured_slowdown_does_not_count() -> None:
    document = pod_by_utility()
    utility = figures_of(document)["replay"]["utility"]
    del utility["neighbours"][0]["far"]
    choices = explained(altered(document, replay={"utility": utility})).choices
    assert choices is not None
    assert choices.utility is not None
    assert "default/far" not in {job.workload for job in choices.utility.beside}


def test_request_names_the_least_utility_and_its_annotation() -> None:
    annotation = "annotation gputopo.io/min-utility-percent"
    document = pod_by_utility()
    parts = {part.name: part for part in explained(document).request}
    assert parts["least utility"] == RequestPart("least utility", "50 %", annotation)
    document["metadata"]["annotations"]["gputopo.io/min-utility-percent"] = "70"
    changed = {part.name: part for part in explained(document).request}["least utility"]
    assert changed.changed == f"{annotation} is '70' now: it was changed after the placement"


def test_request_without_least_utility_has_no_such_part() -> None:
    assert all(
        part.name != "least utility" for part in explained(pod_by_utility(minimum=None)).request
    )


def test_last_free_gpus_have_no_next_best_set() -> None:
    document = placed_pod(2, busy=range(6), annotations={"gputopo.io/policy": "Utility"})
    choices = explained(document).choices
    assert choices is not None
    assert choices.utility is not None
    assert choices.utility.next_best is None
    assert choices.utility.terms[0].next_best is None


def test_record_without_surroundings_is_a_node_without_other_jobs() -> None:
    found = explained(placed_pod(2, annotations={"gputopo.io/policy": "Utility"}))
    assert found.replay.verdict is ReplayVerdict.SAME
    assert found.choices is not None
    assert found.choices.utility is not None
    assert found.choices.utility.beside == ()
    weights = tuple(term.weight_percent for term in found.choices.utility.terms)
    assert weights == INSTALLATION_WEIGHTS.percents


def test_pod_of_another_policy_has_no_utility() -> None:
    choices = explained(placed_pod(2)).choices
    assert choices is not None
    assert choices.utility is None
    assert choices.chosen.utility is None


def test_idle_node_has_the_utility_without_other_jobs() -> None:
    choices = explained(pod_by_utility()).choices
    assert choices is not None
    assert choices.idle.choice.utility == 782
    assert choices.chosen.utility == 792


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"weights": [50, 50, 50]}, "utility: weights: their sum is 1.5; must be 1"),
        ({"weights": [0, 100, 0]}, "utility: recorded "),
        ({"neighbours": []}, "utility: recorded "),
        ({"worstPercent": 100}, "utility: recorded "),
        ({"bestLength": 0}, "utility: recorded "),
    ],
)
def test_record_that_contradicts_the_figures_is_different(
    change: dict[str, object], reason: str
) -> None:
    document = pod_by_utility()
    utility = figures_of(document)["replay"]["utility"] | change
    found = explained(altered(document, replay={"utility": utility})).replay
    assert found.verdict is ReplayVerdict.DIFFERENT
    assert found.reasons[0].startswith(reason)


def test_recorded_surroundings_are_those_of_the_decision() -> None:
    decision = explained(pod_by_utility()).replay.input
    assert decision is not None
    assert decision.surroundings is not None
    assert len(decision.surroundings.neighbours) == 3
    assert decision.request.min_utility_percent == 50
    assert replace(decision.surroundings, neighbours=()).neighbours == ()


def test_largest_annotation_of_16_gpus_and_15_neighbours_stays_below_its_limit() -> None:
    """Each neighbour has a long name and is recorded with all GPUs of its socket."""
    topology = named("dgx-2", node="n1")
    names = [f"{'n' * 60}{number:02}/{'p' * 253}" for number in range(15)]
    kinds = [WorkloadKind(name) for name in names]
    table = {(OWN, each): 9.99 for each in kinds} | {(each, OWN): 9.99 for each in kinds}
    socket = GpuMask(0xFF00)
    running = tuple(RunningNeighbour(each, socket) for each in kinds)
    facts = FactsAnnotation.declared("p" * 253, 45)
    document = placed_pod(
        1,
        topology=topology,
        busy=range(1, 16),
        annotations={
            "gputopo.io/policy": "Utility",
            "gputopo.io/min-utility-percent": "0",
            FACTS_ANNOTATION: facts.dump(),
        },
        nodes=RecordedNodes(
            **dict.fromkeys(("compared", "fitted", "better", "equal"), 50_000),
            score=10,
            misfits=dict.fromkeys(MisfitKind, 50_000),
        ),
        surroundings=job_surroundings(OWN, SlowdownTable(table, table), [topology]),
        running=NodeSurroundings(running),
    )
    text = document["metadata"]["annotations"][PLACEMENT_ANNOTATION]
    assert len(figures_of(document)["replay"]["utility"]["neighbours"]) == 15
    assert len(text) <= 4096
