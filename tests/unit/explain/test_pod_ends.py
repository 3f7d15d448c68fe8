"""The end of a pod is derived from deadlines, stated durations and deletions."""

from typing import Any

from gputopo_explain.pending.ends import PodEnds, owner_text
from gputopo_explain.pending.model import EndKind
from support.builders.live import cluster, gpu_user, owned
from support.builders.objects import Document, pod


def gpu_job(**spec: object) -> Document:
    return {
        "metadata": {"namespace": "default", "name": "train"},
        "spec": spec,
        "status": {"queue": {"ranSeconds": 600}},
    }


def ends(document: Document, **others: Any) -> list[tuple[EndKind, int, str]]:
    found = PodEnds(cluster(**others)).of_pod(document)
    return [(end.kind, end.seconds, end.source) for end in found]


def test_pod_without_a_limit_has_no_known_end() -> None:
    assert ends(gpu_user("a", "n1", 0, 1)) == []
    assert ends(gpu_user("a", "n1", 0, 1, started=None, activeDeadlineSeconds=60)) == []


def test_job_and_gpujob_of_the_pod_have_deadlines_and_an_expected_duration() -> None:
    document = owned(gpu_user("a", "n1", 0, 1), "Job", "train")
    of_job = {
        "metadata": {"namespace": "default", "name": "train", "uid": "uid-train"},
        "spec": {"activeDeadlineSeconds": 7200},
        "status": {"startTime": "2026-01-01T10:30:00Z"},
    }
    of_gpu_job = gpu_job(limits={"activeDeadlineSeconds": 7200}, expected={"durationSeconds": 6000})
    assert ends(document, jobs=[of_job], gpu_jobs=[of_gpu_job]) == [
        (EndKind.DEADLINE, 1800, "activeDeadlineSeconds of the Job"),
        (EndKind.EXPECTED, 1800, "spec.expected of the GPUJob"),
        (EndKind.DEADLINE, 3600, "spec.limits of the GPUJob"),
    ]
    del of_job["status"]
    assert ends(document, jobs=[of_job])[0][1] == 3600


def test_label_of_a_gpujob_counts_only_with_its_job_as_owner() -> None:
    document = gpu_user("a", "n1", 0, 1)
    document["metadata"]["labels"] = {"gputopo.io/job": "train"}
    assert ends(document, gpu_jobs=[gpu_job(expected={"durationSeconds": 60})]) == []


def test_deleted_pod_ends_at_the_end_of_its_grace_period() -> None:
    document = gpu_user("a", "n1", 0, 1)
    document["metadata"]["deletionTimestamp"] = "2026-01-01T11:59:30Z"
    assert ends(document) == [(EndKind.DELETION, -30, "deletion")]


def test_times_that_cannot_be_parsed_are_ignored() -> None:
    for started in ("yesterday", "2026-01-01", "9999-12-31T23:59:59Z"):
        document = gpu_user("a", "n1", 0, 1, started=started, activeDeadlineSeconds=10**9)
        assert ends(document) == []


def test_owner_is_the_gpujob_or_the_controller() -> None:
    assert owner_text(pod("a")) is None
    assert owner_text(owned(pod("a"), "ReplicaSet", "web")) == "ReplicaSet web"
    assert owner_text(owned(pod("a"), "Job", "train")) == "GPUJob train"
