"""Which pods of a node are resized, in which order, and when the operator decides again."""

from dataclasses import replace
from typing import Any

import pytest

from gputopo.api.tuning import Amounts
from gputopo.tuning.decide import AGAIN_SECONDS, POLL_SECONDS, next_steps
from gputopo.tuning.model import (
    NodePlan,
    PodResize,
    RecordUpdate,
    ResizeState,
    Target,
    TunedPod,
    TuningEvent,
)
from support.tuning.nodes import GIB, dataset_of, tuned, tuned_node, with_record


def plan_for(
    *pods: TunedPod, milli_cpu: int = 8000, memory: int = 64, **chosen: tuple[int, int]
) -> NodePlan:
    targets = {
        uid: Target(Amounts(cpus, gib * GIB), f"reason of {uid}")
        for uid, (cpus, gib) in chosen.items()
    }
    return next_steps(tuned_node(*pods, milli_cpu=milli_cpu, memory=memory * GIB), targets)


def resized(plan: NodePlan) -> dict[str, Amounts]:
    """Return the new amounts in the order of the steps."""
    return {step.uid: step.record.target for step in plan.steps if isinstance(step, PodResize)}


def with_memory(uid: str, milli_cpu: int, memory: int, **fields: Any) -> TunedPod:
    """Return a pod whose memory is tuned, and whose floor is 1 CPU and 1 GiB."""
    floor = {"floor": Amounts(1000, GIB), "done": True}
    bare = tuned(uid, milli_cpu, memory * GIB, dataset=dataset_of(GIB))
    return with_record(bare, **{**floor, **fields})


def with_cpus(uid: str, milli_cpu: int, **fields: Any) -> TunedPod:
    return replace(with_memory(uid, milli_cpu, 1, **fields), dataset=None)


def test_node_without_tuned_pods_has_an_empty_plan() -> None:
    assert plan_for() == NodePlan((), None)


def test_pod_with_its_target_has_an_empty_plan() -> None:
    assert plan_for(tuned("a", 2000), with_cpus("b", 3000), a=(2000, 1), b=(3000, 1)) == NodePlan()


def test_pod_without_a_target_is_not_resized() -> None:
    assert plan_for(tuned("a", 2000)) == NodePlan()


@pytest.mark.parametrize(("current", "expected"), [(0, 5), (7, 7)])
def test_rate_of_a_measurement_is_recorded_while_the_current_rate_is_unknown(
    current: int, expected: int
) -> None:
    pod = tuned(
        "a",
        2000,
        measured_micro_steps_per_second=current,
        profiled_micro_steps_per_second=5,
    )
    (step,) = plan_for(pod, a=(4000, 1)).steps
    assert step.record.before_micro_steps_per_second == expected


def test_first_resize_records_what_the_pod_had() -> None:
    pod = tuned("a", 2000, measured_micro_steps_per_second=7)
    plan = plan_for(pod, a=(4000, 1))
    (step,) = plan.steps
    assert isinstance(step, PodResize)
    record, now = step.record, Amounts(2000, GIB)
    assert (record.uid, record.floor, record.last) == ("a", now, now)
    assert (record.target, record.since) == (Amounts(4000, GIB), "2026-01-01T12:00:00Z")
    assert (record.reason, record.done, record.peak_memory) == ("reason of a", False, GIB)
    assert record.before_micro_steps_per_second == 7
    assert step.spec.request == Amounts(4000, GIB)
    assert (step.event, step.message) == (None, "")
    assert plan.check_after_seconds == POLL_SECONDS


def test_later_resize_keeps_what_was_learned() -> None:
    pod = with_cpus("a", 2000, most_milli_cpu=3000, least_memory=5, peak_memory=9 * GIB)
    (step,) = plan_for(pod, a=(4000, 1)).steps
    record = step.record
    assert record.floor == Amounts(1000, GIB)
    assert record.target.milli_cpu == record.most_milli_cpu == 3000
    assert (record.least_memory, record.peak_memory) == (5, 9 * GIB)


def test_raises_come_before_cuts() -> None:
    pods = with_cpus("a", 4000), with_cpus("b", 4000)
    plan = plan_for(*pods, a=(2000, 1), b=(6000, 1))
    assert list(resized(plan)) == ["b", "a"]


def test_no_pod_is_cut_below_its_floor_or_raised_above_its_most() -> None:
    low, high = with_cpus("a", 2000), replace(with_cpus("b", 2000), most_milli_cpu=3000)
    plan = plan_for(low, high, a=(10, 1), b=(5000, 1))
    assert resized(plan) == {"b": Amounts(3000, GIB), "a": Amounts(1000, GIB)}


def test_memory_that_is_not_tuned_does_not_change() -> None:
    plan = plan_for(with_cpus("a", 2000), a=(3000, 8))
    assert resized(plan) == {"a": Amounts(3000, GIB)}


def test_raise_that_does_not_fit_waits_and_the_next_one_is_done() -> None:
    pods = with_cpus("a", 3000), with_cpus("b", 3000)
    plan = plan_for(*pods, a=(6000, 1), b=(5000, 1))
    assert resized(plan) == {"b": Amounts(5000, GIB)}


