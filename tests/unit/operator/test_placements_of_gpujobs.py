"""The status of a GPUJob shows the placed pod, its GPUs and their bandwidths."""

import json

from gputopo.api.names import PLACEMENT_ANNOTATION
from gputopo.api.utility import UtilityFigures
from gputopo.api.v1alpha1 import JobPlacement
from gputopo_operator.decision.placements import describe
from gputopo_operator.model.jobs import ReconcilePlan
from support.builders.gpujobs import GPUS, exited
from support.operator.gpujob_states import running, started


def test_job_without_its_pod_is_not_placed() -> None:
    case = running()
    case.pods = []
    case.reconcile()
    assert case.condition("Placed") == ("False", "NoPod")
    assert case.status.placements == []


def test_job_without_a_pod_refers_to_the_events_of_the_child_job() -> None:
    case = started()
    case.reconcile()
    (placed,) = (each for each in case.status.conditions if each.type == "Placed")
    assert (
        placed.message == "the Job has no pod yet; see the events of `kubectl describe job train`"
    )


def test_failed_pod_is_not_placed_while_another_pod_follows() -> None:
    case = running(limits={"backoffLimit": 1}).pod(node="n1", gpus=GPUS, **exited(1))
    case.reconcile()
    assert case.condition("Placed") == ("False", "NoPod")
    case.pod("train-0", node="n2", gpus=GPUS, created="2026-01-01T02:00:00Z", **exited(1))
    case.reconcile()
    assert case.status.phase == "Failed"
    assert [place.pod for place in case.status.placements] == ["train-0"]


def test_pod_that_replaces_a_failed_pod_is_the_placed_pod() -> None:
    case = running().pod(**exited(1)).pod("train-0", node="n2", gpus=GPUS, phase="Running")
    case.reconcile()
    assert [place.pod for place in case.status.placements] == ["train-0"]


def test_observed_gpus_are_in_rank_order_and_stay_after_the_end() -> None:
    case = running()
    case.observed = {"uid-train-1": tuple(reversed(GPUS))}
    case.reconcile()
    assert case.status.placements[0].observed == list(GPUS)
    case.observed = {}
    case.job_ended("Complete", "CompletionsReached").reconcile()
    assert case.status.placements[0].observed == list(GPUS)


def test_gpus_of_some_containers_only_are_no_difference() -> None:
    case = running()
    case.observed = {"uid-train-1": GPUS[:1]}
    assert case.reconcile().events == ()
    assert case.condition("Placed") == ("True", "Bound")


def test_other_gpus_than_chosen_are_reported_once() -> None:
    case = running()
    case.observed = {"uid-train-1": ("GPU-4", "GPU-5", "GPU-6")}
    (event,) = case.reconcile().events
    assert (event.type, event.reason) == ("Warning", "ObservedDiffers")
    assert "GPU-6" in event.note
    assert case.condition("Placed") == ("True", "ObservedDiffers")


def test_placement_event_has_node_gpus_and_bandwidths() -> None:
    plan = started().pod(node="n1", gpus=GPUS).reconcile()
    (event,) = plan.events
    assert event.reason == "Placed"
    assert event.note == (
        "pod train-1 on node n1: GPUs GPU-4, GPU-5, GPU-7; effective 44.1 GB/s (eq2); "
        "aggregate 100 GB/s; placed as Sensitive (Declared)"
    )


def test_placement_names_the_fact_that_decided_the_sensitivity() -> None:
    fact = "GPUProfile bert: 45 % (40..50) slower on the worst links, 8 samples"
    situation = started().pod(node="n1", gpus=GPUS)
    annotations = situation.pods[0]["metadata"]["annotations"]
    decided = json.loads(annotations[PLACEMENT_ANNOTATION]) | {"reason": "Profile", "fact": fact}
    annotations[PLACEMENT_ANNOTATION] = json.dumps(decided)
    situation.reconcile()
    (place,) = situation.status.placements
    assert place.sensitivity == f"Sensitive ({fact})"
    [placed] = [each for each in situation.status.conditions if each.type == "Placed"]
    assert placed.message.endswith(f"placed as Sensitive ({fact})")


def test_placement_event_of_one_gpu_has_no_bandwidths() -> None:
    (event,) = started().pod(node="n1", gpus=("GPU-4",)).reconcile().events
    assert event.note == "pod train-1 on node n1: GPUs GPU-4"


def test_annotation_of_another_pod_does_not_count() -> None:
    case = started().pod(node="n1", gpus=GPUS)
    case.pods[0]["metadata"]["uid"] = "uid-copy"
    case.reconcile()
    assert case.status.placements == []


def test_placement_without_figures_has_no_bandwidths() -> None:
    case = started().pod(node="n1", gpus=GPUS)
    case.pods[0]["metadata"]["annotations"].pop(PLACEMENT_ANNOTATION)
    (event,) = case.reconcile().events
    assert event.note == "pod train-1 on node n1: GPUs GPU-4, GPU-5, GPU-7"
    case.pods[0]["metadata"]["annotations"][PLACEMENT_ANNOTATION] = "{"
    assert case.plan() == ReconcilePlan()


def test_placement_by_utility_is_described_with_its_utility() -> None:
    figures = UtilityFigures(
        utility=700,
        job_utility=800,
        communication=1000,
        interference=500,
        suffered=600,
        fragmentation=600,
    )
    place = JobPlacement(pod="p", pod_uid="u", node="n1", intended=["GPU-1"], utility=figures)
    assert describe(place) == f"pod p on node n1: GPUs GPU-1; utility {figures}"
    assert describe(place.model_copy(update={"utility": None})) == "pod p on node n1: GPUs GPU-1"


def test_placement_names_the_learnt_pattern() -> None:
    place = JobPlacement(
        pod="p",
        pod_uid="u",
        node="n1",
        intended=["GPU-1", "GPU-2"],
        pattern="Star",
        pattern_fact="GPUProfile bert: Star, seen in 90 % of 30 windows",
    )
    assert describe(place) == (
        "pod p on node n1: GPUs GPU-1, GPU-2; "
        "pattern Star (GPUProfile bert: Star, seen in 90 % of 30 windows)"
    )
