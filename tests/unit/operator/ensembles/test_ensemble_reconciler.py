"""The reconciler reads an ensemble, decides and writes; with a fake API server."""

import pytest

from gputopo.api.names import ENSEMBLE_LABEL, JOB_LABEL
from gputopo_kube.document import ObjectKey
from gputopo_kube.errors import ApiError
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.reconciler import Reconciler
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from gputopo_operator.model.jobs import PodDefaults
from support.api.faults import Fault
from support.builders.gpujobs import bind, job_pod
from support.builders.node_reports import gpu_profile
from support.operator.ensembles import condition
from support.operator.served_ensemble import KEY, Served


def test_members_are_created_after_the_plan_is_stored(served: Served) -> None:
    assert served.reconcile() == 10
    paths = [write.path.rpartition("/v1alpha1")[2] for write in served.api.writes]
    jobs = "/namespaces/default/gpujobs/search-"
    assert paths[:3] == ["/namespaces/default/gpuensembles/search/status", f"{jobs}a", f"{jobs}b"]
    assert served.status["plan"]["reason"] == "first plan"
    assert served.reasons() == ["EnsemblePlanned", "MemberStarted", "MemberStarted"]
    assert served.metric("gputopo_operator_ensemble_plans_total") == 1
    assert served.metric("gputopo_operator_gpuensembles", phase="Pending") == 1
    served.reconcile()
    assert served.of("a")["phase"] == "Starting"
    labels = {"namespace": "default", "name": "search"}
    assert served.metric("gputopo_ensemble_gpus", **labels) == 4


def test_nothing_is_written_twice(served: Served) -> None:
    served.reconcile()
    served.reconcile()
    writes = len(served.api.writes)
    served.reconcile()
    assert len(served.api.writes) == writes


def test_member_runs_as_a_gpujob_and_its_pod_names_the_ensemble(
    served: Served, job_api: JobApi
) -> None:
    served.reconcile()
    jobs = Reconciler(job_api, NodeStore(), PodDefaults(), served.metrics)
    jobs.reconcile(ObjectKey("default", "search-a"))
    child = served.api.get("jobs", "search-a")
    assert child is not None
    assert child["metadata"]["labels"] == {ENSEMBLE_LABEL: "search", JOB_LABEL: "search-a"}
    assert child["spec"]["template"]["metadata"]["labels"][ENSEMBLE_LABEL] == "search"
    pod = job_pod(child, node="n1", phase="Running", startTime="2026-01-01T00:59:00Z")
    pod["spec"] |= {"schedulerName": "gputopo"}
    pod["metadata"]["labels"] |= child["spec"]["template"]["metadata"]["labels"]
    bind(pod, "n1", ["GPU-n1-0"])
    served.api.create("pods", pod)
    topology = served.api.get("gputopologies", "n1")
    assert topology is not None
    measurement = {
        "namespace": "default",
        "pod": "train-1",
        "podUID": pod["metadata"]["uid"],
        "container": "main",
        "gpus": 1,
        "source": "SDK",
        "state": "Steady",
        "microStepsPerSecond": 101_000_000,
        "ciPermille": 10,
    }
    topology["status"]["measurements"] = [measurement]
    served.api.put("gputopologies", topology)
    served.reconcile()
    found = served.of("a")
    assert (found["phase"], found["node"]) == ("Running", "n1")
    assert found["measuredMicroItemsPerSecond"] == 101_000_000
    assert found["itemsDone"] == 6060
    assert served.metric("gputopo_operator_gpuensembles", phase="Running") == 1


def test_rates_of_profiles_are_used(served: Served) -> None:
    profile = gpu_profile("resnet")
    scaling = [
        {"gpus": 1, "microStepsPerSecond": 70_000_000, "ciPermille": 10, "extrapolated": False}
    ]
    profile["status"] = {"facts": {"gpuModel": "A100", "scaling": scaling}}
    served.api.put("gpuprofiles", profile)
    broken = gpu_profile("vgg")
    broken["status"] = {"facts": {"gpuModel": 5}}
    served.api.put("gpuprofiles", broken)
    served.reconcile()
    assert served.of("a")["plannedMicroItemsPerSecond"] == 133_000_000
    assert served.of("b")["plannedMicroItemsPerSecond"] in {50_000_000, 95_000_000}


@pytest.mark.parametrize(
    ("status", "text", "phase"),
    [
        (403, "denied", "Waiting"),
        (422, "denied", "Failed"),
        (422, "ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no", "Waiting"),
        (400, 'admission webhook "a.b.c" denied the request: no', "Waiting"),
    ],
)
def test_rejected_job_is_the_message_of_the_member(
    served: Served, status: int, text: str, phase: str
) -> None:
    served.api.faults.append(Fault("POST", "/gpujobs", status, text))
    assert served.reconcile() == 60.0
    assert served.of("a")["phase"] == phase
    assert served.of("a")["message"] == f"GPUJob search-a was rejected: {text}"
    assert served.of("b")["phase"] in {"Waiting", "Starting"}
    assert served.api.get("gpujobs", "search-b") is not None