def test_raise_of_memory_waits_until_the_cut_is_in_effect() -> None:
    a, b = with_memory("a", 2000, 32), with_memory("b", 2000, 32)
    first = plan_for(a, b, a=(2000, 16), b=(2000, 48))
    assert resized(first) == {"a": Amounts(2000, 16 * GIB)}
    cut = with_memory("a", 2000, 16)
    accepted = ResizeState(cut.spec.request, a.spec.request)
    assert resized(plan_for(replace(cut, state=accepted), b, a=(2000, 16), b=(2000, 48))) == {}
    done = plan_for(cut, b, a=(2000, 16), b=(2000, 48))
    assert resized(done) == {"b": Amounts(2000, 48 * GIB)}


def test_no_pod_is_raised_while_the_node_has_too_little_of_another_resource() -> None:
    pods = with_cpus("a", 2000), with_memory("b", 2000, 64)
    assert plan_for(*pods, a=(3000, 1), b=(2000, 64)) == NodePlan()


def test_pod_that_ran_out_of_memory_is_raised_first() -> None:
    plenty = with_cpus("a", 2000)
    starved = with_memory("b", 2000, 2, least_memory=8 * GIB)
    plan = plan_for(plenty, starved, milli_cpu=6000, a=(4000, 1), b=(3000, 8))
    assert resized(plan) == {"b": Amounts(3000, 8 * GIB)}


def test_ends_of_resizes_are_recorded_before_new_resizes() -> None:
    a, b = with_cpus("a", 2000, done=False, last=Amounts(1000, GIB)), with_cpus("b", 2000)
    plan = plan_for(a, b, a=(4000, 1), b=(3000, 1))
    assert [(step.uid, step.event) for step in plan.steps] == [("a", TuningEvent.RESIZED)]
    assert plan.check_after_seconds == AGAIN_SECONDS


def test_memory_is_given_back_before_other_resizes_are_reverted() -> None:
    small, large = Amounts(2000, 8 * GIB), Amounts(2000, 32 * GIB)
    raised = replace(
        with_memory("a", 4000, 8, last=small, done=False),
        state=ResizeState(small, small, "Infeasible"),
    )
    cut = replace(
        with_memory("b", 2000, 8, last=large, done=False),
        state=ResizeState(small, large, "Error", "limit below current usage"),
    )
    assert list(resized(plan_for(raised, cut)).items()) == [("b", large), ("a", small)]


def in_flight(milli_cpu: int = 4000, **fields: Any) -> TunedPod:
    """Return a pod that was raised from 2 CPUs; kubelet has not yet accepted this."""
    before = Amounts(2000, GIB)
    pod = with_cpus("a", milli_cpu, last=before, done=False, seconds_ago=5, **fields)
    return replace(pod, state=ResizeState(before, before))


def test_resize_in_flight_is_awaited() -> None:
    plan = plan_for(in_flight(), a=(6000, 1))
    assert plan == NodePlan((), POLL_SECONDS)


def test_resize_in_flight_can_be_cut() -> None:
    assert resized(plan_for(in_flight(), a=(3000, 1))) == {"a": Amounts(3000, GIB)}


def test_resize_of_kubelet_without_a_record_is_awaited() -> None:
    pod = replace(tuned("a", 4000), state=ResizeState(Amounts(2000, GIB)))
    assert plan_for(pod, a=(6000, 1)) == NodePlan((), POLL_SECONDS)


def test_pods_that_are_left_alone_are_not_resized_and_not_awaited() -> None:
    busy = ResizeState(Amounts(1, GIB))
    pods = [
        replace(tuned("a", 2000, obstacle="no limit"), state=busy),
        replace(tuned("b", 2000, measuring=True), state=busy),
        replace(with_cpus("c", 2000, pinned=True), state=busy),
    ]
    chosen: dict[str, Any] = {"a": (3000, 1), "b": (3000, 1), "c": (3000, 1)}
    assert plan_for(*pods, **chosen) == NodePlan()
    assert plan_for(*(replace(pod, state=ResizeState()) for pod in pods), **chosen) == NodePlan()


def test_revert_of_a_pinned_pod_is_awaited() -> None:
    pinned = with_cpus("a", 2000, pinned=True, done=False)
    pod = replace(pinned, state=ResizeState(Amounts(3000, GIB)))
    assert plan_for(pod) == NodePlan((), POLL_SECONDS)
    assert plan_for(replace(pod, measuring=True)) == NodePlan()


def killed_before_the_resize() -> TunedPod:
    pod = with_cpus("a", 2000, done=False, seconds_ago=5)
    assert pod.record is not None
    return replace(pod, record=pod.record.model_copy(update={"target": Amounts(4000, GIB)}))


def test_resize_before_which_the_operator_was_killed_is_repeated() -> None:
    plan = plan_for(killed_before_the_resize(), a=(4000, 1))
    assert resized(plan) == {"a": Amounts(4000, GIB)}


