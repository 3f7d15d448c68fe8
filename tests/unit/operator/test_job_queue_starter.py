"""The starter starts the jobs of the queue and writes their places; with a fake API server."""

from datetime import datetime, timedelta

import pytest

from gputopo.queueing.model import QueueOrder, QueueRules
from gputopo.runtime.times import timestamp
from gputopo_kube.errors import ApiError
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller import job_queue_starter
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.job_queue_api import JobQueueApi
from gputopo_operator.controller.job_queue_starter import PASS_SECONDS, JobQueueStarter
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from gputopo_operator.decision.queue import RECHECK_SECONDS
from gputopo_operator.metrics import OperatorMetrics
from support.api.faults import Fault
from support.api.server import ApiServer
from support.builders.gpujobs import Document
from support.operator.nodes import stored_nodes
from support.operator.queue import QueuedCluster, node, plain_node

RULES = QueueRules(QueueOrder.FIFO, 600)
NOW = "2026-01-01T01:00:00Z"
RESOURCE = "gputopo.io/gpu"


@pytest.fixture
def nodes() -> NodeStore:
    return stored_nodes([node("n1", 2)], [plain_node("n1")])


@pytest.fixture
def starter(connection: SyncApi, nodes: NodeStore, metrics: OperatorMetrics) -> JobQueueStarter:
    lists = JobQueueApi(connection, (), "gputopo")
    return JobQueueStarter(lists, JobApi(connection), nodes, metrics, RULES, RESOURCE, lambda: NOW)


def put(api: ApiServer, cluster: QueuedCluster) -> None:
    """Store all objects of the cluster in the API server."""
    for plural, documents in (
        ("gpujobs", [*cluster.jobs.values()]),
        ("jobs", [*cluster.children.values()]),
        ("pods", cluster.pods),
        ("priorityclasses", cluster.classes),
    ):
        for document in documents:
            api.put(plural, document)


def suspended(api: ApiServer, name: str) -> bool:
    child = api.get("jobs", name)
    assert child is not None
    return bool(child["spec"]["suspend"])


def queue_of(api: ApiServer, name: str) -> Document | None:
    job = api.get("gpujobs", name)
    assert job is not None
    found: Document | None = job.get("status", {}).get("queue")
    return found


def waiting(metrics: OperatorMetrics) -> float | None:
    return metrics.registry.get_sample_value("gputopo_operator_waiting_gpujobs")


def waits(metrics: OperatorMetrics) -> float | None:
    return metrics.registry.get_sample_value("gputopo_operator_wait_seconds_count")


def test_jobs_start_and_wait_and_nothing_is_written_twice(
    api: ApiServer, starter: JobQueueStarter, metrics: OperatorMetrics
) -> None:
    cluster = QueuedCluster()
    cluster.job("first", 2)
    cluster.job("second", 1, created="2026-01-01T00:00:01Z")
    put(api, cluster)
    assert starter.advance("queue") == RECHECK_SECONDS
    assert (suspended(api, "first"), suspended(api, "second")) == (False, True)
    assert queue_of(api, "first") == {"waitedSeconds": 0}
    assert queue_of(api, "second") == {
        "position": 1,
        "reason": "waiting for a free GPU",
        "waitingSince": NOW,
    }
    events = [(event["reason"], event["regarding"]["name"]) for event in api.all("events")]
    assert events == [("Admitted", "first"), ("Queued", "second")]
    assert (waiting(metrics), waits(metrics)) == (1, 1)
    writes = len(api.writes)
    starter.advance("queue")
    assert len(api.writes) == writes


def test_running_and_plain_pods_are_read(api: ApiServer, starter: JobQueueStarter) -> None:
    cluster = QueuedCluster()
    cluster.start("running", "n1")
    cluster.job("next", 1)
    cluster.job("last", 1, created="2026-01-01T00:00:01Z")
    put(api, cluster)
    starter.advance("queue")
    assert (suspended(api, "next"), suspended(api, "last")) == (False, True)


def test_changed_job_is_decided_again_soon(api: ApiServer, starter: JobQueueStarter) -> None:
    cluster = QueuedCluster()
    cluster.job("train")
    put(api, cluster)
    api.faults.append(Fault("PATCH", "/jobs/train", 409))
    assert starter.advance("queue") == CONFLICT_DELAY_SECONDS
    assert starter.advance("queue") is None
    assert not suspended(api, "train")