def test_job_of_another_owner_is_left_alone(served: Served) -> None:
    unowned = {
        "metadata": {"name": "search-a", "namespace": "default"},
        "spec": {"gpusPerReplica": 1},
    }
    served.api.create("gpujobs", unowned)
    served.reconcile()
    assert "this GPUEnsemble does not own it" in served.of("a")["message"]
    job = served.api.get("gpujobs", "search-a")
    assert job is not None
    assert job["spec"] == {"gpusPerReplica": 1}


@pytest.mark.parametrize("clash", [True, False])
def test_rejected_job_is_written_once_and_has_not_started(served: Served, *, clash: bool) -> None:
    if clash:
        raw = {"metadata": {"name": "search-a", "namespace": "default"}, "spec": {}}
        served.api.create("gpujobs", raw)
    else:
        fault = Fault("POST", "/gpujobs", 403, "quota exceeded", times=None)
        served.api.faults.append(fault)
    served.reconcile()
    message = served.of("a")["message"]
    writes = len(status_writes(served))
    for _ in range(3):
        assert served.reconcile() == 60
        assert served.of("a")["message"] == message
    assert len(status_writes(served)) - writes <= 1  # that of member b
    started = [event["note"] for event in served.api.all("events")]
    assert not any(note.startswith("a: ") and "GPUs of node" in note for note in started)


def status_writes(served: Served) -> list[str]:
    return [write.path for write in served.api.writes if write.path.endswith("/status")]


def test_job_of_another_ensemble_with_the_same_label_is_left_alone(served: Served) -> None:
    served.reconcile()
    job = served.api.get("gpujobs", "search-a")
    assert job is not None
    job["metadata"]["ownerReferences"][0]["uid"] = "other"
    served.api.put("gpujobs", job)
    served.reconcile()
    assert served.of("a")["phase"] == "Waiting"
    assert "this GPUEnsemble does not own it" in served.of("a")["message"]


def test_suspension_deletes_the_jobs(served: Served) -> None:
    served.reconcile()
    raw = served.api.get("gpuensembles", "search")
    assert raw is not None
    raw["spec"]["suspend"] = True
    raw["metadata"]["generation"] = 2
    served.api.put("gpuensembles", raw)
    served.reconcile()
    assert served.api.all("gpujobs") == []
    assert served.status["phase"] == "Suspended"


@pytest.mark.parametrize("status", [404, 409])
def test_changed_object_is_reconciled_again_soon(served: Served, status: int) -> None:
    served.api.faults.append(Fault("PATCH", "/status", status))
    assert served.reconcile() == CONFLICT_DELAY_SECONDS
    assert served.api.all("gpujobs") == []
    served.reconcile()
    assert len(served.api.all("gpujobs")) == 2


def test_unavailable_api_server_is_an_error(served: Served) -> None:
    served.api.faults.append(Fault("GET", "/pods", 500))
    with pytest.raises(ApiError):
        served.reconcile()


def test_deleted_ensemble_has_no_metrics(served: Served) -> None:
    served.reconcile()
    served.api.delete("gpuensembles", "search")
    assert served.reconciler.reconcile(KEY) is None
    assert served.metric("gputopo_operator_gpuensembles", phase="Pending") == 0
    served.reconciler.reconcile(KEY)


def test_ended_ensemble_is_left_alone(served: Served) -> None:
    served.reconcile()
    for name in ("search-a", "search-b"):
        job = served.api.get("gpujobs", name)
        assert job is not None
        job["status"] = {"conditions": [condition("Complete", "True", "Done")]}
        served.api.put("gpujobs", job)
    assert served.reconcile() is None
    assert served.status["phase"] == "Succeeded"
    writes = len(served.api.writes)
    assert served.reconcile() is None
    assert len(served.api.writes) == writes
    assert served.metric("gputopo_operator_gpuensembles", phase="Succeeded") == 1


def test_invalid_spec_is_a_condition(served: Served) -> None:
    raw = served.api.get("gpuensembles", "search")
    assert raw is not None
    del raw["spec"]["members"][0]["jobTemplate"]["spec"]["template"]
    served.api.put("gpuensembles", raw)
    assert served.reconcile() is None
    accepted = served.status["conditions"][0]
    text = "spec.members[a].jobTemplate.spec.template: is required"
    assert (accepted["reason"], accepted["message"]) == ("SpecInvalid", text)
    assert served.status["phase"] == "Rejected"
    assert served.reasons() == ["EnsembleRejected"]
