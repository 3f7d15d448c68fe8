"""The condition Postponed of a GPUJob shows whether its pod waits for a better placement."""

from gputopo.api.names import POSTPONED_ANNOTATION
from gputopo.api.waiting import PostponedAnnotation, WaitEnd
from gputopo_operator.decision.conditions import find
from gputopo_operator.model.jobs import ReconcilePlan
from support.builders.gpujobs import GPUS
from support.operator.cluster_states import Situation

RECORD = PostponedAnnotation(
    uid="uid-train-1",
    value="utility",
    since="2026-01-01T12:00:00Z",
    until="2026-01-01T12:10:00Z",
    minimum_permille=700,
    now_permille=450,
    then_permille=1000,
)


def waiting() -> Situation:
    situation = Situation(placement={"maxWaitSeconds": 600})
    situation.reconcile()
    situation.pod("train-1")
    annotate(situation, RECORD)
    return situation


def postponed() -> Situation:
    situation = waiting()
    situation.reconcile()
    return situation


def annotate(situation: Situation, record: PostponedAnnotation) -> None:
    annotations = situation.pods[-1]["metadata"].setdefault("annotations", {})
    annotations[POSTPONED_ANNOTATION] = record.dump()


def notes(plan: ReconcilePlan, reason: str) -> list[str]:
    return [event.note for event in plan.events if event.reason == reason]


def message(situation: Situation) -> str:
    found = find(situation.status.conditions, "Postponed")
    assert found is not None
    return found.message


def test_pod_template_has_the_longest_wait() -> None:
    situation = postponed()
    assert situation.child is not None
    template = situation.child["spec"]["template"]
    assert template["metadata"]["annotations"]["gputopo.io/max-wait-seconds"] == "600"


def test_condition_and_event_show_what_the_pod_waits_for() -> None:
    situation = waiting()
    events = notes(situation.reconcile(), "Postponed")
    assert situation.condition("Postponed") == ("True", "WaitingForPlacement")
    assert message(situation) == (
        "pod train-1 has been waiting since 2026-01-01T12:00:00Z: waiting for utility 0.7: 0.45 at "
        "first, 1 on idle GPUs; until 2026-01-01T12:10:00Z at most"
    )
    assert events == [message(situation)]
    assert notes(situation.reconcile(), "Postponed") == []


def test_condition_and_event_show_what_the_wait_gained() -> None:
    for expired, reason in ((False, "ValueReached"), (True, "MaxWaitExceeded")):
        situation = postponed()
        situation.pods.clear()
        situation.pod("train-1", node="n1", gpus=GPUS, phase="Running")
        annotate(situation, RECORD.ended(WaitEnd(seconds=37, permille=910, expired=expired)))
        events = notes(situation.reconcile(), "PostponementEnded")
        assert situation.condition("Postponed") == ("False", reason)
        assert message(situation).startswith("waited 37 s for utility 0.7: got 0.91")
        assert events == [message(situation)]
        assert notes(situation.reconcile(), "PostponementEnded") == []


def test_pod_of_another_scheduler_that_was_bound_without_an_end_waits_no_more() -> None:
    situation = postponed()
    situation.pods.clear()
    situation.pod("train-1", node="n1", gpus=GPUS, phase="Running")
    annotate(situation, RECORD)
    assert notes(situation.reconcile(), "PostponementEnded") == []
    assert situation.condition("Postponed") == ("False", "NoPodWaits")


def test_deleted_pod_waits_no_more() -> None:
    situation = postponed()
    situation.pods.clear()
    assert notes(situation.reconcile(), "PostponementEnded") == []
    assert situation.condition("Postponed") == ("False", "NoPodWaits")


def test_job_that_never_waited_has_no_condition() -> None:
    situation = Situation()
    situation.reconcile()
    situation.pod("train-1", node="n1", gpus=GPUS, phase="Running")
    situation.reconcile()
    assert "Postponed" not in {each.type for each in situation.status.conditions}
