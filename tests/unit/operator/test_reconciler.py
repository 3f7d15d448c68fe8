"""The reconciler reads the state of a GPUJob, decides, and writes; with a fake API server."""

import json
import re
from typing import Any

import pytest

from gputopo.api.names import PLACEMENT_ANNOTATION, RESOURCES_MAX_ANNOTATION
from gputopo_kube.document import ObjectKey
from gputopo_kube.errors import ApiError
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.reconciler import Reconciler
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from gputopo_operator.metrics import OperatorMetrics
from gputopo_operator.model.jobs import ObjectEvent, PodDefaults
from support.api.faults import CLOSED, Fault
from support.api.server import ApiServer
from support.builders.gpujobs import GPUS, bind, exited, gpu_job, job_pod, observed_topology
from support.operator.nodes import listed_nodes
from support.profiling.pods import sample

KEY = ObjectKey("default", "train")
DENIED = "denied by policy"
BY_POLICY = "ValidatingAdmissionPolicy 'team' with binding 'team' denied request: no team"
BY_WEBHOOK = 'admission webhook "team.example.com" denied the request: no team'


@pytest.fixture
def reconciler(job_api: JobApi, metrics: OperatorMetrics) -> Reconciler:
    return Reconciler(job_api, listed_nodes(job_api), PodDefaults(), metrics)


def reasons(api: ApiServer) -> list[str]:
    return [event["reason"] for event in api.all("events")]


def phase(api: ApiServer) -> str:
    job = api.get("gpujobs", "train")
    assert job is not None
    return str(job.get("status", {}).get("phase"))


def durations(metrics: OperatorMetrics, outcome: str) -> float | None:
    name = "gputopo_operator_reconcile_duration_seconds_count"
    return metrics.registry.get_sample_value(name, {"outcome": outcome})


def test_job_status_and_events_are_written_once(
    api: ApiServer, reconciler: Reconciler, metrics: OperatorMetrics
) -> None:
    api.create("gpujobs", gpu_job("train"))
    assert reconciler.timed(KEY) is None
    assert api.get("jobs", "train") is not None
    assert phase(api) == "Pending"
    assert reasons(api) == ["JobCreated", "Accepted"]
    writes = len(api.writes)
    reconciler.timed(KEY)
    assert len(api.writes) == writes
    assert durations(metrics, "success") == 2
    assert metrics.known() == (KEY,)


def test_deleted_gpujob_has_no_phase(
    api: ApiServer, reconciler: Reconciler, metrics: OperatorMetrics
) -> None:
    api.create("gpujobs", gpu_job("train"))
    reconciler.reconcile(KEY)
    api.delete("gpujobs", "train")
    assert reconciler.reconcile(KEY) is None
    assert metrics.known() == ()


@pytest.mark.parametrize("status", [404, 409])
def test_changed_gpujob_is_reconciled_again_soon(
    api: ApiServer, reconciler: Reconciler, status: int
) -> None:
    api.create("gpujobs", gpu_job("train"))
    api.faults.append(Fault("PATCH", "/status", status))
    assert reconciler.reconcile(KEY) == CONFLICT_DELAY_SECONDS
    assert reconciler.reconcile(KEY) is None
    assert phase(api) == "Pending"


@pytest.mark.parametrize(("status", "reason"), [(400, "JobRefused"), (403, "JobForbidden")])
def test_rejected_job_is_reported_in_the_status(
    api: ApiServer, reconciler: Reconciler, status: int, reason: str
) -> None:
    api.create("gpujobs", gpu_job("train"))
    api.faults.append(Fault("POST", "/jobs", status, DENIED))
    reconciler.reconcile(KEY)
    job = api.get("gpujobs", "train")
    assert job is not None
    assert job["status"]["conditions"][0]["reason"] == reason
    assert DENIED in job["status"]["conditions"][0]["message"]
    assert api.get("jobs", "train") is None
    assert reasons(api) == ["Refused"]


