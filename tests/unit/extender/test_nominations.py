"""How nominations end, which are withdrawn, and which pods get none for a while."""

import pytest

from gputopo_extender.nomination.nominations import (
    HELD_SECONDS,
    MOST_FAILURES,
    PREEMPT_SECONDS,
    UNUSED_SECONDS,
    NominationResult,
)
from support.builders.objects import Document
from support.extender.nominating import Cluster, queue_pod, queued


def cluster_with(*documents: Document) -> Cluster:
    cluster = Cluster()
    cluster.put_node("n1")
    cluster.put_node("n2")
    cluster.put(*documents)
    return cluster


def nominated(cluster: Cluster, name: str = "a", version: int | None = 2) -> None:
    """Nominate n1 for a pod; ``version`` is that of the pod with the nomination."""
    cluster.nominations.begin(cluster.queue.pods[f"uid-{name}"], "n1", 0.0)
    if version is not None:
        cluster.nominations.written(f"uid-{name}", version)


def withdrawals(cluster: Cluster, now: float = 1.0) -> list[str]:
    return [pod.key.name for pod in cluster.nominations.end_by(now)]


@pytest.mark.parametrize(
    ("later", "result"),
    [
        (queued("a", node="n1"), "used"),
        (queued("a", node="n2"), "elsewhere"),
        (queued("a", tried=True, version=3), "unschedulable"),
        (queued("a", version=3), "replaced"),
        (queued("a", nominated="n2", manager="kubectl", version=3), "replaced"),
        ({**queued("a"), "status": {"phase": "Failed"}}, "pod_deleted"),
        (queued("a", schedulingGates=[{"name": "g"}]), "pod_deleted"),
    ],
)
def test_nomination_ends_by_what_the_watch_shows(later: Document, result: str) -> None:
    cluster = cluster_with(queued("a"))
    nominated(cluster)
    cluster.put(queued("a", version=1))
    assert withdrawals(cluster) == [], "the watch does not show the write yet"
    cluster.put(queued("a", nominated="n1", version=2))
    assert withdrawals(cluster) == []
    assert list(cluster.nominations.open()) == ["uid-a"]
    cluster.put(later)
    assert withdrawals(cluster) == []
    assert cluster.nominations.open() == {}
    assert cluster.results == [NominationResult.MADE, NominationResult(result)]


def test_nomination_that_cannot_be_used_is_withdrawn_once() -> None:
    cluster = cluster_with(queued("a"))
    nominated(cluster)
    cluster.put(queued("a", nominated="n1", tried=True, version=3))
    assert withdrawals(cluster) == ["a"]
    assert withdrawals(cluster) == ["a"], "until it is written"
    cluster.nominations.withdrawn("uid-a", 4)
    assert withdrawals(cluster) == [], "the watch does not show the write yet"
    cluster.put(queued("a", tried=True, version=4))
    assert withdrawals(cluster) == []
    assert cluster.results[-2:] == [NominationResult.UNSCHEDULABLE, NominationResult.WITHDRAWN]
    assert not cluster.nominations.may_begin(cluster.queue.pods["uid-a"], 1e9), "never again"


def test_unused_nominations_and_those_of_deleted_nodes_are_withdrawn() -> None:
    cluster = cluster_with(queued("a"), queued("b"))
    nominated(cluster)
    cluster.put(queued("a", nominated="n1", version=2))
    assert withdrawals(cluster, UNUSED_SECONDS) == []
    assert withdrawals(cluster, UNUSED_SECONDS + 1) == ["a"]
    cluster.put(queued("b", nominated="n1", version=2))
    assert withdrawals(cluster) == ["a"]
    cluster.queue.drop_node("n1")
    assert withdrawals(cluster) == ["a", "b"]
    assert cluster.results[-2:] == [NominationResult.UNUSED, NominationResult.NODE_DELETED]


def test_nomination_that_was_perhaps_written_stays_open_until_the_watch_shows_it() -> None:
    cluster = cluster_with(queued("a"))
    nominated(cluster, version=None)
    cluster.put(queued("a", version=5))
    assert withdrawals(cluster) == []
    assert withdrawals(cluster, UNUSED_SECONDS + 1) == [], "there is nothing to withdraw"
    assert cluster.nominations.open() == {}
    cluster.put(queued("a", nominated="n1", version=6))
    assert withdrawals(cluster) == ["a"], "the API server carried out the write late"


def test_rejected_write_leaves_nothing_and_the_pod_may_get_another() -> None:
    cluster = cluster_with(queued("a"))
    pod = cluster.queue.pods["uid-a"]
    nominated(cluster, version=None)
    assert not cluster.nominations.may_begin(pod, 0.0)
    cluster.nominations.not_written("uid-a")
    assert cluster.nominations.may_begin(pod, 0.0)
    assert cluster.results == [NominationResult.NOT_WRITTEN]


def test_new_leader_adopts_usable_nominations_and_withdraws_the_others() -> None:
    cluster = cluster_with(
        queued("usable", nominated="n1"),
        queued("tried", nominated="n1", tried=True),
        queued("gone", nominated="n9"),
        queued("gated", nominated="n1", schedulingGates=[{"name": "g"}]),
        queued("preemptor", nominated="n1", tried=True, manager="kube-scheduler"),
        queued("users", nominated="n1", manager="kubectl"),
        queued("plain"),
        queued("bound", nominated="n1", node="n1"),
    )
    assert withdrawals(cluster) == ["tried", "gone", "gated"]
    assert list(cluster.nominations.open()) == ["uid-usable"]
    cluster.nominations.clear()
    assert cluster.nominations.open() == {}
    cluster.nominations.written("uid-usable", 2)
    assert cluster.nominations.open() == {}, "the write of a former leader"


