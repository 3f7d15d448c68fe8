"""The decision of the operator: a table of situations with the phase and conditions of each."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gputopo.api.names import (
    PLACEMENT_ANNOTATION,
    PROFILING_STATE_ANNOTATION,
    SENSITIVITY_ANNOTATION,
)
from gputopo.api.profile import GPUProfile, GPUProfileSpec
from gputopo.api.profiling import CpuAmounts, ProfilingState
from gputopo_operator.decision.decide import profile_to_read
from gputopo_operator.model import ReconcilePlan, WriteErrors
from gputopo_operator.parse import QUEUE_LABEL
from support.builders.gpujobs import (
    GPUS,
    exited,
    rejected_by_kubelet,
    template,
)
from support.operator.cluster_states import START, Situation

LATER = "2026-01-01T00:05:00Z"


def started(**spec: Any) -> Situation:
    """Return a GPUJob whose child Job has been created."""
    situation = Situation(**spec)
    situation.reconcile()
    return situation


def running(**spec: Any) -> Situation:
    """Return a GPUJob whose pod runs on its GPUs."""
    situation = started(**spec).pod(node="n1", gpus=GPUS, phase="Running")
    situation.observed = {"uid-train-1": GPUS}
    situation.reconcile()
    return situation


def _suspended_by_user() -> Situation:
    situation = running()
    situation.job["spec"]["suspend"] = True
    return situation


def _failed(times: int, **limits: int) -> Situation:
    situation = started(limits={"backoffLimit": 1, **limits})
    for number in range(times):
        situation.pod(f"train-{number}", **exited(1))
    return situation


def _rejected(times: int) -> Situation:
    situation = started(limits={"backoffLimit": 0, "maxAdmissionRetries": 1})
    for number in range(times):
        situation.pod(f"train-{number}", node="n1", **rejected_by_kubelet())
    return situation


def _disrupted() -> Situation:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    situation = started(limits={"backoffLimit": 0})
    return situation.pod(node="n1", **exited(137), conditions=[condition])


def _deleted_pod() -> Situation:
    situation = started(limits={"backoffLimit": 0}).pod(node="n1", **exited(137))
    situation.pods[0]["metadata"]["deletionTimestamp"] = LATER
    return situation


def _queued(*, suspended: bool) -> Situation:
    situation = Situation(labels={QUEUE_LABEL: "research"})
    situation.reconcile()
    assert situation.child is not None
    situation.child["spec"]["suspend"] = suspended
    return situation


def _not_owned() -> Situation:
    situation = started()
    assert situation.child is not None
    situation.job["metadata"]["uid"] = "uid-another"
    situation.job.pop("status")
    return situation


def _child_lost(situation: Situation) -> Situation:
    situation.child, situation.pods = None, []
    return situation


Expected = Mapping[str, tuple[str, str]]

TABLE: dict[str, tuple[Callable[[], Situation], str, Expected]] = {
    "a new job gets a child Job and waits": (
        Situation,
        "Pending",
        {"Accepted": ("True", "JobCreated"), "Placed": ("False", "NoPod")},
    ),
    "a pod without a node waits for the scheduler": (
        lambda: started().pod(),
        "Pending",
        {"Placed": ("False", "NotYetScheduled"), "Running": ("False", "NotPlaced")},
    ),
    "a bound pod is placed before kubelet reports its GPUs": (
        lambda: started().pod(node="n1", gpus=GPUS),
        "Placed",
        {"Placed": ("True", "Bound"), "Running": ("False", "Starting")},
    ),
    "a bound pod without chosen GPUs is not placed": (
        lambda: started().pod(node="n1"),
        "Pending",
        {"Placed": ("False", "NoGpusChosen")},
    ),
    "a pod runs on the chosen GPUs": (
        running,
        "Running",
        {"Placed": ("True", "Observed"), "Running": ("True", "PodRunning")},
    ),
    "a suspended job": (
        lambda: Situation(suspend=True),
        "Suspended",
        {"Suspended": ("True", "SuspendedByUser")},
    ),
    "a running job that is suspended": (
        _suspended_by_user,
        "Suspended",
        {"Suspended": ("True", "SuspendedByUser")},
    ),
    "a completed job": (
        lambda: running().job_ended("Complete", "CompletionsReached"),
        "Succeeded",
        {"Complete": ("True", "CompletionsReached"), "Running": ("False", "Finished")},
    ),
    "application failures within the limit": (
        lambda: _failed(1),
        "Pending",
        {"Failed": ("False", "WithinLimits")},
    ),
    "application failures above the limit": (
        lambda: _failed(2),
        "Failed",
        {"Failed": ("True", "BackoffLimitExceeded"), "Complete": ("False", "Failed")},
    ),
    "admission failures within the limit": (
        lambda: _rejected(1),
        "Pending",
        {"Failed": ("False", "WithinLimits")},
    ),
    "admission failures above the limit": (
        lambda: _rejected(2),
        "Failed",
        {"Failed": ("True", "AdmissionRetriesExceeded")},
    ),
    "a disrupted pod did not fail": (
        _disrupted,
        "Pending",
        {"Failed": ("False", "WithinLimits")},
    ),
    "a deleted pod did not fail": (
        _deleted_pod,
        "Pending",
        {"Failed": ("False", "WithinLimits")},
    ),
    "a deadline that the Job controller enforces": (
        lambda: running().job_ended("Failed", "DeadlineExceeded"),
        "Failed",
        {"Failed": ("True", "DeadlineExceeded")},
    ),
    "a job that its queue has not admitted": (
        lambda: _queued(suspended=True),
        "Suspended",
        {"Suspended": ("True", "SuspendedByQueue")},
    ),
    "a job that its queue has admitted": (
        lambda: _queued(suspended=False),
        "Pending",
        {"Suspended": ("False", "AdmittedByQueue")},
    ),
    "a Job of the same name that the GPUJob does not own": (
        _not_owned,
        "Refused",
        {"Accepted": ("False", "JobNameTaken"), "Placed": ("False", "NotAccepted")},
    ),
    "a completed job stays completed without its child Job": (
        lambda: _child_lost(_reconciled(running().job_ended("Complete", "CompletionsReached"))),
        "Succeeded",
        {"Complete": ("True", "CompletionsReached")},
    ),
    "a mode that needs CPUs in the template": (
        lambda: Situation(resources={"mode": "Auto"}),
        "Refused",
        {"Accepted": ("False", "SpecRefused")},
    ),
    "a template that contradicts the job": (
        lambda: Situation(template=template(schedulerName="other")),
        "Refused",
        {"Accepted": ("False", "SpecRefused")},
    ),
    "an invalid spec": (
        lambda: Situation(gpusPerReplica=99),
        "Refused",
        {"Accepted": ("False", "SpecInvalid")},
    ),
}


def _reconciled(situation: Situation) -> Situation:
    situation.reconcile()
    return situation


@pytest.mark.parametrize("situation", TABLE)
def test_situation_determines_phase_and_conditions(
    situation: str,
) -> None:
    build, phase, conditions = TABLE[situation]
    case = build()
    case.reconcile()
    assert case.status.phase == phase
    assert {type_: case.condition(type_) for type_ in conditions} == conditions
    assert {each.observed_generation for each in case.status.conditions} == {1}


def test_deleted_child_job_is_created_again() -> None:
    case = _child_lost(running())
    plan = case.plan()
    assert plan.create_job is not None
    assert [event.reason for event in plan.events] == ["JobCreated"]


def test_finished_job_is_not_created_again_when_another_job_has_its_name() -> None:
    case = _reconciled(running().job_ended("Complete", "CompletionsReached"))
    assert case.child is not None
    case.child["metadata"] |= {"uid": "uid-other", "ownerReferences": []}
    assert case.plan() == ReconcilePlan()


def test_failures_after_the_end_are_not_counted() -> None:
    case = _reconciled(running().job_ended("Complete", "CompletionsReached"))
    case.pod("train-2", **exited(1))
    assert case.reconcile().failed_pods == ()
    assert case.status.failures.application == 0


def test_finished_job_is_not_patched() -> None:
    case = running().job_ended("Complete", "CompletionsReached")
    case.job["spec"]["suspend"] = True
    assert case.plan().job_patch is None


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


def test_child_job_that_is_being_deleted_is_not_patched() -> None:
    case = running()
    assert case.child is not None
    case.child["metadata"]["deletionTimestamp"] = LATER
    case.job["spec"]["suspend"] = True
    assert case.plan().job_patch is None


def test_pod_that_replaces_a_failed_pod_is_the_placed_pod() -> None:
    case = running().pod(**exited(1)).pod("train-0", node="n2", gpus=GPUS, phase="Running")
    case.reconcile()
    assert [place.pod for place in case.status.placements] == ["train-0"]


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


def test_transition_time_changes_with_the_status_only() -> None:
    case = started()
    case.now = LATER
    case.pod()
    case.reconcile()
    times = {each.type: each.last_transition_time for each in case.status.conditions}
    assert set(times.values()) == {START}
    case.pod(node="n1", gpus=GPUS)
    case.reconcile()
    times = {each.type: each.last_transition_time for each in case.status.conditions}
    assert times.pop("Placed") == LATER
    assert set(times.values()) == {START}


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
    case = _failed(2)
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
    case = _queued(suspended=False)
    case.job["spec"]["suspend"] = True
    plan = case.plan()
    assert plan.job_patch is None
    case.reconcile()
    (condition,) = [each for each in case.status.conditions if each.type == "Suspended"]
    assert "spec.suspend has no effect" in condition.message


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


def test_long_message_of_the_scheduler_is_truncated() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    case = started().pod(conditions=[{**condition, "message": "x" * 5000}])
    case.reconcile()
    (placed,) = [each for each in case.status.conditions if each.type == "Placed"]
    assert len(placed.message) == 1024


def test_condition_of_another_client_is_kept() -> None:
    case = Situation()
    other = {"type": "Audited", "status": "True", "reason": "Seen", "message": ""}
    case.job["status"] = {"conditions": [{**other, "lastTransitionTime": START}]}
    case.reconcile()
    assert case.condition("Audited") == ("True", "Seen")


def test_missing_profile_is_created_with_the_job_only() -> None:
    case = Situation(workload={"profile": "resnet50"})
    assert case.plan().create_profile == "resnet50"
    case.reconcile()
    case.profile = None
    assert case.plan().create_profile is None


def _without_its_profile() -> Situation:
    situation = Situation(workload={"profile": "resnet50"})
    situation.errors = WriteErrors(profile="403: exceeded quota: none")
    return situation


def test_job_without_its_profile_runs_and_reports_the_error() -> None:
    case = _without_its_profile()
    plan = case.reconcile()
    assert case.child is not None
    assert case.condition("Accepted") == ("True", "JobCreated")
    assert case.condition("ProfileReady") == ("False", "ProfileNotCreated")
    [condition] = [each for each in case.status.conditions if each.type == "ProfileReady"]
    assert condition.message == (
        "GPUProfile resnet50 was not created, so the job runs without it; create it yourself, "
        "or fix the error (gputopo tries again once a minute): 403: exceeded quota: none"
    )
    assert [event.reason for event in plan.events] == [
        "JobCreated",
        "Accepted",
        "ProfileNotCreated",
    ]
    assert plan.recheck_after_seconds == 60.0


@pytest.mark.parametrize("by_hand", [False, True])
def test_rejected_profile_is_created_again_later(*, by_hand: bool) -> None:
    case = _without_its_profile()
    case.reconcile()
    case.errors = WriteErrors()
    case.profile = GPUProfile() if by_hand else None
    assert case.plan().create_profile == (None if by_hand else "resnet50")
    plan = case.reconcile()
    reason = "ProfileFound" if by_hand else "ProfileCreated"
    assert case.condition("ProfileReady") == ("True", reason)
    assert [event.reason for event in plan.events] == [reason]
    assert plan.recheck_after_seconds is None


def test_finished_job_gets_no_profile() -> None:
    case = _without_its_profile()
    case.reconcile()
    case.errors = WriteErrors()
    case.job_ended("Complete", "CompletionsReached")
    assert case.plan().create_profile is None
    case.reconcile()
    assert case.plan() == ReconcilePlan()
    assert case.condition("ProfileReady") == ("False", "ProfileNotCreated")


def test_profile_is_read_for_a_new_job_and_until_it_is_ready() -> None:
    case = _without_its_profile()
    assert profile_to_read(case.state().job, None) == "resnet50"
    case.reconcile()
    job = case.state().job
    assert profile_to_read(job, case.child) == "resnet50"
    case.errors = WriteErrors()
    case.reconcile()
    assert profile_to_read(case.state().job, case.child) is None
    assert profile_to_read(case.state().job, None) == "resnet50", "the Job is created again"
    case.job_ended("Complete", "CompletionsReached").reconcile()
    assert profile_to_read(case.state().job, None) is None
    assert profile_to_read(Situation(gpusPerReplica=99).state().job, None) is None


def test_owner_reference_does_not_block_deletion() -> None:
    manifest = Situation().plan().create_job
    assert manifest is not None
    [owner] = manifest["metadata"]["ownerReferences"]
    assert owner["blockOwnerDeletion"] is False


def test_rejected_change_of_the_child_job_is_reported_beside_the_status() -> None:
    case = _failed(2)
    case.errors = WriteErrors(job_patch="denied by policy")
    plan = case.plan()
    assert plan.status is not None
    assert plan.status.phase == "Failed"
    assert plan.events[-1].reason == "JobNotUpdated"
    assert plan.events[-1].note == (
        "Job train was not changed to {'backoffLimit': 0}: denied by policy"
    )
    assert plan.recheck_after_seconds == 60.0


def test_waiting_and_failed_containers_are_named_with_their_reason() -> None:
    state = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    statuses = [{"name": "setup", "state": {"terminated": {"exitCode": 0}}}]
    statuses.append({"name": "main", "state": state})
    case = started().pod(node="n1", gpus=GPUS, containerStatuses=statuses)
    case.reconcile()
    messages = {each.type: each.message for each in case.status.conditions}
    assert messages["Running"] == "container main: ErrImagePull: not found"
    statuses[1]["state"] = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    case.pod(node="n1", gpus=GPUS, phase="Failed", containerStatuses=statuses)
    event = case.reconcile().events[0]
    assert event.note == (
        "pod train-1 failed (retrying, 1 of 6): container main ended with exit code 137 "
        "(OOMKilled); see `kubectl logs train-1`"
    )


def test_failed_pod_without_a_reason_is_reported() -> None:
    event = started().pod(node="n1", phase="Failed").reconcile().events[0]
    assert event.note == (
        "pod train-1 failed (retrying, 1 of 6): no reason in its status; see `kubectl logs train-1`"
    )


@pytest.mark.parametrize(
    ("spec", "sensitivity"),
    [
        ({"communication": {"bandwidthSensitivity": "Sensitive"}}, "Sensitive (Declared)"),
        ({"gpusPerReplica": 1}, "Insensitive (SingleGpu)"),
        ({}, "Sensitive (SensitivityUnknown: no GPUProfile has a value)"),
    ],
)
def test_accepted_job_reports_the_source_of_its_sensitivity(
    spec: dict[str, Any], sensitivity: str
) -> None:
    accepted = started(**spec).status.conditions[0]
    assert accepted.message == f"bandwidth sensitivity: {sensitivity}"


def test_profile_of_the_job_is_the_source_of_its_sensitivity() -> None:
    case = Situation(workload={"profile": "bert"})
    case.profile = GPUProfile(spec=GPUProfileSpec(bandwidth_sensitivity_percent=2))
    case.reconcile()
    message = case.status.conditions[0].message
    assert message == (
        "bandwidth sensitivity: Insensitive "
        "(GPUProfile bert: 2 % slower on the worst links, declared)"
    )


def test_job_of_an_older_operator_shows_the_sensitivity_of_its_annotation() -> None:
    case = Situation(workload={"profile": "bert"})
    case.reconcile()
    assert case.child is not None
    annotations = case.child["spec"]["template"]["metadata"]["annotations"]
    annotations[SENSITIVITY_ANNOTATION] = "Insensitive"
    case.reconcile()
    message = case.status.conditions[0].message
    assert message == "bandwidth sensitivity: Insensitive (Profile bert)"


def test_ended_pod_of_an_unfinished_job_does_not_run() -> None:
    case = started().pod(node="n1", gpus=GPUS, **exited(0))
    case.reconcile()
    assert case.condition("Running") == ("False", "PodEnded")


def test_placement_without_figures_has_no_bandwidths() -> None:
    case = started().pod(node="n1", gpus=GPUS)
    case.pods[0]["metadata"]["annotations"].pop(PLACEMENT_ANNOTATION)
    (event,) = case.reconcile().events
    assert event.note == "pod train-1 on node n1: GPUs GPU-4, GPU-5, GPU-7"
    case.pods[0]["metadata"]["annotations"][PLACEMENT_ANNOTATION] = "{"
    assert case.plan() == ReconcilePlan()


def test_conditions_of_the_child_job_that_are_no_result_do_not_end_the_job() -> None:
    case = running().job_ended("Suspended", "JobSuspended")
    assert case.plan() == ReconcilePlan()


def test_finished_job_without_condition_accepted_gets_no_event_of_acceptance() -> None:
    case = Situation()
    complete = {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": ""}
    case.job["status"] = {"conditions": [{**complete, "lastTransitionTime": START}]}
    plan = case.plan()
    assert plan.status is not None
    assert plan.status.phase == "Succeeded"
    assert plan.events == ()


def profiling_annotation(**changes: Any) -> dict[str, str]:
    """Return the annotation of a pod whose CPUs are measured."""
    own = CpuAmounts(request=4000, limit=4000)
    state = ProfilingState(
        uid="uid-train-1",
        container="main",
        original=own,
        most_milli_cpu=8000,
        started=START,
        last=own,
        target=CpuAmounts(request=8000, limit=8000),
        since=START,
    )
    return {PROFILING_STATE_ANNOTATION: state.model_copy(update=changes).dump()}


def measured(annotations: dict[str, str]) -> Situation:
    situation = Situation(profiling={"measure": ["CPUs"]})
    situation.reconcile()
    assert situation.condition("Profiled") == ("False", "Waiting")
    situation.pod("train-1", node="n1", gpus=GPUS, phase="Running")
    situation.pods[0]["metadata"]["annotations"] |= annotations
    situation.reconcile()
    return situation


@pytest.mark.parametrize(
    ("changes", "expected", "message"),
    [
        (
            {},
            ("False", "Measuring"),
            "CPUs: waiting for a sample with a limit of 8000m; measurements so far: 0",
        ),
        ({"result": "Done", "message": "3 points"}, ("False", "Restoring"), "CPUs: 3 points"),
        (
            {"result": "Done", "message": "3 points", "restored": True},
            ("True", "Done"),
            "CPUs: 3 points",
        ),
        (
            {"result": "TimeLimit", "message": "2 points", "restored": True},
            ("False", "TimeLimit"),
            "CPUs: 2 points",
        ),
    ],
)
def test_condition_profiled_shows_the_measurement_of_the_pod(
    changes: dict[str, Any], expected: tuple[str, str], message: str
) -> None:
    situation = measured(profiling_annotation(**changes))
    assert situation.condition("Profiled") == expected
    [condition] = [each for each in situation.status.conditions if each.type == "Profiled"]
    assert condition.message.startswith(message)


def test_condition_profiled_stays_when_the_pod_is_replaced_or_the_job_ends() -> None:
    done = profiling_annotation(result="Done", message="3 points", restored=True)
    situation = measured(done)
    situation.pods = []
    situation.reconcile()
    assert situation.condition("Profiled") == ("True", "Done")
    situation.job_ended("Complete", "CompletionsReached").reconcile()
    assert situation.child is not None
    situation.child = None
    situation.reconcile()
    assert situation.condition("Profiled") == ("True", "Done")


def test_unreadable_profiling_state_is_ignored() -> None:
    situation = measured({PROFILING_STATE_ANNOTATION: "{"})
    assert situation.condition("Profiled") == ("False", "Waiting")


def test_job_that_measures_nothing_has_no_condition_profiled() -> None:
    situation = Situation()
    situation.reconcile()
    assert "Profiled" not in {each.type for each in situation.status.conditions}
