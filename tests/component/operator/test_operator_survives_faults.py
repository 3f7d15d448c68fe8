"""Lost events, failing writes and sudden ends lose nothing and double nothing."""

import time
import urllib.request

import pytest

from gpujobs import exited, gpu_job, job_pod
from object_api import Fault
from operator_process import Operator, eventually


def _created_jobs(operator: Operator) -> list[str]:
    """Return the names of the Jobs that were created, one for each time."""
    return [
        path.rpartition("/")[2]
        for method, path in operator.api.writes
        if method == "POST" and "/jobs/" in path
    ]


@pytest.mark.parametrize(
    "fault",
    [
        Fault("POST", "/jobs", 500),
        Fault("POST", "/jobs", 0),
        Fault("POST", "/jobs", 0, done=True),
        Fault("POST", "/jobs", 504, done=True),
        Fault("PATCH", "/status", 409),
        Fault("PATCH", "/status", 500),
        Fault("PATCH", "/status", 0, done=True),
        Fault("GET", "/gpujobs/faulty", 500),
        Fault("GET", "/jobs/faulty", 429),
        Fault("GET", "/pods", 503),
    ],
    ids=str,
)
def test_failing_request_is_made_good(
    operator: Operator, fault: Fault, request: pytest.FixtureRequest
) -> None:
    name = f"faulty-{request.node.callspec.indices['fault']}"
    operator.api.faults.append(fault)
    operator.api.create("gpujobs", gpu_job(name))
    operator.wait_phase(name, "Pending")
    operator.settle()
    assert fault not in operator.api.faults
    assert _created_jobs(operator).count(name) == 1


def test_job_that_a_quota_forbids_is_tried_again_later(own_operator: Operator) -> None:
    text = "exceeded quota: jobs"
    own_operator.api.faults.append(Fault("POST", "/jobs", 403, text))
    own_operator.api.create("gpujobs", gpu_job("train"))
    refused = own_operator.wait_condition("train", "Accepted", "JobForbidden")
    assert text in refused["message"]
    own_operator.wait_child("train")
    own_operator.wait_condition("train", "Accepted", "JobCreated")


def test_a_place_to_write_to_that_is_not_there_is_tried_less_and_less_often(
    own_operator: Operator,
) -> None:
    faults = own_operator.api.faults
    faults += [Fault("POST", "/jobs", 404, "namespaces default not found")] * 100
    own_operator.api.create("gpujobs", gpu_job("train"))
    eventually("a first try", lambda: len(faults) < 100)
    time.sleep(4.0)
    # After 0.5, 1, 2, ... seconds, where a conflict would come again five times a second.
    assert 95 <= len(faults) < 100
    faults.clear()
    own_operator.wait_child("train")


def test_events_that_a_watch_loses_are_made_good_by_looking_again(own_operator: Operator) -> None:
    own_operator.api.create("gpujobs", gpu_job("first"))
    own_operator.wait_phase("first", "Pending")
    own_operator.api.deaf = True
    own_operator.api.create("gpujobs", gpu_job("second"))
    own_operator.wait_phase("second", "Pending")


def test_gpujob_whose_end_no_watch_told_is_not_counted_for_ever(own_operator: Operator) -> None:
    own_operator.api.create("gpujobs", gpu_job("train"))
    own_operator.wait_phase("train", "Pending")

    def pending() -> float:
        with urllib.request.urlopen(own_operator.metrics_url) as answer:  # noqa: S310 - our own
            lines = answer.read().decode().splitlines()
        [line] = [each for each in lines if each.startswith('gputopo_operator_gpujobs{phase="Pen')]
        return float(line.split()[-1])

    eventually("it is counted", lambda: pending() == 1)
    own_operator.settle()
    own_operator.api.deaf = True
    own_operator.api.delete("gpujobs", "train")
    eventually("it is not counted", lambda: pending() == 0)


def test_failures_are_counted_once_over_a_sudden_end(own_operator: Operator) -> None:
    own_operator.api.create("gpujobs", gpu_job("train"))
    child = own_operator.wait_child("train")
    own_operator.api.create("pods", job_pod(child, "train-1", **exited(1)))
    own_operator.wait_event("train", "PodFailed")
    own_operator.kill()
    own_operator.api.create("pods", job_pod(child, "train-2", **exited(1)))
    own_operator.start()
    own_operator.wait_event("train", "PodFailed", 2)
    own_operator.api.delete("pods", "train-1")
    own_operator.settle()
    job = own_operator.api.get("gpujobs", "train")
    assert job is not None
    assert job["status"]["failures"] == {"application": 2, "admission": 0}
    assert len(own_operator.wait_event("train", "PodFailed")) == 2


def test_sudden_end_between_job_and_status_leaves_one_job(own_operator: Operator) -> None:
    api = own_operator.api
    # The status cannot be written until the operator has been killed.
    api.faults += [Fault("PATCH", "/status", 500)] * 100
    api.create("gpujobs", gpu_job("train"))
    own_operator.wait_child("train")
    own_operator.kill()
    api.faults.clear()
    own_operator.start()
    own_operator.wait_phase("train", "Pending")
    own_operator.settle()
    assert _created_jobs(own_operator) == ["train"]


def test_fifty_jobs_at_once_get_one_child_each(own_operator: Operator) -> None:
    names = [f"job-{number:02}" for number in range(50)]
    for name in names:
        own_operator.api.create("gpujobs", gpu_job(name))
    for name in names:
        own_operator.wait_phase(name, "Pending")
    own_operator.settle()
    assert sorted(_created_jobs(own_operator)) == names
