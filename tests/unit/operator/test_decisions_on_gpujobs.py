"""The decision of the operator: a table of situations with the phase and conditions of each."""

from collections.abc import Callable, Mapping

import pytest

from support.builders.gpujobs import GPUS, exited, template
from support.operator.cluster_states import START, Situation
from support.operator.gpujob_states import (
    LATER,
    child_lost,
    deleted_pod,
    disrupted,
    failed,
    not_owned,
    queued,
    reconciled,
    rejected,
    running,
    started,
    suspended_by_user,
)

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
        suspended_by_user,
        "Suspended",
        {"Suspended": ("True", "SuspendedByUser")},
    ),
    "a completed job": (
        lambda: running().job_ended("Complete", "CompletionsReached"),
        "Succeeded",
        {"Complete": ("True", "CompletionsReached"), "Running": ("False", "Finished")},
    ),
    "application failures within the limit": (
        lambda: failed(1),
        "Pending",
        {"Failed": ("False", "WithinLimits")},
    ),
    "application failures above the limit": (
        lambda: failed(2),
        "Failed",
        {"Failed": ("True", "BackoffLimitExceeded"), "Complete": ("False", "Failed")},
    ),
    "admission failures within the limit": (
        lambda: rejected(1),
        "Pending",
        {"Failed": ("False", "WithinLimits")},
    ),
    "admission failures above the limit": (
        lambda: rejected(2),
        "Failed",
        {"Failed": ("True", "AdmissionRetriesExceeded")},
    ),
    "a disrupted pod did not fail": (
        disrupted,
        "Pending",
        {"Failed": ("False", "WithinLimits")},
    ),
    "a deleted pod did not fail": (
        deleted_pod,
        "Pending",
        {"Failed": ("False", "WithinLimits")},
    ),
    "a deadline that the Job controller enforces": (
        lambda: running().job_ended("Failed", "DeadlineExceeded"),
        "Failed",
        {"Failed": ("True", "DeadlineExceeded")},
    ),
    "a job that its queue has not admitted": (
        lambda: queued(suspended=True),
        "Suspended",
        {"Suspended": ("True", "SuspendedByQueue")},
    ),
    "a job that its queue has admitted": (
        lambda: queued(suspended=False),
        "Pending",
        {"Suspended": ("False", "AdmittedByQueue")},
    ),
    "a Job of the same name that the GPUJob does not own": (
        not_owned,
        "Refused",
        {"Accepted": ("False", "JobNameTaken"), "Placed": ("False", "NotAccepted")},
    ),
    "a completed job stays completed without its child Job": (
        lambda: child_lost(reconciled(running().job_ended("Complete", "CompletionsReached"))),
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


def test_ended_pod_of_an_unfinished_job_does_not_run() -> None:
    case = started().pod(node="n1", gpus=GPUS, **exited(0))
    case.reconcile()
    assert case.condition("Running") == ("False", "PodEnded")


def test_finished_job_without_condition_accepted_gets_no_event_of_acceptance() -> None:
    case = Situation()
    complete = {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": ""}
    case.job["status"] = {"conditions": [{**complete, "lastTransitionTime": START}]}
    plan = case.plan()
    assert plan.status is not None
    assert plan.status.phase == "Succeeded"
    assert plan.events == ()
