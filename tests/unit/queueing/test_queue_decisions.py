"""Which waiting jobs start, which node is reserved, and why the other jobs wait."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gputopo.queueing.decide import decide_queue
from gputopo.queueing.model import (
    AdmittedJob,
    Offer,
    QueueDecision,
    QueueOrder,
    QueuePlace,
    QueueRules,
    QueueStart,
    QueueState,
    WaitingJob,
)

NOW = 1000.0
RULES = QueueRules(QueueOrder.FIFO, max_skip_seconds=100)


def new(job: str, gpus: int, **fields: Any) -> WaitingJob:
    return WaitingJob(job, gpus, **{"created": NOW - 10, "waiting_since": NOW - 10, **fields})


def overdue(job: str, gpus: int, **fields: Any) -> WaitingJob:
    return new(job, gpus, **{"waiting_since": NOW - 100, **fields})


def running(job: str, gpus: int, node: str | None, since: float = 0.0) -> AdmittedJob:
    return AdmittedJob(job, gpus, node, since)


def decide(
    capacities: Mapping[str, int],
    waiting: list[WaitingJob],
    *admitted: AdmittedJob,
    rejected: Mapping[str, str] | None = None,
    **fields: Any,
) -> QueueDecision:
    state = QueueState(capacities, admitted, tuple(waiting), NOW, rejected or {}, **fields)
    return decide_queue(state, RULES)


def started(decision: QueueDecision) -> list[str]:
    return [each.job for each in decision.admitted]


def test_jobs_whose_gpus_are_free_on_one_node_start() -> None:
    decision = decide({"n1": 4, "n2": 2}, [new("a", 2), new("b", 4), new("c", 1)])
    assert started(decision) == ["a", "b"]
    reason = "waiting for a free GPU"
    assert decision.waiting == (QueuePlace("c", 1, reason),)


def test_later_job_starts_while_an_earlier_one_waits_for_more_gpus() -> None:
    decision = decide({"n1": 2, "n2": 4}, [new("a", 4), new("b", 1)], running("r", 1, "n2"))
    assert started(decision) == ["b"]
    assert decision.waiting == (QueuePlace("a", 1, "waiting for 4 free GPUs on one node"),)


def test_free_gpus_of_two_nodes_do_not_add_up() -> None:
    assert started(decide({"n1": 2, "n2": 2}, [new("a", 3)])) == []


def test_job_too_large_for_every_node_waits_and_reserves_nothing() -> None:
    decision = decide({"n1": 4}, [overdue("a", 8), new("b", 1)])
    assert started(decision) == ["b"]
    (place,) = decision.waiting
    assert place.node is None
    assert place.reason.endswith("without the GPUs of other pods, no node has so many healthy GPUs")


def test_node_is_reserved_for_an_overdue_job() -> None:
    jobs = [overdue("big", 4), new("small", 1), new("tiny", 1)]
    decision = decide({"n1": 4, "n2": 1}, jobs, running("r", 1, "n1"))
    assert decision.admitted == (QueueStart("small", avoids=("n1",)),)
    assert decision.waiting == (
        QueuePlace(
            "big", 1, "waiting for 4 free GPUs on one node; node n1 is reserved for this job", "n1"
        ),
        QueuePlace("tiny", 2, "waiting for a free GPU; node n1 is reserved for big"),
    )


def test_reserved_node_is_the_one_whose_last_job_to_end_started_first() -> None:
    # n2 has more free GPUs, but its job started after the two jobs of n1.
    jobs = (running("a", 1, "n1", 50), running("b", 2, "n1", 60), running("c", 2, "n2", 90))
    decision = decide({"n1": 4, "n2": 4}, [overdue("big", 4)], *jobs)
    assert decision.waiting[0].node == "n1"


def test_only_the_jobs_that_must_end_decide_which_node_is_reserved() -> None:
    # On n1 two GPUs suffice, so the job that started at 99 need not end.
    jobs = (
        running("a", 2, "n1", 10),
        running("b", 2, "n1", 99),
        running("c", 4, "n2", 50),
    )
    decision = decide({"n1": 4, "n2": 4}, [overdue("big", 2)], *jobs)
    assert decision.waiting[0].node == "n1"


def test_one_overdue_job_at_a_time_has_a_reserved_node() -> None:
    jobs = [overdue("a", 4), overdue("b", 4)]
    decision = decide({"n1": 4, "n2": 4}, jobs, running("r", 1, "n1"), running("s", 1, "n2"))
    assert [each.node for each in decision.waiting] == ["n1", None]


def test_jobs_that_start_with_an_overdue_job_are_kept_off_its_node() -> None:
    decision = decide({"n1": 4, "n2": 1}, [overdue("big", 4), new("small", 1)])
    assert decision.admitted == (QueueStart("big"), QueueStart("small", avoids=("n1",)))


def test_gpus_of_an_admitted_job_without_a_node_count_as_used() -> None:
    decision = decide({"n1": 4, "n2": 2}, [new("a", 4), new("b", 1)], running("r", 2, None))
    # The pod is assumed on n2, where it leaves no GPU free.
    assert started(decision) == ["a"]


REJECTED = AdmittedJob("r", 4, None, NOW, tenant="x", rejected=True)


def offer(seconds: float = 0.0, at: float | None = None, since: float = 0.0) -> Offer:
    return Offer("x", since, seconds, at)


def rejected(found: Offer, *others: AdmittedJob, **fields: Any) -> QueueDecision:
    """Decide with a rejected pod of 4 GPUs and a job that waits for one."""
    jobs = [new("a", 1)]
    return decide({"n1": 4}, jobs, REJECTED, *others, offers={"r": found}, **fields)


def test_pod_that_the_scheduler_rejects_beside_free_gpus_keeps_them_for_three_minutes() -> None:
    found = rejected(offer(160, NOW - 19))
    assert started(found) == []
    assert found.offers == {"r": offer(179, NOW)}
    assert found.failing == set()
    found = rejected(offer(161, NOW - 19))
    assert started(found) == ["a"]
    assert found.offers == {"r": offer(180)}
    assert found.failing == {"x"}
    assert rejected(offer(180)).failing == set(), "it is reported once"


def test_seconds_count_only_while_the_gpus_of_a_rejected_pod_are_free() -> None:
    busy = running("other", 1, "n1")
    found = rejected(offer(30, NOW - 19), busy)
    assert (started(found), found.offers) == ([], {"r": offer(49)})  # n1 is reserved for it
    assert rejected(offer(49)).offers == {"r": offer(49, NOW)}
    waits = AdmittedJob("r", 4, None, NOW, tenant="x")  # an extender had an error
    assert decide({"n1": 4}, [], waits, offers={"r": offer(49)}).offers == {"r": offer(49)}


def test_time_without_decisions_does_not_count() -> None:
    assert rejected(offer(0, NOW - 3600)).offers == {"r": offer(20, NOW)}
    assert rejected(offer(5, NOW + 60)).offers == {"r": offer(5, NOW)}, "the clock was set back"


def test_pod_that_the_scheduler_does_not_try_for_minutes_counts_as_rejected() -> None:
    untried = AdmittedJob("r", 4, None, NOW, tenant="x", rejected=None)
    for since, at in ((NOW - 299, None), (NOW - 300, NOW)):
        found = decide({"n1": 4}, [], untried, offers={"r": offer(since=since)})
        assert found.offers == {"r": offer(at=at, since=since)}
    assert decide({"n1": 4}, [], untried).offers == {"r": offer(since=NOW)}


def test_nothing_is_reserved_for_a_job_that_did_not_take_free_gpus() -> None:
    found = rejected(offer(180), running("other", 2, "n1"))
    assert started(found) == ["a"]
    assert found.offers == {"r": offer(180)}


def test_one_node_is_reserved_for_the_rejected_jobs_of_a_tenant() -> None:
    busy = [running("p", 1, "n1"), running("q", 1, "n2")]
    second = replace(REJECTED, job="s")
    found = decide({"n1": 4, "n2": 4}, [new("a", 1), new("b", 1)], REJECTED, second, *busy)
    assert found.admitted == (QueueStart("a", ("n1",)), QueueStart("b", ("n1",)))
    other = replace(second, tenant="y")
    assert started(decide({"n1": 4, "n2": 4}, [new("a", 1)], REJECTED, other, *busy)) == []


def test_tenant_whose_rejected_job_has_left_the_queue_fails() -> None:
    left = {"gone": offer(5), "new": offer(), "bound": offer(5)}
    bound = running("bound", 1, "n1")
    assert decide({"n1": 4}, [], bound, offers=left).failing == {"x"}
    del left["gone"]
    assert decide({"n1": 4}, [], bound, offers=left).failing == set()


def test_pods_that_start_are_kept_off_the_node_of_a_rejected_pod() -> None:
    found = decide({"n1": 4, "n2": 5}, [new("a", 1)], REJECTED)
    assert found.admitted == (QueueStart("a", avoids=("n1",)),)


def test_pods_that_start_are_kept_off_few_nodes() -> None:
    """They could not use these nodes as long as they exist."""
    nodes = {f"n{number:02}": 4 for number in range(31)}
    pods = (replace(REJECTED, job=f"r{number}") for number in range(30))
    (start,) = decide(nodes, [new("a", 1)], *pods).admitted
    assert len(start.avoids) == 20


def test_jobs_of_a_tenant_on_probation_start_one_after_the_other() -> None:
    jobs = [new("a", 1, tenant="x"), new("b", 1, tenant="x"), new("c", 1, tenant="y")]
    probation = frozenset({"x"})
    found = decide({"n1": 4}, jobs, probation=probation)
    assert started(found) == ["a", "c"]
    assert "its jobs start one after the other" in found.waiting[0].reason
    unbound = AdmittedJob("u", 1, None, NOW, tenant="x")
    assert started(decide({"n1": 4}, jobs, unbound, probation=probation)) == ["c"]
    assert started(decide({"n1": 4}, jobs, unbound)) == ["a", "b", "c"]
    # It holds nothing, so the next one has its turn.
    declined = {"u": offer(180)}
    found = decide({"n1": 4}, jobs, unbound, probation=probation, offers=declined)
    assert started(found) == ["a", "c"]


def test_gpus_that_a_tenant_did_not_take_do_not_all_go_to_its_next_jobs() -> None:
    jobs = [new("a", 1, tenant="x"), new("b", 1, tenant="x"), new("c", 1, tenant="y")]
    found = decide({"n1": 4}, jobs, REJECTED, offers={"r": offer(180 - 5, NOW - 5)})
    assert started(found) == ["a", "c"]


@pytest.mark.parametrize("busy", [[], [running("r", 1, "n1")]])
def test_overdue_job_keeps_its_reservation_while_another_has_the_turn(
    busy: list[AdmittedJob],
) -> None:
    jobs = [overdue("big", 4, tenant="x"), new("small", 1)]
    turn = AdmittedJob("u", 1, None, NOW, frozenset({"n1"}), tenant="x")
    found = decide({"n1": 4}, jobs, turn, *busy, probation=frozenset({"x"}))
    assert started(found) == []
    assert found.waiting[0].node == "n1"


def test_admitted_job_without_a_node_is_not_assumed_on_a_node_that_it_avoids() -> None:
    kept_off = AdmittedJob("r", 2, None, NOW, frozenset({"n2"}))
    assert started(decide({"n1": 4, "n2": 2}, [new("a", 2), new("b", 2)], kept_off)) == ["a", "b"]
    assert started(decide({"n1": 4, "n2": 2}, [new("a", 4)], kept_off)) == []


def test_node_is_reserved_for_an_admitted_job_that_fits_nowhere_now() -> None:
    jobs = [new("small", 1), new("tiny", 1)]
    decision = decide({"n1": 4, "n2": 1}, jobs, running("r", 2, "n1"), running("big", 4, None))
    assert decision.admitted == (QueueStart("small", avoids=("n1",)),)
    assert decision.waiting[0].reason == "waiting for a free GPU; node n1 is reserved for big"


def test_job_that_cannot_be_kept_off_a_reserved_node_waits() -> None:
    jobs = [overdue("big", 4), new("again", 1, can_avoid_nodes=False)]
    decision = decide({"n1": 4, "n2": 1}, jobs, running("r", 1, "n1"))
    assert started(decision) == []
    assert "node n1 is reserved for big; this job has run before" in decision.waiting[1].reason
    # With two GPUs, it does not fit on the reserved node anyway.
    jobs = [overdue("big", 4), new("again", 2, can_avoid_nodes=False)]
    assert started(decide({"n1": 4, "n2": 2}, jobs, running("r", 3, "n1"))) == ["again"]


def test_rejected_job_leaves_its_gpus_to_others_and_reserves_nothing() -> None:
    jobs = [overdue("a", 1), new("b", 1)]
    decision = decide({"n1": 1}, jobs, rejected={"a": "denied"})
    assert started(decision) == ["b"]
    assert decision.waiting == (QueuePlace("a", 1, "denied"),)


def test_jobs_on_a_node_with_fewer_healthy_gpus_leave_none_free() -> None:
    assert started(decide({"n1": 1}, [new("a", 1)], running("r", 4, "n1"))) == []


def test_job_on_an_unknown_node_uses_no_known_gpus() -> None:
    assert started(decide({"n1": 1}, [new("a", 1)], running("r", 1, "gone"))) == ["a"]


N1, N2 = frozenset({"n1"}), frozenset({"n2"})


def test_job_starts_only_if_a_node_that_it_may_use_has_its_gpus_free() -> None:
    jobs = [new("a", 4, avoids=N2), new("b", 4, avoids=N1)]
    decision = decide({"n1": 4, "n2": 4}, jobs, running("r", 1, "n1"))
    assert decision.admitted == (QueueStart("b"),)
    (place,) = decision.waiting
    assert place.reason == (
        "waiting for 4 free GPUs on one node; "
        "node selector, affinity and taints permit 1 of 2 nodes"
    )


def test_job_that_may_use_no_node_with_enough_gpus_says_so() -> None:
    (place,) = decide({"n1": 4, "n2": 1}, [overdue("a", 2, avoids=N1)]).waiting
    assert place.node is None
    assert "permit 1 of 2 nodes; without the GPUs of other pods, no node has" in place.reason


def test_node_is_reserved_only_if_the_overdue_job_may_use_it() -> None:
    # n1 would have enough free GPUs first.
    jobs = (running("a", 1, "n1", 50), running("b", 1, "n2", 90))
    decision = decide({"n1": 4, "n2": 4}, [overdue("big", 4, avoids=N1)], *jobs)
    assert decision.waiting[0].node == "n2"


def test_each_pool_of_nodes_can_have_a_reserved_node() -> None:
    jobs = [overdue("a", 4, avoids=N2), overdue("b", 4, avoids=N1), overdue("c", 4)]
    decision = decide({"n1": 4, "n2": 4}, jobs, running("r", 1, "n1"), running("s", 1, "n2"))
    assert [each.node for each in decision.waiting] == ["n1", "n2", None]


def test_job_that_may_not_use_the_reserved_node_is_not_kept_off_it_by_name() -> None:
    jobs = [overdue("big", 4), new("small", 1, avoids=N1)]
    again = new("again", 1, avoids=N1, can_avoid_nodes=False)
    decision = decide({"n1": 4, "n2": 2}, [*jobs, again], running("r", 1, "n1"))
    assert decision.admitted == (QueueStart("again"), QueueStart("small"))


def test_overdue_jobs_that_start_together_leave_each_other_a_node() -> None:
    decision = decide({"n1": 1, "n2": 1}, [overdue("a", 1), overdue("b", 1)])
    assert decision.admitted == (QueueStart("a", avoids=("n2",)), QueueStart("b", avoids=("n1",)))


def test_overdue_job_is_kept_off_the_node_that_is_left_to_a_later_job() -> None:
    decision = decide({"n1": 1, "n2": 2}, [overdue("a", 1), new("b", 1), new("c", 1, avoids=N2)])
    assert decision.admitted == (QueueStart("a", avoids=("n2",)), QueueStart("b", avoids=("n1",)))
    # The third job may use n1 only, whose GPU is taken.
    assert [place.job for place in decision.waiting] == ["c"]


def test_jobs_keep_off_the_node_of_a_job_that_has_run_before_only_if_it_needs_this_node() -> None:
    again = overdue("again", 2, can_avoid_nodes=False)
    decision = decide({"n1": 2, "n2": 1}, [again, new("b", 1)])
    assert decision.admitted == (QueueStart("again"), QueueStart("b", avoids=("n1",)))
    decision = decide({"n1": 2, "n2": 2}, [again, new("b", 2)])
    assert decision.admitted == (QueueStart("again"), QueueStart("b"))