@pytest.mark.parametrize("status", [404, 409])
def test_job_that_changes_in_every_pass_does_not_block_later_jobs(
    api: ApiServer, starter: JobQueueStarter, metrics: OperatorMetrics, status: int
) -> None:
    cluster = QueuedCluster()
    for number, name in enumerate(("changing", "next", "last")):
        cluster.job(name, 1, created=f"2026-01-01T00:00:0{number}Z")
    put(api, cluster)
    api.faults.append(Fault("PATCH", "/jobs/changing", status, times=None))
    for _ in range(2):
        assert starter.advance("queue") == CONFLICT_DELAY_SECONDS
        assert not suspended(api, "next")
        assert suspended(api, "last"), "a GPU is reserved for the changing job"
        assert queue_of(api, "changing") is None
        assert queue_of(api, "next") == {"waitedSeconds": 0}
        assert waiting(metrics) == 2
    api.faults.clear()
    assert starter.advance("queue") == RECHECK_SECONDS
    assert not suspended(api, "changing")
    assert suspended(api, "last")


@pytest.mark.parametrize("status", [404, 409])
def test_replaced_gpujob_does_not_prevent_later_statuses(
    api: ApiServer, starter: JobQueueStarter, status: int
) -> None:
    cluster = QueuedCluster()
    cluster.job("replaced", 1, status={"position": 1, "waitingSince": "2026-01-01T00:59:00Z"})
    cluster.job("next", 1, created="2026-01-01T00:00:01Z")
    put(api, cluster)
    api.faults.append(Fault("PATCH", "/gpujobs/replaced/status", status))
    assert starter.advance("queue") == CONFLICT_DELAY_SECONDS
    assert queue_of(api, "next") == {"waitedSeconds": 0}
    assert starter.advance("queue") is None
    assert queue_of(api, "replaced") == {"waitedSeconds": 60}


@pytest.mark.parametrize("status", [403, 422])
def test_job_that_the_api_server_does_not_start_does_not_block_others(
    api: ApiServer, starter: JobQueueStarter, status: int
) -> None:
    cluster = QueuedCluster()
    cluster.job("ready", 1)
    cluster.job("denied", 1, created="2026-01-01T00:00:01Z")
    cluster.job("next", 1, created="2026-01-01T00:00:02Z")
    put(api, cluster)
    api.faults.append(Fault("PATCH", "/jobs/denied", status, "no start today"))
    starter.advance("queue")
    assert not suspended(api, "ready")
    assert not suspended(api, "next")
    found = queue_of(api, "denied")
    assert found is not None
    assert found["reason"] == "the Job was not started: no start today"
    assert len([write for write in api.writes if "/jobs/ready" in str(write)]) <= 1


def test_failed_start_is_an_error(api: ApiServer, starter: JobQueueStarter) -> None:
    cluster = QueuedCluster()
    cluster.job("train")
    put(api, cluster)
    api.faults.append(Fault("PATCH", "/jobs/train", 500))
    with pytest.raises(ApiError):
        starter.advance("queue")


def test_wait_is_reported_after_the_status_was_written(
    api: ApiServer, starter: JobQueueStarter, metrics: OperatorMetrics
) -> None:
    cluster = QueuedCluster()
    cluster.job("train", status={"position": 1, "waitingSince": "2026-01-01T00:59:00Z"})
    put(api, cluster)
    api.faults.append(Fault("PATCH", "/status", 500))
    with pytest.raises(ApiError):
        starter.advance("queue")
    assert not suspended(api, "train")
    assert waits(metrics) == 0
    starter.advance("queue")  # the job has started, but its wait is not reported yet
    assert waits(metrics) == 1
    assert queue_of(api, "train") == {"waitedSeconds": 60}
    (event,) = api.all("events")
    assert event["note"] == "the queue (order FIFO) has started the job after 60 s"


def test_rejected_status_does_not_stop_the_queue(
    api: ApiServer, starter: JobQueueStarter, metrics: OperatorMetrics
) -> None:
    cluster = QueuedCluster()
    cluster.job("train")
    put(api, cluster)
    api.faults.append(Fault("PATCH", "/status", 403))
    assert starter.advance("queue") is None
    assert not suspended(api, "train")
    assert waits(metrics) == 0