@pytest.mark.parametrize(("status", "message"), [(422, BY_POLICY), (400, BY_WEBHOOK)])
def test_job_that_a_policy_rejects_is_created_when_the_policy_allows_it(
    api: ApiServer, reconciler: Reconciler, status: int, message: str
) -> None:
    api.create("gpujobs", gpu_job("train"))
    api.faults.append(Fault("POST", "/jobs", status, message))
    assert reconciler.reconcile(KEY) == 60.0
    job = api.get("gpujobs", "train")
    assert job is not None
    assert job["status"]["conditions"][0]["reason"] == "JobForbidden"
    assert job["status"]["conditions"][0]["message"] == message
    reconciler.reconcile(KEY)
    assert api.get("jobs", "train") is not None
    assert phase(api) == "Pending"


@pytest.fixture
def tuned(api: ApiServer, reconciler: Reconciler) -> ApiServer:
    """A running GPUJob of the mode Auto, whose largest amount was changed."""
    resources = {"mode": "Auto", "min": {"cpu": 2}}
    job = gpu_job("train", resources={**resources, "max": {"cpu": 8}})
    api.create("gpujobs", job)
    reconciler.reconcile(KEY)
    child = api.get("jobs", "train")
    assert child is not None
    pod = job_pod(child, node="n1", gpus=GPUS, phase="Running")
    template = child["spec"]["template"]["metadata"]["annotations"]
    pod["metadata"]["annotations"] |= template
    api.create("pods", pod)
    reconciler.reconcile(KEY)
    changed = api.get("gpujobs", "train")
    assert changed is not None
    changed["spec"]["resources"]["max"] = {"cpu": 16}
    api.put("gpujobs", changed)
    return api


def most_of(api: ApiServer) -> str | None:
    pod = api.get("pods", "train-1")
    assert pod is not None
    most: str | None = pod["metadata"]["annotations"].get(RESOURCES_MAX_ANNOTATION)
    return most


def test_changed_largest_amount_reaches_the_pod(tuned: ApiServer, reconciler: Reconciler) -> None:
    assert most_of(tuned) == "cpu=8000m"
    assert reconciler.reconcile(KEY) is None
    assert most_of(tuned) == "cpu=16000m"
    paths = [write.path for write in tuned.writes]
    assert [path for path in paths if "/pods/" in path] == [
        "/api/v1/namespaces/default/pods/train-1/status"
    ]


def test_rejected_change_of_the_pod_is_an_event(tuned: ApiServer, reconciler: Reconciler) -> None:
    tuned.faults.append(Fault("PATCH", "/pods/train-1/status", 403, DENIED))
    assert reconciler.reconcile(KEY) == 60.0
    assert reasons(tuned)[-1] == "PodNotUpdated"
    assert most_of(tuned) == "cpu=8000m"
    assert reconciler.reconcile(KEY) is None
    assert most_of(tuned) == "cpu=16000m"


def test_failed_change_of_the_pod_is_an_error(tuned: ApiServer, reconciler: Reconciler) -> None:
    tuned.faults.append(Fault("PATCH", "/pods/train-1/status", 500))
    with pytest.raises(ApiError):
        reconciler.reconcile(KEY)


def test_failed_write_of_the_job_is_an_error(
    api: ApiServer, reconciler: Reconciler, metrics: OperatorMetrics
) -> None:
    api.create("gpujobs", gpu_job("train"))
    api.faults.append(Fault("POST", "/jobs", 500))
    with pytest.raises(ApiError):
        reconciler.timed(KEY)
    assert durations(metrics, "error") == 1


def test_profile_is_created_or_its_rejection_is_reported(
    api: ApiServer, reconciler: Reconciler
) -> None:
    api.create("gpujobs", gpu_job("train", workload={"profile": "resnet50"}))
    api.faults.append(Fault("POST", "/gpuprofiles", 403, DENIED))
    assert reconciler.reconcile(KEY) == 60.0
    assert reasons(api)[-1] == "ProfileNotCreated"
    api.faults.append(Fault("POST", "/gpuprofiles", 409, "already exists"))
    assert reconciler.reconcile(KEY) is None
    assert reasons(api)[-1] == "ProfileCreated"
    assert reconciler.reconcile(KEY) is None


