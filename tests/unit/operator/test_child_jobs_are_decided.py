"""Whether the operator creates, patches or leaves the child Job, and how it counts failed pods."""

from dataclasses import replace

from gputopo_operator.model.jobs import ReconcilePlan, WriteErrors
from support.builders.gpujobs import exited
from support.operator.cluster_states import Situation
from support.operator.gpujob_states import (
    LATER,
    child_lost,
    failed,
    queued,
    reconciled,
    running,
    started,
)


def test_deleted_child_job_is_created_again() -> None:
    case = child_lost(running())
    plan = case.plan()
    assert plan.create_job is not None
    assert [event.reason for event in plan.events] == ["JobCreated"]


def test_finished_job_is_not_created_again_when_another_job_has_its_name() -> None:
    case = reconciled(running().job_ended("Complete", "CompletionsReached"))
    assert case.child is not None
    case.child["metadata"] |= {"uid": "uid-other", "ownerReferences": []}
    assert case.plan() == ReconcilePlan()


def test_failures_after_the_end_are_not_counted() -> None:
    case = reconciled(running().job_ended("Complete", "CompletionsReached"))
    case.pod("train-2", **exited(1))
    assert case.reconcile().failed_pods == ()
    assert case.status.failures.application == 0


def test_finished_job_is_not_patched() -> None:
    case = running().job_ended("Complete", "CompletionsReached")
    case.job["spec"]["suspend"] = True
    assert case.plan().job_patch is None


def test_child_job_that_is_being_deleted_is_not_patched() -> None:
    case = running()
    assert case.child is not None
    case.child["metadata"]["deletionTimestamp"] = LATER
    case.job["spec"]["suspend"] = True
    assert case.plan().job_patch is None


def test_deleted_gpujob_is_left_to_the_garbage_collector() -> None:
    case = Situation()
    case.job["metadata"]["deletionTimestamp"] = LATER
    assert case.plan() == ReconcilePlan()


def test_permanently_rejected_job_is_created_again_only_after_a_change_of_the_spec() -> None:
    case = Situation()
    case.errors = WriteErrors(job="unknown field", job_is_permanent=True)
    case.reconcile()
    assert case.condition("Accepted") == ("False", "JobRefused")
    assert case.plan().create_job is None
    case.job["metadata"]["generation"] = 2
    assert case.plan().create_job is not None


def test_forbidden_job_is_created_again_later() -> None:
    case = Situation()
    case.errors = WriteErrors(job="exceeded quota")
    plan = case.plan()
    case.write(replace(plan, create_job=None))
    case.errors = WriteErrors()
    assert plan.recheck_after_seconds is not None
    assert case.condition("Accepted") == ("False", "JobForbidden")
    assert case.plan().create_job is not None


def test_failed_pod_is_counted_once_also_after_its_deletion() -> None:
    case = started().pod(**exited(1))
    case.reconcile()
    assert case.status.failed_pod_uids == ["uid-train-1"]
    case.pods = []
    case.reconcile()
    assert case.status.failures.application == 1
    assert case.status.failed_pod_uids == []


def test_failures_of_an_earlier_child_job_stay_counted_once() -> None:
    case = started().pod(**exited(1))
    case.reconcile()
    case.child = None
    case.reconcile()
    assert case.children == 2
    assert case.status.failures.application == 1


def test_pod_with_the_label_that_the_child_job_does_not_own_is_ignored() -> None:
    case = started().pod(**exited(1))
    case.pods[0]["metadata"]["ownerReferences"] = []
    case.reconcile()
    assert case.status.failures.application == 0


def test_job_above_its_limit_is_ended_by_a_backoff_limit_of_0() -> None:
    case = failed(2)
    assert case.plan().job_patch == {
        "metadata": {"uid": "uid-job-1", "resourceVersion": "6"},
        "spec": {"backoffLimit": 0},
    }


def test_failed_pods_without_a_failure_raise_the_limit_of_the_child_job() -> None:
    case = started(limits={"backoffLimit": 2, "maxAdmissionRetries": 3})
    assert case.child is not None
    before = case.child["spec"]["backoffLimit"]
    case.child["status"] = {"failed": 4}
    case.pod(**exited(1))
    patch = case.plan().job_patch
    assert patch is not None
    assert patch["spec"] == {"backoffLimit": before + 3}


def test_suspension_of_a_queued_job_reports_that_the_queue_decides() -> None:
    case = queued(suspended=False)
    case.job["spec"]["suspend"] = True
    plan = case.plan()
    assert plan.job_patch is None
    case.reconcile()
    (condition,) = [each for each in case.status.conditions if each.type == "Suspended"]
    assert "spec.suspend has no effect" in condition.message


def test_owner_reference_does_not_block_deletion() -> None:
    manifest = Situation().plan().create_job
    assert manifest is not None
    [owner] = manifest["metadata"]["ownerReferences"]
    assert owner["blockOwnerDeletion"] is False


def test_rejected_change_of_the_child_job_is_reported_beside_the_status() -> None:
    case = failed(2)
    case.errors = WriteErrors(job_patch="denied by policy")
    plan = case.plan()
    assert plan.status is not None
    assert plan.status.phase == "Failed"
    assert plan.events[-1].reason == "JobNotUpdated"
    assert plan.events[-1].note == (
        "Job train was not changed to {'backoffLimit': 0}: denied by policy"
    )
    assert plan.recheck_after_seconds == 60.0


def test_conditions_of_the_child_job_that_are_no_result_do_not_end_the_job() -> None:
    case = running().job_ended("Suspended", "JobSuspended")
    assert case.plan() == ReconcilePlan()