def test_failed_event_is_only_logged(
    api: ApiServer, starter: JobQueueStarter, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = QueuedCluster()
    cluster.job("train")
    put(api, cluster)
    api.faults.append(Fault("POST", "/events", 500))
    starter.advance("queue")
    assert "event not created" in caplog.text


def test_number_of_statuses_in_one_pass_is_limited(
    api: ApiServer, starter: JobQueueStarter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue_starter, "MAX_CHANGES", 2)
    cluster = QueuedCluster()
    for number in range(3):
        cluster.job(f"job-{number}", 4, created=f"2026-01-01T00:00:0{number}Z")
    put(api, cluster)
    assert starter.advance("queue") == PASS_SECONDS
    assert queue_of(api, "job-2") is None
    assert starter.advance("queue") == RECHECK_SECONDS
    assert queue_of(api, "job-2") is not None


def test_status_without_content_is_removed(api: ApiServer, starter: JobQueueStarter) -> None:
    cluster = QueuedCluster()
    cluster.job("train", suspend=True, status={"position": 1})
    put(api, cluster)
    starter.advance("queue")
    assert queue_of(api, "train") is None


def test_priority_classes_that_cannot_be_read_are_ignored(
    api: ApiServer, starter: JobQueueStarter
) -> None:
    cluster = QueuedCluster()
    cluster.job("train")
    put(api, cluster)
    api.faults.append(Fault("GET", "/priorityclasses", 403))
    starter.advance("queue")
    assert not suspended(api, "train")
    api.faults.append(Fault("GET", "/priorityclasses", 500))
    with pytest.raises(ApiError):
        starter.advance("queue")


def test_only_jobs_of_the_namespaces_are_in_the_queue(api: ApiServer, connection: SyncApi) -> None:
    cluster = QueuedCluster()
    cluster.job("train")
    put(api, cluster)
    elsewhere = JobQueueApi(connection, ("research", "teaching"), "gputopo")
    assert [*elsewhere.gpu_jobs(), *elsewhere.child_jobs()] == []
    here = JobQueueApi(connection, ("default", "teaching"), "gputopo")
    assert [job["metadata"]["name"] for job in here.gpu_jobs()] == ["train"]
    assert [job["metadata"]["name"] for job in here.child_jobs()] == ["train"]


def test_pods_of_other_schedulers_and_ended_pods_are_not_read(
    api: ApiServer, connection: SyncApi
) -> None:
    cluster = QueuedCluster()
    for name in ("live", "ended", "other"):
        cluster.start(name, "n1")
    cluster.pods[1]["status"]["phase"] = "Succeeded"
    cluster.pods[2]["spec"]["schedulerName"] = "default-scheduler"
    put(api, cluster)
    found = JobQueueApi(connection, ("research",), "gputopo").pods()
    assert [pod["metadata"]["name"] for pod in found] == ["live-1"]


def test_pods_of_the_own_namespaces_are_read_without_the_right_to_read_all(
    api: ApiServer, connection: SyncApi
) -> None:
    cluster = QueuedCluster()
    cluster.start("live", "n1")
    put(api, cluster)
    every_pod = "/api/v1/pods"
    api.faults.append(Fault("GET", every_pod, 403))
    found = JobQueueApi(connection, ("default",), "gputopo").pods()
    assert [pod["metadata"]["name"] for pod in found] == ["live-1"]
    for namespaces, status in (((), 403), (("default",), 500)):
        api.faults.append(Fault("GET", every_pod, status))
        with pytest.raises(ApiError):
            JobQueueApi(connection, namespaces, "gputopo").pods()


def test_gpus_of_a_pod_that_the_scheduler_rejects_are_given_to_others_after_minutes(
    api: ApiServer, connection: SyncApi, nodes: NodeStore, metrics: OperatorMetrics
) -> None:
    cluster = QueuedCluster(node("n1", 2))
    rejected = cluster.start("needs-10000-cpus", gpus=2)
    rejected["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    ]
    cluster.job("fits", 1)
    put(api, cluster)
    now = [datetime.fromisoformat(NOW)]
    lists = JobQueueApi(connection, (), "gputopo")
    starter = JobQueueStarter(
        *(lists, JobApi(connection), nodes, metrics, RULES, RESOURCE),
        clock=lambda: timestamp(now[-1]),
    )
    seen = []
    for _ in range(10):
        starter.advance("queue")
        seen.append(suspended(api, "fits"))
        now.append(now[-1] + timedelta(seconds=20))
    assert seen == [True] * 9 + [False]
    queued = QueuedCluster()
    queued.job("next", 1)
    put(api, queued)
    starter.advance("queue")
    assert suspended(api, "next"), "the pod of fits has no node yet"