def rejected_profiles(metrics: OperatorMetrics) -> float | None:
    return metrics.registry.get_sample_value("gputopo_operator_rejected_profiles_total")


def test_only_rejections_of_profiles_are_counted_as_such(
    api: ApiServer, reconciler: Reconciler, metrics: OperatorMetrics
) -> None:
    api.create("gpujobs", gpu_job("train", workload={"profile": "resnet50"}))
    api.faults.append(Fault("POST", "/gpuprofiles", 500))
    reconciler.reconcile(KEY)
    assert (reasons(api)[-1], rejected_profiles(metrics)) == ("ProfileNotCreated", 0)
    api.faults.append(Fault("POST", "/gpuprofiles", 403, DENIED))
    reconciler.reconcile(KEY)
    assert rejected_profiles(metrics) == 1


def test_job_in_a_namespace_with_too_many_profiles_runs_without_one(
    api: ApiServer, connection: SyncApi, metrics: OperatorMetrics
) -> None:
    reconciler = Reconciler(
        JobApi(connection, most_profiles=0), NodeStore(), PodDefaults(), metrics
    )
    api.create("gpujobs", gpu_job("train", workload={"profile": "resnet50"}))
    assert reconciler.reconcile(KEY) == 60.0
    assert api.get("jobs", "train") is not None
    assert reasons(api)[-1] == "ProfileNotCreated"
    conditions = (api.get("gpujobs", "train") or {})["status"]["conditions"]
    assert "namespace default has 0 GPUProfiles" in conditions[-1]["message"]
    count = metrics.registry.get_sample_value
    assert count("gputopo_operator_rejected_profiles_total") == 1


def test_existing_profile_is_read(api: ApiServer, reconciler: Reconciler) -> None:
    spec = {"bandwidthSensitivityPercent": 2}
    api.create("gpuprofiles", {"metadata": {"name": "bert"}, "spec": spec})
    api.create("gpujobs", gpu_job("train", workload={"profile": "bert"}))
    reconciler.reconcile(KEY)
    job = api.get("gpujobs", "train")
    assert job is not None
    message = job["status"]["conditions"][0]["message"]
    assert message == (
        "bandwidth sensitivity: Insensitive "
        "(GPUProfile bert: 2 % slower on the worst links, declared)"
    )


def test_failed_pod_above_the_limit_ends_the_job(
    api: ApiServer, reconciler: Reconciler, metrics: OperatorMetrics
) -> None:
    api.create("gpujobs", gpu_job("train", limits={"backoffLimit": 0}))
    reconciler.reconcile(KEY)
    child = api.get("jobs", "train")
    assert child is not None
    api.create("pods", job_pod(child, "train-1", **exited(1)))
    api.faults.append(Fault("PATCH", "/jobs/train", 403, DENIED))
    assert reconciler.reconcile(KEY) == 60.0
    assert phase(api) == "Failed"
    assert reasons(api)[-1] == "JobNotUpdated"
    api.faults.append(Fault("PATCH", "/jobs/train", 500))
    with pytest.raises(ApiError):
        reconciler.reconcile(KEY)
    assert reconciler.reconcile(KEY) is None
    ended = api.get("jobs", "train")
    assert ended is not None
    assert ended["spec"]["backoffLimit"] == 0
    name = "gputopo_operator_pod_failures_total"
    assert metrics.registry.get_sample_value(name, {"kind": "application"}) == 1


