"""The life of a GPUJob, as its objects in the API server show it."""

import urllib.request
from typing import Any

from gputopo.api.known_facts import FactsAnnotation
from gputopo.api.names import FACTS_ANNOTATION, JOB_LABEL, SENSITIVITY_ANNOTATION
from support.api.faults import Fault
from support.builders.gpujobs import (
    GPUS,
    Document,
    bind,
    exited,
    gpu_job,
    job_pod,
    observed_topology,
    rejected_by_kubelet,
    requested_gpus,
    template,
)
from support.builders.node_reports import gpu_profile
from support.operator.process import Operator, eventually


def _create(operator: Operator, name: str, **spec: Any) -> Document:
    created = operator.api.create("gpujobs", gpu_job(name, **spec))
    assert created is not None
    return created


def _finish(operator: Operator, name: str, type_: str, reason: str) -> None:
    condition = {"type": type_, "status": "True", "reason": reason, "message": "set by the test"}
    status = {"conditions": [condition]}
    operator.api.change("jobs", name, lambda job: job.update(status=status))


def _touch(operator: Operator, plural: str, name: str, number: int) -> None:
    """Change an object in a field that the operator does not use."""
    annotations = {"example.org/number": str(number)}
    operator.api.change(plural, name, lambda found: found.update(annotations=annotations))


def test_job_runs_on_its_gpus_and_succeeds(operator: Operator) -> None:
    api = operator.api
    _create(operator, "way")
    child = operator.wait_child("way")
    operator.wait_phase("way", "Pending")

    api.create("pods", job_pod(child, "way-1"))
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient gputopo.io/gpu.",
    }
    api.change("pods", "way-1", lambda pod: pod["status"].update(conditions=[unschedulable]))
    waiting = operator.wait_condition("way", "Placed", "Unschedulable")
    assert "Insufficient gputopo.io/gpu" in waiting["message"]

    def bound(pod: Document) -> None:
        bind(pod, "n1", GPUS)
        pod["status"] = {"phase": "Pending"}

    api.change("pods", "way-1", bound)
    job = operator.wait_phase("way", "Placed")
    (place,) = job["status"]["placements"]
    assert (place["node"], place["intended"]) == ("n1", list(GPUS))
    assert (place["effectiveMBps"], place["topologyGeneration"]) == (44100, 7)

    api.create("gputopologies", observed_topology("n1", dict.fromkeys(GPUS, "uid-way-1")))
    operator.wait_condition("way", "Placed", "Observed")
    api.change("pods", "way-1", lambda pod: pod.update(status={"phase": "Running"}))
    operator.wait_phase("way", "Running")

    api.change("pods", "way-1", lambda pod: pod.update(status=exited(0)))
    _finish(operator, "way", "Complete", "CompletionsReached")
    job = operator.wait_phase("way", "Succeeded")
    assert job["status"]["observedGeneration"] == job["metadata"]["generation"]
    assert job["status"]["placements"][0]["observed"] == list(GPUS)
    operator.wait_event("way", "Completed")
    assert [reason for reason, _ in operator.events("way")] == [
        "JobCreated",
        "Accepted",
        "Placed",
        "Completed",
    ]
    assert "effective 44.1 GB/s (eq2)" in dict(operator.events("way"))["Placed"]


