"""A GPUJob that does not run is explained: rejected, suspended, queued, or its pod is pending."""

from typing import Any

import pytest

from gputopo_explain.objects import LiveKind
from gputopo_explain.pending.gpujobs import explain_gpu_job
from gputopo_explain.pending.model import GpuJobStage, PendingState
from support.builders.live import cluster, gpu_user, installed, owned
from support.builders.objects import Document, condition, container, pod

QUEUED_STATUS = {
    "position": 2,
    "reason": "waiting for 4 free GPUs on one node",
    "reservedNode": "n1",
    "waitingSince": "2026-01-01T11:50:00Z",
}


def gpu_job(*conditions: Document, name: str = "train", **status: Any) -> Document:
    return {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-job-{name}"},
        "spec": {
            "gpusPerReplica": 4,
            "template": {"spec": {"containers": [{"name": "main", "image": "x"}]}},
        },
        "status": {"conditions": [*conditions], **status},
    }


def child_job(gpus: int) -> Document:
    spec = pod("any", containers=[container("main", gpus)])["spec"]
    return {
        "metadata": {"namespace": "default", "name": "train", "uid": "uid-train"},
        "spec": {"suspend": True, "template": {"spec": spec}},
    }


@pytest.mark.parametrize(
    ("kind", "status", "state"),
    [
        ("Complete", "True", GpuJobStage.ENDED),
        ("Failed", "True", GpuJobStage.ENDED),
        ("Accepted", "False", GpuJobStage.REJECTED),
    ],
)
def test_ended_and_rejected_jobs_have_the_message_of_their_condition(
    kind: str, status: str, state: GpuJobStage
) -> None:
    found = explain_gpu_job(gpu_job(condition(kind, status, "Why")), cluster())
    assert (found.state, found.summary) == (state, f"{kind} is {status}: Why: the message")
    assert (found.remedy is None) == (state is GpuJobStage.ENDED)


def test_job_in_the_queue_has_its_position_and_where_its_pod_would_fit() -> None:
    queued = condition("Suspended", "True", "Queued")
    job = gpu_job(queued, queue=QUEUED_STATUS)
    jobs = [job, gpu_job(queued, name="b", queue={"position": 1}), gpu_job(name="c")]
    order = installed("--queue-order=SRTF", "--queue-max-skip-seconds=900")
    objects = cluster(gpu_jobs=jobs, jobs=[child_job(4)], deployments=[order])
    found = explain_gpu_job(job, objects)
    assert found.state is GpuJobStage.QUEUED
    assert found.summary.endswith("at position 2: waiting for 4 free GPUs on one node")
    assert found.queue is not None
    assert (found.queue.length, found.queue.order, found.queue.reserved_node) == (2, "SRTF", "n1")
    assert found.queue.overdue_in_seconds == 300
    assert found.is_template
    assert found.pod is not None
    assert (found.pod.state, found.pod.fitting) == (PendingState.FITS, ["n1", "n2"])


def test_overdue_time_is_unknown_without_a_queue_or_a_start() -> None:
    queued = condition("Suspended", "True", "Queued")
    job = gpu_job(queued, queue={"position": 1})
    found = explain_gpu_job(job, cluster(gpu_jobs=[job])).queue
    assert found is not None
    assert found.overdue_in_seconds is None
    invalid = gpu_job(queued, queue={"position": "first"})
    assert "cannot be parsed" in explain_gpu_job(invalid, cluster()).summary


def test_without_the_job_the_pod_is_made_from_the_gpujob() -> None:
    job = gpu_job(condition("Suspended", "True", "Queued"))
    job["spec"]["gpusPerReplica"] = 16
    found = explain_gpu_job(job, cluster(unread={LiveKind.JOBS: "no permission"}))
    assert found.pod is not None
    assert found.pod.state is PendingState.IMPOSSIBLE
    job["spec"]["template"]["spec"] = {}
    assert explain_gpu_job(job, cluster()).pod is None


def test_suspended_job_names_who_suspended_it() -> None:
    by_user = explain_gpu_job(gpu_job(condition("Suspended", "True", "SuspendedByUser")), cluster())
    assert by_user.state is GpuJobStage.SUSPENDED
    assert by_user.remedy is not None
    assert "kubectl -n default patch gpujob train" in by_user.remedy
    other = explain_gpu_job(gpu_job(condition("Suspended", "True", "SuspendedByQueue")), cluster())
    assert other.summary == "suspended: SuspendedByQueue: the message"
    assert other.remedy is not None
    assert "Kueue" in other.remedy


def test_pending_pod_of_a_job_is_explained() -> None:
    waiting = owned(pod("train-x", 4), "Job", "train")
    users = [gpu_user("a", "n1", 0, 8), gpu_user("b", "n2", 0, 8)]
    ended = owned(pod("train-w", 4, phase="Failed"), "Job", "train")
    job = gpu_job(condition("Suspended", "False", "Admitted"))
    found = explain_gpu_job(job, cluster([ended, waiting, *users]))
    assert found.state is GpuJobStage.POD_PENDING
    assert found.summary.startswith("its pod train-x is pending: the pod waits for 4 GPUs")
    assert found.pod is not None
    assert not found.is_template


def test_bound_pod_and_missing_pod_are_reported() -> None:
    running = owned(gpu_user("train-x", "n1", 0, 4), "Job", "train")
    found = explain_gpu_job(gpu_job(), cluster([running]))
    assert (found.state, found.pod) == (GpuJobStage.STARTED, None)
    assert "bound to n1" in found.summary
    missing = explain_gpu_job(gpu_job(), cluster())
    assert missing.state is GpuJobStage.NO_POD
    assert missing.remedy is not None
    assert "describe gpujob,job train" in missing.remedy
    without_status = gpu_job()
    del without_status["status"]
    assert explain_gpu_job(without_status, cluster()).state is GpuJobStage.NO_POD


def test_priority_of_a_queued_job_is_unknown_without_its_priority_class() -> None:
    job = gpu_job(condition("Suspended", "True", "Queued"), queue=QUEUED_STATUS)
    job["spec"]["priorityClassName"] = "high"
    user, high = gpu_user("big", "n1", 0, 8), {"metadata": {"name": "high"}, "value": 1000}
    outlooks = []
    for classes in ([high], []):
        objects = cluster([user], nodes=["n1"], priority_classes=classes)
        found = explain_gpu_job(job, objects).pod
        assert found is not None
        assert found.preemption is not None
        outlooks.append(found.preemption)
    assert [each.helps for each in outlooks] == [True, None]
    unknown = "the priority of the pod is unknown: no PriorityClass 'high' was read"
    assert outlooks[1].reason == unknown
    denied = cluster(unread={LiveKind.PRIORITY_CLASSES: "no permission"})
    assert denied.notes == [
        "priorityclasses: no permission: priorities of pods that do not exist yet are unknown"
    ]