def test_resize_before_which_the_operator_was_killed_ends_if_it_is_not_needed_any_more() -> None:
    pod = killed_before_the_resize()
    plan = plan_for(pod, a=(2000, 1))
    (step,) = plan.steps
    assert isinstance(step, RecordUpdate)
    assert (step.record.target, step.record.done) == (Amounts(2000, GIB), True)
    assert plan_for(replace(pod, record=step.record), a=(2000, 1)).steps == ()
    assert plan_for(replace(pod, measuring=True)).steps == ()


def test_pod_is_not_raised_during_the_wait_after_a_deferred_raise() -> None:
    pod = with_cpus("a", 2000, deferrals=1, seconds_ago=20)
    assert plan_for(pod, a=(3000, 1)) == NodePlan((), 40)  # 60 s after the resize
    later = with_cpus("a", 2000, deferrals=1, seconds_ago=70)
    assert plan_for(later, a=(3000, 1)) == NodePlan((), 230)
    assert resized(plan_for(later, a=(1500, 1))) == {"a": Amounts(1500, GIB)}
    over = with_cpus("a", 2000, deferrals=1, seconds_ago=300)
    assert resized(plan_for(over, a=(3000, 1))) == {"a": Amounts(3000, GIB)}


def test_memory_is_not_raised_during_the_wait() -> None:
    pod = with_memory("a", 2000, 8, deferrals=1, seconds_ago=299)
    assert plan_for(pod, a=(2000, 16)) == NodePlan((), 1)


def test_clock_that_was_set_back_causes_no_wait() -> None:
    pod = with_cpus("a", 2000, deferrals=2, seconds_ago=-3600)
    assert plan_for(pod) == NodePlan((), None)
    assert resized(plan_for(pod, a=(3000, 1))) == {"a": Amounts(3000, GIB)}


def test_record_of_an_older_version_without_the_most_memory_is_continued() -> None:
    pod = with_memory("a", 2000, 8)
    (step,) = plan_for(pod, a=(2000, 4)).steps
    assert step.record.peak_memory == 8 * GIB


def test_one_cut_is_so_large_that_all_pods_fit_on_a_node_that_has_lost_cpus() -> None:
    """Otherwise kubelet accepts no cut: after each single one, the pods still do not fit."""
    a, b = (with_cpus(uid, 3900, floor=Amounts(1000, GIB)) for uid in "ab")
    plan = plan_for(a, b, milli_cpu=6000, a=(3000, 1), b=(3000, 1))
    assert resized(plan) == {"b": Amounts(2100, GIB), "a": Amounts(3000, GIB)}


def test_cut_that_is_large_enough_is_not_changed() -> None:
    pods = [with_cpus(uid, 3900, floor=Amounts(1000, GIB)) for uid in "ab"]
    plan = plan_for(*pods, milli_cpu=7000, a=(3000, 1), b=(3900, 1))
    assert resized(plan) == {"a": Amounts(3000, GIB)}


def test_pods_are_cut_to_their_targets_if_no_floor_is_low_enough() -> None:
    pods = [with_cpus(uid, 3900, floor=Amounts(2500, GIB)) for uid in "ab"]
    plan = plan_for(*pods, milli_cpu=6000, a=(3000, 1), b=(3000, 1))
    assert resized(plan) == dict.fromkeys("ab", Amounts(3000, GIB))


def test_cut_of_memory_that_the_node_has_lost_is_so_large_that_all_pods_fit() -> None:
    pods = [with_memory(uid, 2000, 30) for uid in "ab"]
    plan = plan_for(*pods, memory=40, a=(2000, 20), b=(2000, 20))
    assert resized(plan) == {"b": Amounts(2000, 10 * GIB), "a": Amounts(2000, 20 * GIB)}


def test_cut_that_kubelet_defers_becomes_larger_if_all_pods_then_fit() -> None:
    """An operator that was killed had written one of the cuts only."""
    held = Amounts(3900, GIB)
    deferred = ResizeState(held, held, "Deferred", "no CPU")
    pods = [
        replace(with_cpus(uid, 3000, last=held, done=False, seconds_ago=9), state=deferred)
        for uid in "ab"
    ]
    assert resized(plan_for(*pods, milli_cpu=6000, a=(3000, 1), b=(3000, 1))) == {
        "b": Amounts(2100, GIB)
    }


def test_pod_that_is_measured_is_not_cut_on_a_node_that_has_lost_cpus() -> None:
    held = Amounts(3900, GIB)
    deferred = ResizeState(held, held, "Deferred", "no CPU")
    cut = with_cpus("b", 3000, last=held, done=False, seconds_ago=9)
    pods = (tuned("a", 3900, measuring=True), replace(cut, state=deferred))
    assert resized(plan_for(*pods, milli_cpu=6000, b=(3000, 1))) == {"b": Amounts(2100, GIB)}
    resting = replace(with_cpus("c", 500), state=ResizeState(Amounts(500, GIB)))
    with_third = plan_for(*pods, resting, milli_cpu=6500, b=(3000, 1), c=(500, 1))
    assert resized(with_third) == {"b": Amounts(2100, GIB)}
