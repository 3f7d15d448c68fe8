"""Which child Jobs the queue starts, and the status.queue that it writes."""

from datetime import datetime

import pytest

from gputopo.api.names import RESOURCE
from gputopo.api.v1alpha1 import QueueStatus
from gputopo.queueing.model import Offer, QueueOrder, QueueRules
from gputopo_kube.document import ObjectKey
from gputopo_operator.decision.node_affinity import without_nodes
from gputopo_operator.decision.queue import POD_CHECK_SECONDS, RECHECK_SECONDS, queue_plan
from gputopo_operator.decision.queue_status import queue_event
from gputopo_operator.model.jobs import ObjectEvent
from gputopo_operator.parse.queue import parse_gpu_pods
from support.builders.objects import pod
from support.operator.queue import (
    NOW,
    RULES,
    QueuedCluster,
    change_of,
    node,
    plan,
    started,
)

EARLIER = "2026-01-01T00:59:00Z"
LONG_AGO = "2026-01-01T00:50:00Z"


def test_job_starts_by_a_patch_that_fails_if_the_job_has_changed() -> None:
    cluster = QueuedCluster(node("n1", 4))
    cluster.job("train", 4)
    (start,) = plan(cluster).starts
    assert start.key == ObjectKey("default", "train")
    assert start.patch == {
        "metadata": {"uid": "uid-job-train", "resourceVersion": "6"},
        "spec": {"suspend": False},
    }


def test_jobs_start_in_the_order_of_their_creation() -> None:
    cluster = QueuedCluster(node("n1", 2))
    cluster.job("c", created="2026-01-01T00:00:03Z")
    cluster.job("b", created="2026-01-01T00:00:02Z")
    cluster.job("a", created="2026-01-01T00:00:01Z")
    assert started(cluster) == ["a", "b"]


def test_expected_duration_priority_and_run_time_decide_the_order() -> None:
    cluster = QueuedCluster(node("n1", 1))
    ran = {"waitingSince": EARLIER, "ranSeconds": 900}
    cluster.job("long", expected={"durationSeconds": 500})
    cluster.job("nearly-done", expected={"durationSeconds": 1000}, status=ran)
    cluster.job("unknown")
    rules = QueueRules(QueueOrder.SRTF, 600)
    waiting = [each.job.job.key.name for each in plan(cluster, rules).changes if each.after]
    assert waiting == ["nearly-done", "long", "unknown"]
    cluster.classes = [
        {"metadata": {"name": "low"}, "value": 5, "globalDefault": True},
        {"metadata": {"name": "high"}, "value": 10},
    ]
    cluster.job("urgent", priorityClassName="high")
    (start,) = plan(cluster, rules).starts
    assert start.key.name == "urgent"
    assert {each.priority for each in cluster.found().jobs} == {5, 10}


def test_gpus_of_running_starting_and_other_pods_count_as_used() -> None:
    cluster = QueuedCluster(node("n1", 8, {7: "uid-of-another-scheduler", 0: "uid-running-1"}))
    cluster.start("running", "n1", gpus=2)
    cluster.start("starting", gpus=1)
    cluster.pods.append(pod("plain", 2, node="n1"))
    cluster.job("fits", 2)
    cluster.job("waits", 1)
    # 8 GPUs - 1 of another scheduler - 2 running - 1 starting - 2 of the plain pod - 2.
    assert started(cluster) == ["fits"]


@pytest.mark.parametrize("reason", ["Unschedulable", "SchedulingGated"])
def test_a_pod_that_fits_nowhere_keeps_free_gpus_for_minutes(reason: str) -> None:
    cluster = QueuedCluster(node("n1", 8))
    waits = cluster.start("waits", gpus=8)
    cluster.job("fits", 1)
    time = datetime.fromisoformat(NOW).timestamp()
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}]
    waits["status"]["conditions"] = conditions
    assert plan(cluster).offers == {"default/waits": Offer("default", time)}
    conditions[0]["reason"] = reason
    found = plan(cluster)
    assert (found.starts, found.recheck_after_seconds) == ((), 20)
    assert found.offers == {"default/waits": Offer("default", time, at=time)}
    cluster.offers = {"default/waits": Offer("default", 0.0, 170.0, time - 10)}
    found = plan(cluster)
    assert [start.key.name for start in found.starts] == ["fits"]
    assert found.failing == {"default"}
    waits["spec"]["nodeName"] = "n1"
    assert plan(cluster).offers == {}


