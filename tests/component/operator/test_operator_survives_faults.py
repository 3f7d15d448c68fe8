"""Lost events, failing writes and a killed operator lose nothing and repeat nothing."""

import time
import urllib.request

import pytest

from support.api.faults import CLOSED, Fault
from support.builders.gpujobs import exited, gpu_job, job_pod
from support.operator.process import Operator, eventually


def _created_jobs(operator: Operator) -> list[str]:
    """Return the names of the Jobs that were created, one for each time."""
    return [
        path.rpartition("/")[2]
        for method, path, _ in operator.api.writes
        if method == "POST" and "/jobs/" in path
    ]


@pytest.mark.parametrize(
    "fault",
    [
        Fault("POST", "/jobs", 500),
        Fault("POST", "/jobs", CLOSED),
        Fault("POST", "/jobs", CLOSED, carried_out="yes"),
        Fault("POST", "/jobs", 504, carried_out="yes"),
        Fault("PATCH", "/status", 409),
        Fault("PATCH", "/status", 500),
        Fault("PATCH", "/status", CLOSED, carried_out="yes"),
        Fault("GET", "/gpujobs/faulty", 500),
        Fault("GET", "/jobs/faulty", 429),
        Fault("GET", "/pods", 503),
    ],
    ids=str,
)
def test_failing_request_is_repeated_until_it_succeeds(
    operator: Operator, fault: Fault, request: pytest.FixtureRequest
) -> None:
    name = f"faulty-{request.node.callspec.indices['fault']}"
    operator.api.faults.append(fault)
    operator.api.create("gpujobs", gpu_job(name))
    operator.wait_phase(name, "Pending")
    operator.wait_until_idle()
    assert fault not in operator.api.faults
    assert _created_jobs(operator).count(name) == 1


def test_job_that_a_quota_forbids_is_created_later(own_operator: Operator) -> None:
    text = "exceeded quota: jobs"
    faults = own_operator.api.faults
    faults.append(Fault("POST", "/jobs", 403, text, times=None))
    own_operator.api.create("gpujobs", gpu_job("train"))
    rejected = own_operator.wait_condition("train", "Accepted", "JobForbidden")
    assert text in rejected["message"]
    faults.clear()
    own_operator.wait_child("train")
    own_operator.wait_condition("train", "Accepted", "JobCreated")


def test_job_runs_without_a_profile_that_a_quota_forbids(own_operator: Operator) -> None:
    text = "exceeded quota: profiles"
    faults = own_operator.api.faults
    faults += [Fault("POST", "/gpuprofiles", 403, text)] * 100
    own_operator.api.create("gpujobs", gpu_job("train", workload={"profile": "resnet50"}))
    own_operator.wait_child("train")
    rejected = own_operator.wait_condition("train", "ProfileReady", "ProfileNotCreated")
    assert "GPUProfile resnet50" in rejected["message"]
    assert text in rejected["message"]
    own_operator.wait_phase("train", "Pending")
    [note] = own_operator.wait_event("train", "ProfileNotCreated")
    assert text in note
    faults.clear()
    own_operator.wait_condition("train", "ProfileReady", "ProfileCreated")
    assert own_operator.api.get("gpuprofiles", "resnet50") is not None


def test_profile_that_another_client_creates_is_used(own_operator: Operator) -> None:
    own_operator.api.faults.append(Fault("POST", "/gpuprofiles", 409, "already exists"))
    own_operator.api.create("gpujobs", gpu_job("train", workload={"profile": "resnet50"}))
    own_operator.wait_condition("train", "ProfileReady", "ProfileCreated")
    assert _created_jobs(own_operator) == ["train"]


def test_job_runs_where_events_are_forbidden(own_operator: Operator) -> None:
    faults = own_operator.api.faults
    faults += [Fault("POST", "/events", 403, "exceeded quota: events")] * 100
    own_operator.api.create("gpujobs", gpu_job("train"))
    own_operator.wait_phase("train", "Pending")
    eventually("both events are tried", lambda: len(faults) == 98)
    own_operator.wait_until_idle()
    assert len(faults) == 98, "no event is tried again"
    assert "event not created" in own_operator.log
    assert "failed, trying again" not in own_operator.log


def test_rejected_status_is_reported_in_one_event(own_operator: Operator) -> None:
    text = "denied by policy freeze"
    faults = own_operator.api.faults
    faults += [Fault("PATCH", "/status", 403, text)] * 100
    own_operator.api.create("gpujobs", gpu_job("train"))
    own_operator.wait_child("train")
    eventually("it is written again", lambda: len(faults) <= 97)
    [note] = own_operator.wait_event("train", "StatusNotWritten")
    assert text in note
    faults.clear()
    own_operator.wait_phase("train", "Pending")