def test_observed_gpus_come_from_the_topology_of_the_node(
    api: ApiServer, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only short runs that measure links need the samples of the node, and decoding takes time.
    monkeypatch.delattr("gputopo_operator.controller.reconciler.reported_samples")
    api.create("gpujobs", gpu_job("train"))
    reconciler.reconcile(KEY)
    child = api.get("jobs", "train")
    assert child is not None
    pod = job_pod(child, "train-1", phase="Running")
    api.create("pods", pod)
    api.change("pods", "train-1", lambda found: bind(found, "n1", GPUS))
    reconciler.reconcile(KEY)
    assert phase(api) == "Running"
    used = dict.fromkeys(GPUS, "uid-train-1")
    api.create("gputopologies", observed_topology("n1", used))
    reconciler.reconcile(KEY)
    job = api.get("gpujobs", "train")
    assert job is not None
    assert job["status"]["placements"][0]["observed"] == list(GPUS)


@pytest.mark.parametrize(("status", "expected"), [(403, ["StatusNotWritten"]), (500, [])])
def test_status_that_was_not_written_is_an_error(
    api: ApiServer, reconciler: Reconciler, status: int, expected: list[str]
) -> None:
    api.create("gpujobs", gpu_job("train"))
    api.faults.append(Fault("PATCH", "/status", status, DENIED))
    with pytest.raises(ApiError, match=DENIED):
        reconciler.reconcile(KEY)
    assert reasons(api) == expected


def test_rejected_event_is_logged(
    api: ApiServer, reconciler: Reconciler, caplog: pytest.LogCaptureFixture
) -> None:
    api.create("gpujobs", gpu_job("train"))
    api.faults.append(Fault("POST", "/events", 403, DENIED))
    assert reconciler.reconcile(KEY) is None
    assert "event not created event=JobCreated kind=GPUJob object=default/train" in caplog.text
    assert reasons(api) == ["Accepted"]


def test_gpujobs_of_a_namespace_or_of_the_cluster_are_listed(
    api: ApiServer, job_api: JobApi
) -> None:
    api.create("gpujobs", gpu_job("train"))
    assert job_api.gpu_jobs(None) == {KEY: False}
    assert job_api.gpu_jobs("default") == {KEY: False}
    assert job_api.gpu_jobs("other") == {}


def measured_job(api: ApiServer) -> None:
    """Create a GPUJob whose links are measured, and its GPUProfile."""
    api.create("gpuprofiles", {"metadata": {"name": "bert"}, "spec": {}})
    links = {"measure": ["Links"]}
    api.create("gpujobs", gpu_job("train", workload={"profile": "bert"}, profiling=links))


def of_start(job_api: JobApi) -> Reconciler:
    """Return a reconciler whose clock shows the time at which the fake server creates objects."""
    clock = "2026-01-01T00:00:10Z"
    return Reconciler(
        job_api, listed_nodes(job_api), PodDefaults(), OperatorMetrics(), lambda: clock
    )


def run_pod(api: ApiServer, name: str, mb_per_s: int, rate: float) -> None:
    """Run the pod of a short run, and let the agent take a sample of it."""
    run = api.get("jobs", name)
    assert run is not None
    pod = job_pod(run, f"{name}-1", phase="Running")
    pod["metadata"]["labels"] = run["spec"]["template"]["metadata"]["labels"]
    api.create("pods", pod)
    figures = {"physicalMBps": mb_per_s, "physicalWorstMBps": 12_000, "physicalBestMBps": 48_000}

    def placed(found: dict[str, Any]) -> None:
        bind(found, "n1", GPUS)
        annotations = found["metadata"]["annotations"]
        before = json.loads(annotations[PLACEMENT_ANNOTATION])
        annotations[PLACEMENT_ANNOTATION] = json.dumps({**before, **figures})

    api.change("pods", f"{name}-1", placed)
    uid = pod["metadata"]["uid"]
    if api.get("gputopologies", "n1") is None:
        api.create("gputopologies", observed_topology("n1", {}))
    taken = [sample(8000, rate, pod_uid=uid, at=minute).to_json() for minute in range(3)]
    of_profile = {"namespace": "default", "profile": "bert"}
    reported = [{**each, **of_profile} for each in taken]
    api.change("gputopologies", "n1", lambda found: found["status"].update(samples=reported))
    profile = {"status": {"samples": taken}}
    api.change("gpuprofiles", "bert", lambda found: found.update(profile))


def end_pod(api: ApiServer, name: str) -> None:
    """Delete the pod of a suspended Job, as the Job controller does."""
    run = api.get("jobs", name)
    assert run is not None
    if run["spec"]["suspend"] and api.get("pods", f"{name}-1") is not None:
        api.delete("pods", f"{name}-1")


def test_links_are_measured_by_two_jobs_before_the_child_job(
    api: ApiServer, job_api: JobApi
) -> None:
    reconciler = of_start(job_api)
    measured_job(api)
    reconciler.reconcile(KEY)
    assert reconciler.reconcile(KEY) is not None
    run_pod(api, "train-links-best", 48_000, 12.0)
    reconciler.reconcile(KEY)
    end_pod(api, "train-links-best")
    reconciler.reconcile(KEY)
    run_pod(api, "train-links-worst", 12_000, 8.0)
    reconciler.reconcile(KEY)
    end_pod(api, "train-links-worst")
    assert api.get("jobs", "train") is None
    reconciler.reconcile(KEY)
    assert api.get("jobs", "train") is not None
    assert reasons(api) == [
        *("Accepted", "LinkRunCreated", "LinkRunEnded", "LinkRunCreated", "LinkRunEnded"),
        "JobCreated",
    ]


@pytest.mark.parametrize("write", range(10))
def test_operator_that_is_killed_after_any_write_measures_the_same_links(
    api: ApiServer, job_api: JobApi, write: int
) -> None:
    measured_job(api)
    killing = Fault("POST|PATCH", "/jobs|/status", CLOSED, carried_out="yes")
    killed = 0
    for _ in range(40):
        if killed == 0 and len(api.writes) >= write:
            api.faults = [killing]
        try:
            of_start(job_api).reconcile(KEY)
        except ApiError:
            killed += 1
        for name, mb_per_s, rate in (
            ("train-links-best", 48_000, 12.0),
            ("train-links-worst", 12_000, 8.0),
        ):
            run = api.get("jobs", name)
            if run is not None:
                end_pod(api, name)
                if not run["spec"]["suspend"] and api.get("pods", f"{name}-1") is None:
                    run_pod(api, name, mb_per_s, rate)
    assert killed == 1
    created = [w.path for w in api.writes if w.method == "POST" and "/jobs/" in w.path]
    assert [path.rpartition("/")[2] for path in created] == [
        *("train-links-best", "train-links-worst", "train"),
    ]
    job = api.get("gpujobs", "train")
    assert job is not None
    [profiled] = [each for each in job["status"]["conditions"] if each["type"] == "Profiled"]
    assert profiled["reason"] == "Done"


def test_rejected_run_lets_the_job_start_at_once(api: ApiServer, reconciler: Reconciler) -> None:
    measured_job(api)
    api.faults.append(Fault("POST", "/jobs", 403, DENIED))
    reconciler.reconcile(KEY)
    assert api.get("jobs", "train") is not None
    job = api.get("gpujobs", "train")
    assert job is not None
    [profiled] = [each for each in job["status"]["conditions"] if each["type"] == "Profiled"]
    assert DENIED in profiled["message"]
    reconciler.reconcile(KEY)
    assert api.get("jobs", "train-links-best") is None


@pytest.mark.parametrize("name", ["a" * 253, "a" * 236, "a" * 235 + "." + "b" * 17])
def test_event_on_an_object_with_a_long_name_has_a_valid_name(
    api: ApiServer, job_api: JobApi, name: str
) -> None:
    metadata = {"name": name, "namespace": "default", "uid": "u", "resourceVersion": "1"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    job_api.create_event(pod, ObjectEvent("Normal", "Tried", ""), "2026-01-01T00:00:00Z")
    [event] = api.all("events")
    assert len(event["metadata"]["name"]) <= 253
    assert re.fullmatch(r"a+\.[0-9a-f]{16}", event["metadata"]["name"])
    assert event["regarding"]["name"] == name