def test_child_job_is_owned_and_labelled_and_requests_the_gpus(operator: Operator) -> None:
    parent = _create(operator, "shape")
    child = operator.wait_child("shape")
    (owner,) = child["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (parent["metadata"]["uid"], True)
    assert child["metadata"]["labels"][JOB_LABEL] == "shape"
    assert requested_gpus(child) == {"main": "3"}
    pod = child["spec"]["template"]
    assert pod["metadata"]["labels"][JOB_LABEL] == "shape"
    assert pod["spec"]["schedulerName"] == "gputopo"


def test_missing_profile_is_created(operator: Operator) -> None:
    _create(operator, "profiled", workload={"profile": "resnet50"})
    operator.wait_condition("profiled", "ProfileReady", "ProfileCreated")
    assert operator.api.get("gpuprofiles", "resnet50") is not None


def test_profile_decides_the_sensitivity_of_a_job_that_declares_none(operator: Operator) -> None:
    operator.api.create("gpuprofiles", gpu_profile(bandwidthSensitivityPercent=2))
    _create(operator, "undecided", workload={"profile": "bert"})
    annotations = operator.wait_child("undecided")["spec"]["template"]["metadata"]["annotations"]
    assert annotations[SENSITIVITY_ANNOTATION] == "Auto"
    assert annotations[FACTS_ANNOTATION] == FactsAnnotation.declared("bert", 2).dump()
    accepted = operator.wait_condition("undecided", "Accepted", "JobCreated")
    assert "Insensitive (GPUProfile bert: 2 % slower" in accepted["message"]


def test_child_job_is_suspended_and_resumed_with_the_gpujob(operator: Operator) -> None:
    _create(operator, "later", suspend=True)
    operator.wait_phase("later", "Suspended")
    assert operator.wait_child("later")["spec"]["suspend"] is True
    operator.api.change("gpujobs", "later", lambda job: job["spec"].update(suspend=False))
    eventually(
        "the child Job is resumed",
        lambda: not operator.wait_child("later")["spec"]["suspend"],
    )
    operator.wait_phase("later", "Pending")


def test_application_failures_above_the_limit_end_the_job(operator: Operator) -> None:
    _create(operator, "crash", limits={"backoffLimit": 1})
    child = operator.wait_child("crash")
    operator.api.create("pods", job_pod(child, "crash-1", **exited(3)))
    operator.wait_condition("crash", "Failed", "WithinLimits")
    operator.api.create("pods", job_pod(child, "crash-2", **exited(3)))
    job = operator.wait_phase("crash", "Failed")
    assert job["status"]["failures"] == {"application": 2, "admission": 0}
    failed = operator.condition("crash", "Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    eventually(
        "the child Job is ended", lambda: operator.wait_child("crash")["spec"]["backoffLimit"] == 0
    )
    notes = operator.wait_event("crash", "PodFailed", 2)
    assert "retrying, 1 of 1" in notes[0]
    assert "container main ended with exit code 3" in notes[0]
    assert "limit 1 exceeded" in notes[1]


def test_admission_failures_do_not_count_as_application_failures(operator: Operator) -> None:
    _create(operator, "unlucky", limits={"backoffLimit": 0, "maxAdmissionRetries": 2})
    child = operator.wait_child("unlucky")
    for number in (1, 2):
        pod = job_pod(child, f"unlucky-{number}", node="n1", **rejected_by_kubelet("unhealthy GPU"))
        operator.api.create("pods", pod)

    notes = operator.wait_event("unlucky", "AdmissionFailed", 2)
    job = operator.wait_phase("unlucky", "Pending")
    assert job["status"]["failures"] == {"application": 0, "admission": 2}
    assert "retrying, 2 of 2" in notes[1]
    assert "unhealthy GPU" in notes[1]
    last = job_pod(child, "unlucky-3", node="n1", **rejected_by_kubelet())
    operator.api.create("pods", last)
    operator.wait_condition("unlucky", "Failed", "AdmissionRetriesExceeded")


def test_job_that_the_api_server_rejects_is_not_created_again(operator: Operator) -> None:
    text = 'strict decoding error: unknown field "spec.template.spec.containers[0].imag"'
    path = "/jobs.*fieldValidation=Strict"
    operator.api.faults.append(Fault("POST", path, 400, text))
    _create(operator, "typo")
    rejected = operator.wait_condition("typo", "Accepted", "JobRefused")
    assert text in rejected["message"]
    # A second attempt would succeed: the fault is for one request only.
    operator.api.change("gpujobs", "typo", lambda job: job["metadata"]["labels"].update(a="b"))
    operator.wait_until_idle()
    assert operator.api.get("jobs", "typo") is None
    (note,) = operator.wait_event("typo", "Refused")
    assert text in note


def test_template_that_contradicts_the_job_is_rejected_with_its_field(operator: Operator) -> None:
    template = gpu_job()["spec"]["template"]
    template["spec"]["schedulerName"] = "default-scheduler"
    _create(operator, "stray", template=template)
    rejected = operator.wait_condition("stray", "Accepted", "SpecRefused")
    assert "spec.template.spec.schedulerName: 'default-scheduler'" in rejected["message"]
    assert operator.api.get("jobs", "stray") is None


def test_job_that_the_gpujob_does_not_own_is_not_changed(operator: Operator) -> None:
    other = {"metadata": {"name": "taken"}, "spec": {"template": {"spec": {}}, "backoffLimit": 6}}
    before = operator.api.create("jobs", other)
    _create(operator, "taken")
    rejected = operator.wait_condition("taken", "Accepted", "JobNameTaken")
    assert "Job taken" in rejected["message"]
    assert operator.api.get("jobs", "taken") == before


def test_deleted_child_job_is_created_again_until_the_job_is_finished(
    operator: Operator,
) -> None:
    _create(operator, "again")
    first = operator.wait_child("again")["metadata"]["uid"]
    operator.api.delete("jobs", "again")

    def replaced() -> bool:
        child = operator.api.get("jobs", "again")
        return child is not None and child["metadata"]["uid"] != first

    eventually("another child Job", replaced)
    _finish(operator, "again", "Complete", "CompletionsReached")
    operator.wait_phase("again", "Succeeded")
    operator.api.delete("jobs", "again")
    operator.wait_until_idle()
    assert operator.api.get("jobs", "again") is None
    assert operator.wait_phase("again", "Succeeded")


def test_queue_of_kueue_owns_suspension_and_template(operator: Operator) -> None:
    label = {"kueue.x-k8s.io/queue-name": "research"}
    operator.api.create("gpujobs", gpu_job("queued", labels=label))
    child = operator.wait_child("queued")
    assert child["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"
    assert child["spec"]["suspend"] is True
    operator.wait_condition("queued", "Suspended", "SuspendedByQueue")

    def admit(job: Document) -> None:
        job["spec"]["suspend"] = False
        job["spec"]["template"]["spec"]["nodeSelector"] = {"flavor": "a100"}

    admitted = operator.api.change("jobs", "queued", admit)
    operator.wait_condition("queued", "Suspended", "AdmittedByQueue")
    operator.wait_until_idle()
    assert operator.api.get("jobs", "queued") == admitted


def test_nothing_is_written_while_nothing_changes(operator: Operator) -> None:
    _create(operator, "quiet")
    operator.wait_phase("quiet", "Pending")
    operator.wait_until_idle()
    before = list(operator.api.writes)
    for number in range(5):
        _touch(operator, "gpujobs", "quiet", number)
        _touch(operator, "jobs", "quiet", number)
    operator.wait_until_idle()
    assert operator.api.writes == before


def test_objects_contain_no_state_of_kopf(operator: Operator) -> None:
    _create(operator, "clean")
    operator.wait_phase("clean", "Pending")
    for plural in ("gpujobs", "jobs"):
        found = operator.api.get(plural, "clean")
        assert found is not None
        assert "finalizers" not in found["metadata"]
        assert not found["metadata"].get("annotations")


def test_long_message_in_any_alphabet_becomes_an_event(operator: Operator) -> None:
    name = "long-word"
    operator.api.create("gpujobs", gpu_job(name, template=template(restartPolicy="ä" * 2000)))
    [note] = operator.wait_event(name, "Refused")
    assert note.startswith("spec.template.spec.restartPolicy: 'ää")


def test_probes_and_metrics_respond(operator: Operator) -> None:
    _create(operator, "measured")
    operator.wait_phase("measured", "Pending")
    with urllib.request.urlopen(operator.health_url) as response:  # noqa: S310 - http, of its own
        assert response.status == 200
    with urllib.request.urlopen(operator.metrics_url) as response:  # noqa: S310 - likewise
        text = response.read().decode()
    assert 'gputopo_operator_gpujobs{phase="Pending"}' in text
    assert 'gputopo_build_info{component="operator",version="' in text
    assert 'gputopo_operator_reconcile_duration_seconds_count{outcome="success"}' in text