def test_rejected_change_of_the_child_job_is_reported_beside_the_status(
    own_operator: Operator,
) -> None:
    text = "denied by policy freeze"
    own_operator.api.create("gpujobs", gpu_job("train", limits={"backoffLimit": 0}))
    child = own_operator.wait_child("train")
    own_operator.wait_phase("train", "Pending")
    faults = own_operator.api.faults
    faults.append(Fault("PATCH", "/jobs/train", 500))
    faults += [Fault("PATCH", "/jobs/train", 403, text)] * 100
    own_operator.api.create("pods", job_pod(child, "train-1", **exited(1)))
    own_operator.wait_phase("train", "Failed")
    notes = own_operator.wait_event("train", "JobNotUpdated")
    assert text in notes[0]
    faults.clear()
    eventually(
        "the child Job is ended",
        lambda: own_operator.wait_child("train")["spec"]["backoffLimit"] == 0,
    )


def test_delay_of_writes_to_a_missing_namespace_grows(
    own_operator: Operator,
) -> None:
    faults = own_operator.api.faults
    faults += [Fault("POST", "/jobs", 404, "namespaces default not found")] * 100
    own_operator.api.create("gpujobs", gpu_job("train"))
    eventually("a first try", lambda: len(faults) < 100)
    time.sleep(4.0)
    # Attempts after 0.5, 1, 2, ... seconds; after a conflict they would follow every 0.2 s.
    assert 95 <= len(faults) < 100
    faults.clear()
    own_operator.wait_child("train")


def test_events_that_a_watch_loses_are_replaced_by_the_resync(own_operator: Operator) -> None:
    own_operator.api.create("gpujobs", gpu_job("first"))
    own_operator.wait_phase("first", "Pending")
    own_operator.api.mute = True
    own_operator.api.create("gpujobs", gpu_job("second"))
    own_operator.wait_phase("second", "Pending")


def test_gpujob_whose_deletion_no_watch_reported_is_not_counted(own_operator: Operator) -> None:
    own_operator.api.create("gpujobs", gpu_job("train"))
    own_operator.wait_phase("train", "Pending")

    def pending() -> float:
        with urllib.request.urlopen(own_operator.metrics_url) as response:  # noqa: S310 - our own
            lines = response.read().decode().splitlines()
        [line] = [each for each in lines if each.startswith('gputopo_operator_gpujobs{phase="Pen')]
        return float(line.split()[-1])

    eventually("it is counted", lambda: pending() == 1)
    own_operator.wait_until_idle()
    own_operator.api.mute = True
    own_operator.api.delete("gpujobs", "train")
    eventually("it is not counted", lambda: pending() == 0)


def test_failures_are_counted_once_when_the_operator_is_killed(own_operator: Operator) -> None:
    own_operator.api.create("gpujobs", gpu_job("train"))
    child = own_operator.wait_child("train")
    own_operator.api.create("pods", job_pod(child, "train-1", **exited(1)))
    own_operator.wait_event("train", "PodFailed")
    own_operator.kill()
    own_operator.api.create("pods", job_pod(child, "train-2", **exited(1)))
    own_operator.start()
    own_operator.wait_event("train", "PodFailed", 2)
    own_operator.api.delete("pods", "train-1")
    own_operator.wait_until_idle()
    job = own_operator.api.get("gpujobs", "train")
    assert job is not None
    assert job["status"]["failures"] == {"application": 2, "admission": 0}
    assert len(own_operator.wait_event("train", "PodFailed")) == 2


def test_operator_killed_before_the_status_write_leaves_one_job(own_operator: Operator) -> None:
    api = own_operator.api
    # The status cannot be written until the operator has been killed.
    api.faults += [Fault("PATCH", "/status", 500)] * 100
    api.create("gpujobs", gpu_job("train"))
    own_operator.wait_child("train")
    own_operator.kill()
    api.faults.clear()
    own_operator.start()
    own_operator.wait_phase("train", "Pending")
    own_operator.wait_until_idle()
    assert _created_jobs(own_operator) == ["train"]


def test_fifty_jobs_at_once_get_one_child_job_each(own_operator: Operator) -> None:
    names = [f"job-{number:02}" for number in range(50)]
    for name in names:
        own_operator.api.create("gpujobs", gpu_job(name))
    for name in names:
        own_operator.wait_phase(name, "Pending")
    own_operator.wait_until_idle()
    assert sorted(_created_jobs(own_operator)) == names
