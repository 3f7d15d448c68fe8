"""How many jobs may join shared GPUs while their pods are not bound yet."""

from typing import Any

from gputopo.queueing.decide import decide_queue
from gputopo.queueing.joins import ExpectedJoins
from gputopo.queueing.model import (
    AdmittedJob,
    JoinableGpu,
    QueueOrder,
    QueueRules,
    QueueState,
    WaitingJob,
)

X, Y = JoinableGpu("n1", "x"), JoinableGpu("n1", "y")
NOW = 100.0
RULES = QueueRules(QueueOrder.FIFO, 1000)


def test_as_many_jobs_join_as_gpus_are_left_in_each_order_of_binding() -> None:
    joins = ExpectedJoins()
    both = frozenset({X, Y})
    for permitted in (True, True, False):
        assert joins.permits(both, needed=True) is permitted
        joins.add(both, needed=True)
    assert not ExpectedJoins().permits(frozenset(), needed=True)


def test_job_with_an_idle_gpu_may_join_instead_and_counts() -> None:
    joins = ExpectedJoins()
    joins.add(frozenset({X}), needed=False)
    assert not joins.permits(frozenset({X}), needed=True)
    assert joins.permits(frozenset({Y}), needed=True)
    joins.add(frozenset({Y}), needed=True)
    assert not joins.permits(frozenset({Y}), needed=False)
    assert joins.permits(frozenset({X}), needed=False)


def state(
    *waiting: WaitingJob, free: int = 0, admitted: tuple[AdmittedJob, ...] = ()
) -> QueueState:
    shares = AdmittedJob("shares", 1, "n1", 0.0, shares="x")
    return QueueState({"n1": 1, "n2": free}, (shares, *admitted), waiting, NOW)


def waiting(name: str, *joins: JoinableGpu, **fields: Any) -> WaitingJob:
    return WaitingJob(name, 1, 0.0, 50.0, sharing=True, joins=frozenset(joins), **fields)


def test_sharing_job_waits_if_it_could_take_the_only_gpu_of_one_that_has_started() -> None:
    unbound = AdmittedJob("unbound", 1, None, 0.0, frozenset({"n2"}), joins=frozenset({X}))
    found = decide_queue(state(waiting("new", X), free=1, admitted=(unbound,)), RULES)
    assert found.admitted == ()
    (place,) = found.waiting
    assert place.reason == (
        "waiting until the pods of other sharing jobs, which have started, are bound"
    )
    found = decide_queue(state(waiting("new"), free=1, admitted=(unbound,)), RULES)
    assert [each.job for each in found.admitted] == ["new"]


def test_started_job_that_finds_no_gpu_any_more_gets_a_reservation() -> None:
    unbound = AdmittedJob("unbound", 1, None, 0.0, frozenset({"n2"}))
    found = decide_queue(state(waiting("new", X), admitted=(unbound,)), RULES)
    assert found.admitted == ()
    assert found.waiting[0].reason.endswith("node n1 is reserved for unbound")


def test_job_that_ran_before_cannot_be_kept_off_idle_gpus_and_reserved_nodes() -> None:
    unbound = AdmittedJob("unbound", 1, None, 0.0, frozenset({"n1"}))
    ran = waiting("ran", X, can_avoid_nodes=False)
    found = decide_queue(state(ran, free=1, admitted=(unbound,)), RULES)
    assert found.admitted == ()
    found = decide_queue(state(ran), RULES)
    assert [each.job for each in found.admitted] == ["ran"]


def test_shared_gpu_is_free_when_its_last_job_has_ended() -> None:
    jobs = (
        AdmittedJob("old", 1, "n1", 10.0, shares="x"),
        AdmittedJob("new", 1, "n1", 60.0, shares="x"),
        AdmittedJob("whole", 1, "n2", 50.0),
    )
    large = WaitingJob("large", 1, 0.0, 0.0)
    found = decide_queue(QueueState({"n1": 1, "n2": 1}, jobs, (large,), 2000.0), RULES)
    assert found.waiting[0].node == "n2"


def test_gpus_of_a_shared_gpu_do_not_depend_on_the_order_of_its_jobs() -> None:
    # The agent sees the first job on one more GPU than the scheduler chose.
    both, one = (
        AdmittedJob(name, gpus, "n1", 0.0, shares="x") for name, gpus in (("a", 2), ("b", 1))
    )
    new = WaitingJob("new", 3, 0.0, 0.0)
    for jobs in ((both, one), (one, both)):
        assert decide_queue(QueueState({"n1": 4}, jobs, (new,), 0.0), RULES).admitted == ()