@pytest.mark.parametrize(
    ("seconds", "expected"), [(599, ["a", "other"]), (600, ["a", "b", "other"])]
)
def test_jobs_of_a_namespace_whose_pods_were_not_created_start_one_by_one(
    seconds: float, expected: list[str]
) -> None:
    cluster = QueuedCluster(node("n1", 8))
    for name in ("a", "b", "other"):
        cluster.job(name)
    for objects in (cluster.jobs, cluster.children):
        objects["other"]["metadata"]["namespace"] = "other"
    cluster.failed = {"default": datetime.fromisoformat(NOW).timestamp() - seconds}
    assert started(cluster) == expected
    waits = cluster.start("a")
    assert started(cluster) == expected[1:]
    waits["spec"]["nodeName"] = "n1"
    assert started(cluster) == ["b", "other"]
    cluster.pods.clear()  # it has started, and has no pod yet
    assert started(cluster) == expected[1:]


def test_gpus_of_a_suspended_job_count_until_its_pod_has_ended() -> None:
    cluster = QueuedCluster(node("n1", 2))
    cluster.start("stopping", "n1", gpus=2)
    cluster.jobs["stopping"]["spec"]["suspend"] = True
    cluster.job("next", 2)
    assert started(cluster) == []
    cluster.pods.clear()
    assert started(cluster) == ["next"]
    # A process of the deleted pod still uses a GPU.
    cluster.nodes = [node("n1", 2, {0: "uid-stopping-1"})]
    assert started(cluster) == []


def test_newest_pod_of_a_job_has_its_node() -> None:
    cluster = QueuedCluster(node("n1", 2), node("n2", 2))
    old = cluster.start("again", "n1", gpus=2)
    new = cluster.start("again", "n2")
    new["metadata"] |= {"name": "again-2", "uid": "uid-again-2"}
    new["metadata"]["creationTimestamp"] = "2026-01-01T03:00:00Z"
    assert new["metadata"]["creationTimestamp"] > old["metadata"]["creationTimestamp"]
    cluster.job("next", 2)
    assert started(cluster) == []  # n1 is used until the old pod has ended
    cluster.pods.remove(old)
    assert started(cluster) == ["next"]


def test_node_that_is_not_ready_or_not_readable_offers_no_gpus() -> None:
    cluster = QueuedCluster(node("n1", 2))
    cluster.job("one", 1)
    cluster.job("two", 1)
    (topology,) = cluster.nodes
    topology["status"]["gpus"][0]["healthy"] = False
    assert started(cluster) == ["one"]
    condition = {"type": "Ready", "status": "False", "reason": "NotReady", "message": ""}
    topology["status"]["conditions"] = [{**condition, "lastTransitionTime": NOW}]
    assert started(cluster) == []
    cluster.nodes = [{"metadata": {"name": "n1"}, "spec": {"gpus": 3}}]
    assert started(cluster) == []


def test_ended_pods_pods_without_gpus_and_invalid_pods_are_skipped() -> None:
    pods = [pod("ended", phase="Succeeded"), pod("cpu", 0), {"metadata": {}}, pod("gpu")]
    assert [each.uid for each in parse_gpu_pods(pods, RESOURCE)] == ["uid-gpu"]


def test_waiting_job_gets_position_reason_and_the_time_at_which_it_began_to_wait() -> None:
    cluster = QueuedCluster(node("n1", 1))
    cluster.job("large", 4)
    found = plan(cluster)
    change = change_of("large", found)
    assert change is not None
    assert change.after is not None
    assert (change.after.position, change.after.waiting_since) == (1, NOW)
    assert "waiting for 4 free GPUs on one node" in (change.after.reason or "")
    assert (found.waiting, change.waited_seconds) == (1, None)
    cluster.jobs["large"]["status"] = {"queue": change.after.to_json()}
    cluster.now = "2026-01-01T01:00:30Z"
    later = plan(cluster)
    assert later.changes == ()
    assert found.waiting_since == later.waiting_since == datetime.fromisoformat(NOW).timestamp()


def test_started_job_gets_the_time_that_it_waited() -> None:
    cluster = QueuedCluster(node("n1", 4))
    status = {"position": 2, "reason": "waits", "waitingSince": EARLIER, "waitedSeconds": 7}
    cluster.job("train", status=status)
    change = change_of("train", plan(cluster))
    assert change is not None
    assert change.after == QueueStatus(waited_seconds=67)
    assert change.waited_seconds == 60
    # The same after an operator was killed between the start and the write of the status.
    cluster.start("train", "n1", started=NOW)
    change = change_of("train", plan(cluster))
    assert change is not None
    assert change.after == QueueStatus(waited_seconds=67, running_since=NOW)
    assert change.waited_seconds == 60


