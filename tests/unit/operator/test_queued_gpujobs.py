"""Decisions on GPUJobs of an installation with gputopo's queue, and without it."""

from gputopo.api.v1alpha1 import QueueStatus
from gputopo_operator.parse.jobs import QUEUE_LABEL
from support.operator.cluster_states import Situation

PLACE = {"position": 3, "reason": "waits", "waitingSince": "2026-01-01T00:00:00Z"}


def queued(**spec: object) -> Situation:
    situation = Situation(**spec)
    situation.queued = True
    situation.reconcile()
    return situation


def suspend(situation: Situation, value: bool) -> None:  # noqa: FBT001
    assert situation.child is not None
    situation.child["spec"]["suspend"] = value


def suspended(situation: Situation) -> bool:
    assert situation.child is not None
    return bool(situation.child["spec"]["suspend"])


def test_child_job_is_created_suspended_and_only_the_queue_starts_it() -> None:
    situation = queued()
    assert suspended(situation)
    assert situation.condition("Suspended") == ("True", "Queued")
    assert situation.condition("Placed") == ("False", "Suspended")
    assert situation.status.phase == "Queued"


def test_started_job_is_not_suspended() -> None:
    situation = queued()
    suspend(situation, False)
    situation.reconcile()
    assert not suspended(situation)
    assert situation.condition("Suspended") == ("False", "Admitted")
    assert situation.status.phase == "Pending"


def test_user_suspends_a_started_job_which_then_waits_again() -> None:
    situation = queued()
    suspend(situation, False)
    situation.job["spec"]["suspend"] = True
    situation.reconcile()
    assert suspended(situation)
    assert situation.condition("Suspended") == ("True", "SuspendedByUser")
    assert situation.status.phase == "Suspended"
    situation.job["spec"]["suspend"] = False
    situation.reconcile()
    assert suspended(situation)
    assert situation.condition("Suspended") == ("True", "Queued")


def test_place_in_the_queue_is_kept_while_the_installation_has_a_queue() -> None:
    situation = queued()
    situation.job["status"]["queue"] = PLACE
    situation.reconcile()
    assert situation.status.queue == QueueStatus.model_validate(PLACE)
    situation.queued = False
    situation.reconcile()
    assert situation.status.queue is None


def test_waiting_jobs_start_when_the_queue_is_turned_off() -> None:
    situation = queued()
    situation.queued = False
    situation.reconcile()
    assert not suspended(situation)
    assert situation.condition("Suspended") == ("False", "NotSuspended")


def test_job_under_kueue_is_left_to_kueue() -> None:
    situation = queued(labels={QUEUE_LABEL: "research"})
    assert situation.condition("Suspended") == ("True", "SuspendedByQueue")
    suspend(situation, False)
    situation.reconcile()
    assert situation.condition("Suspended") == ("False", "AdmittedByQueue")


def test_finished_job_does_not_wait() -> None:
    situation = queued()
    suspend(situation, False)
    situation.job_ended("Complete", "CompletionsReached").reconcile()
    assert situation.condition("Suspended") == ("False", "Finished")