def failed(cluster: Cluster, number: int) -> None:
    name = f"f{number}"
    cluster.put(queued(name))
    nominated(cluster, name)
    cluster.put(queued(name, node="n2"))
    withdrawals(cluster, 10.0)


def test_kind_whose_nominations_fail_in_a_row_gets_none_for_a_while() -> None:
    cluster = cluster_with(queued("a"))
    pod, other = cluster.queue.pods["uid-a"], queue_pod(queued("o", cpu="3"))
    for number in range(MOST_FAILURES):
        assert cluster.nominations.may_begin(pod, 10.0)
        failed(cluster, number)
    assert not cluster.nominations.may_begin(pod, 10.0)
    assert cluster.nominations.may_begin(other, 10.0)
    assert cluster.nominations.may_begin(pod, 10.0 + HELD_SECONDS)
    failed(cluster, 9)
    assert not cluster.nominations.may_begin(pod, 10.0), "one more failure is enough then"
    cluster.put(queued("u"))
    nominated(cluster, "u")
    cluster.put(queued("u", node="n1"))
    withdrawals(cluster)
    assert cluster.nominations.may_begin(pod, 10.0), "a nomination was used"


def test_failures_of_a_limited_number_of_kinds_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputopo_extender.nomination.nominations._MOST_KINDS", 1)
    cluster = cluster_with(queued("a"))
    for number in range(MOST_FAILURES):
        failed(cluster, number)
    assert not cluster.nominations.may_begin(cluster.queue.pods["uid-a"], 10.0)
    cluster.put(queued("b", cpu="3"))
    nominated(cluster, "b")
    cluster.put(queued("b", cpu="3", node="n2"))
    withdrawals(cluster)
    assert cluster.nominations.may_begin(cluster.queue.pods["uid-a"], 10.0), "the oldest is dropped"


def test_pod_does_not_preempt_beside_nominations_of_its_priority() -> None:
    cluster = cluster_with(queued("a", priority=5))
    nominated(cluster)
    views = {
        name: queue_pod(queued(name, priority=priority)).view
        for name, priority in (("lower", 4), ("equal", 5), ("higher", 6), ("deleted", 1))
    }
    blocked = {
        name: cluster.nominations.blocks_preemption(view)
        for name, view in views.items()
        if view is not None
    }
    assert blocked == {"lower": True, "equal": True, "higher": False, "deleted": True}
    assert cluster.nominations.are_paused(), "otherwise later pods could block it for ever"
    known = {"uid-lower", "uid-equal"}
    assert cluster.nominations.unblock(known, 2.0) == []
    cluster.put(queued("a", node="n1", priority=5))
    withdrawals(cluster)
    assert cluster.nominations.unblock(known, 2.0) == ["uid-lower", "uid-equal"]
    assert cluster.nominations.unblock(known, 2.0) == []
    assert cluster.nominations.are_paused(), "kube-scheduler has not tried them yet"
    lower = views["lower"]
    assert lower is not None
    assert not cluster.nominations.blocks_preemption(lower)
    assert cluster.nominations.are_paused()
    assert cluster.nominations.unblock(known, 1.0 + PREEMPT_SECONDS) == []
    assert cluster.nominations.are_paused(), "its next try comes after those of all other pods"
    assert cluster.nominations.unblock(known, 2.0 + PREEMPT_SECONDS) == []
    assert not cluster.nominations.are_paused()


def test_pod_does_not_preempt_before_nominations_of_its_priority_are_withdrawn() -> None:
    cluster = cluster_with(queued("a", priority=5), queued("b", priority=5))
    nominated(cluster)
    cluster.put(queued("a", nominated="n1", tried=True, version=3, priority=5))
    view = cluster.queue.pods["uid-b"].view
    assert view is not None
    assert withdrawals(cluster) == ["a"]
    assert cluster.nominations.blocks_preemption(view)
    assert cluster.nominations.unblock(cluster.queue.pods, 2.0) == []
    cluster.nominations.withdrawn("uid-a", 4)
    assert withdrawals(cluster) == []
    assert cluster.nominations.blocks_preemption(view), "kube-scheduler may not have seen it"
    cluster.put(queued("a", tried=True, version=4, priority=5))
    assert cluster.nominations.unblock(cluster.queue.pods, 2.0) == ["uid-b"]
    assert not cluster.nominations.blocks_preemption(view)


def test_pod_does_not_preempt_beside_nominations_of_a_former_leader() -> None:
    cluster = cluster_with(queued("a", nominated="n1", priority=5), queued("b", priority=5))
    view = cluster.queue.pods["uid-b"].view
    assert view is not None
    cluster.nominations.clear()
    assert cluster.nominations.blocks_preemption(view), "they are not adopted yet"


def test_gpus_of_nominations_count_by_node_as_in_kube_scheduler() -> None:
    lower = queued("lower", 1, priority=1)
    cluster = cluster_with(*(queued(name, 2, priority=2) for name in ("a", "b", "own")), lower)
    cluster.put(queued("placed", 1, priority=3))
    for name in ("a", "b", "own", "lower", "placed"):
        nominated(cluster, name)
    view = cluster.queue.pods["uid-own"].view
    assert view is not None
    found = cluster.nominations.gpus_beside(view, lambda uid: uid == "uid-placed")
    assert found == {"n1": 4}


def test_unused_nominations_are_no_failures() -> None:
    cluster = cluster_with(queued("a"))
    for number in range(MOST_FAILURES):
        name = f"f{number}"
        cluster.put(queued(name))
        nominated(cluster, name)
        withdrawals(cluster, UNUSED_SECONDS + 1)
    assert cluster.nominations.may_begin(cluster.queue.pods["uid-a"], UNUSED_SECONDS + 1)