def test_job_that_never_waited_was_admitted_after_0_s() -> None:
    cluster = QueuedCluster(node("n1", 4))
    cluster.job("train")
    change = change_of("train", plan(cluster))
    assert change is not None
    assert (change.after, change.waited_seconds) == (QueueStatus(waited_seconds=0), 0)


def test_job_that_the_user_suspends_leaves_the_queue_without_an_admission() -> None:
    cluster = QueuedCluster(node("n1", 4))
    cluster.job("train", suspend=True, status={"position": 1, "waitingSince": EARLIER})
    change = change_of("train", plan(cluster))
    assert change is not None
    assert change.after == QueueStatus(waited_seconds=60)
    assert change.waited_seconds is None
    assert plan(cluster).starts == ()


def test_run_time_of_former_pods_is_added() -> None:
    cluster = QueuedCluster(node("n1", 4))
    cluster.start("train", "n1", started=EARLIER)
    cluster.jobs["train"]["status"] = {"queue": {"runningSince": LONG_AGO, "ranSeconds": 5}}
    change = change_of("train", plan(cluster))
    assert change is not None
    assert change.after == QueueStatus(running_since=EARLIER, ran_seconds=605)
    cluster.pods.clear()
    cluster.jobs["train"]["status"] = {"queue": {"runningSince": EARLIER}}
    change = change_of("train", plan(cluster))
    assert change is not None
    assert change.after == QueueStatus(ran_seconds=60)


@pytest.mark.parametrize(
    ("condition", "time", "ran"),
    [
        ("Suspended", "2026-01-01T00:55:00Z", 300),
        ("Complete", "2026-01-01T00:55:00Z", 300),
        ("Failed", "2026-01-01T00:55:00Z", 300),
        ("Suspended", None, 600),  # another client wrote it
        ("Suspended", "2026-01-01T00:49:00Z", 600),  # before the pod started
        ("Suspended", "2026-01-01T01:01:00Z", 600),  # the clock of the controller is ahead
        ("FailureTarget", "2026-01-01T00:55:00Z", 600),
        ("Failed", LONG_AGO, 0),
    ],
)
def test_time_in_which_the_operator_was_down_is_no_run_time(
    condition: str, time: str | None, ran: int
) -> None:
    cluster = QueuedCluster(node("n1", 4))
    cluster.job("train", suspend=True, status={"runningSince": LONG_AGO})
    conditions = [
        {"type": "Other", "status": "True"},
        {"type": "Suspended", "status": "False", "lastTransitionTime": EARLIER},
        {"type": condition, "status": "True", **({"lastTransitionTime": time} if time else {})},
    ]
    cluster.children["train"]["status"] = {"conditions": conditions}
    change = change_of("train", plan(cluster))
    assert change is not None
    assert change.after == QueueStatus(ran_seconds=ran)


@pytest.mark.parametrize("bound", [True, False])
def test_former_pod_ran_until_the_next_one_was_created(*, bound: bool) -> None:
    """The Job creates the next pod when the former one has ended."""
    cluster = QueuedCluster(node("n1", 4))
    pod = cluster.start("train", "n1" if bound else None, started=EARLIER)
    pod["metadata"]["creationTimestamp"] = "2026-01-01T00:55:00Z"
    cluster.jobs["train"]["status"] = {"queue": {"runningSince": LONG_AGO}}
    change = change_of("train", plan(cluster))
    assert change is not None
    since = EARLIER if bound else None
    assert change.after == QueueStatus(running_since=since, ran_seconds=300)


def test_pod_of_a_job_that_was_just_suspended_ran_until_now() -> None:
    cluster = QueuedCluster(node("n1", 4))
    pod = cluster.start("train", "n1", started=LONG_AGO)
    pod["metadata"]["creationTimestamp"] = LONG_AGO
    cluster.jobs["train"]["spec"]["suspend"] = True
    cluster.jobs["train"]["status"] = {"queue": {"runningSince": LONG_AGO}}
    change = change_of("train", plan(cluster))
    assert change is not None
    assert change.after == QueueStatus(ran_seconds=600)


def test_status_without_content_is_removed() -> None:
    cluster = QueuedCluster()
    cluster.job("train", suspend=True, status={"position": 1, "reason": "waits"})
    change = change_of("train", plan(cluster))
    assert change is not None
    assert change.after is None


def test_changes_of_new_and_started_jobs_come_before_changes_of_positions() -> None:
    cluster = QueuedCluster(node("n1", 1))
    waits = {"position": 9, "reason": "waits", "waitingSince": EARLIER}
    cluster.job("known", 4, created="2026-01-01T00:00:01Z", status=waits)
    cluster.job("started", 1, created="2026-01-01T00:00:02Z", status=waits)
    cluster.job("new", 4, created="2026-01-01T00:00:03Z")
    names = [each.job.job.key.name for each in plan(cluster).changes]
    assert names == ["started", "new", "known"]


def test_queue_is_checked_again_when_a_job_becomes_overdue() -> None:
    cluster = QueuedCluster(node("n1", 1))
    assert plan(cluster).recheck_after_seconds is None
    cluster.job("large", 4, status={"waitingSince": "2026-01-01T00:50:20Z"})
    assert plan(cluster).recheck_after_seconds == 20
    cluster.job("large", 4, status={"waitingSince": EARLIER})
    assert plan(cluster).recheck_after_seconds == RECHECK_SECONDS


def test_queue_is_checked_again_soon_while_a_started_job_has_no_pod() -> None:
    cluster = QueuedCluster(node("n1", 1))
    cluster.start("train", "n1")
    assert plan(cluster).recheck_after_seconds is None
    cluster.pods.clear()
    assert plan(cluster).recheck_after_seconds == POD_CHECK_SECONDS


def test_small_job_is_kept_off_the_node_of_an_overdue_job() -> None:
    cluster = QueuedCluster(node("n1", 4), node("n2", 1))
    cluster.start("running", "n1")
    cluster.job("large", 4, status={"waitingSince": LONG_AGO})
    cluster.job("small", 1)
    (start,) = plan(cluster).starts
    affinity = start.patch["spec"]["template"]["spec"]["affinity"]
    assert affinity == without_nodes(None, ["n1"])
    # While its pod is not bound, its GPU is assumed on n2.
    cluster.start("small", started=NOW)
    cluster.children["small"]["spec"]["template"]["spec"]["affinity"] = affinity
    cluster.job("next", 1)
    assert plan(cluster).starts == ()


def test_status_names_the_reserved_node_until_the_job_starts() -> None:
    cluster = QueuedCluster(node("n1", 4))
    cluster.start("running", "n1")
    cluster.job("large", 4, status={"waitingSince": LONG_AGO})
    change = change_of("large", plan(cluster))
    assert change is not None
    assert change.after is not None
    assert change.after.reserved_node == "n1"
    free = QueuedCluster(node("n1", 4))
    free.job("large", 4, status=change.after.to_json())
    change = change_of("large", plan(free))
    assert change is not None
    assert change.after is not None
    assert (change.after.position, change.after.reserved_node) == (None, None)


def test_job_that_ran_before_is_not_kept_off_a_node() -> None:
    cluster = QueuedCluster(node("n1", 4), node("n2", 1))
    cluster.start("running", "n1")
    cluster.job("large", 4, status={"waitingSince": LONG_AGO})
    cluster.job("again", 1)
    cluster.children["again"]["status"] = {"startTime": EARLIER}
    assert plan(cluster).starts == ()
    change = change_of("again", plan(cluster))
    assert change is not None
    assert change.after is not None
    assert "node n1 is reserved for default/large" in (change.after.reason or "")


def test_rejected_job_keeps_its_place_and_gives_its_gpus_to_others() -> None:
    cluster = QueuedCluster(node("n1", 1))
    cluster.job("first")
    cluster.job("second", created=EARLIER)
    found = queue_plan(cluster.found({ObjectKey("default", "first"): "denied"}), RULES)
    assert [start.key.name for start in found.starts] == ["second"]
    change = change_of("first", found)
    assert change is not None
    assert change.after is not None
    assert (change.after.position, change.after.reason) == (1, "denied")


def event_of(name: str, cluster: QueuedCluster) -> ObjectEvent | None:
    change = change_of(name, plan(cluster))
    assert change is not None
    return queue_event(QueueOrder.SRTF, change)


def test_event_of_a_started_job_states_the_order_and_the_wait() -> None:
    cluster = QueuedCluster(node("n1", 4))
    cluster.job("train", status={"position": 1, "waitingSince": EARLIER})
    note = "the queue (order SRTF) has started the job after 60 s"
    assert event_of("train", cluster) == ObjectEvent("Normal", "Admitted", note)


def test_event_of_a_job_that_begins_to_wait_states_its_position_and_the_reason() -> None:
    cluster = QueuedCluster(node("n1", 1))
    cluster.job("large", 4)
    note = "in the queue (order SRTF) at position 1: waiting for 4 free GPUs on one node"
    found = event_of("large", cluster)
    assert found is not None
    assert (found.type, found.reason) == ("Normal", "Queued")
    assert found.note.startswith(note)


def test_changed_position_is_no_event() -> None:
    cluster = QueuedCluster(node("n1", 1))
    cluster.job("large", 4, status={"position": 2, "waitingSince": EARLIER})
    assert event_of("large", cluster) is None
