"""How the newest resize of a pod has ended, and what the operator then records."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gputopo.api.tuning import Amounts
from gputopo.tuning.faults import finding
from gputopo.tuning.model import PodResize, RecordUpdate, ResizeState, TunedPod, TuningEvent
from gputopo.tuning.progress import known_amounts
from gputopo.tuning.qos import resized_spec
from gputopo.tuning.waits import DEFERRED_SECONDS, wait_left
from support.tuning.cluster import STATIC
from support.tuning.nodes import GIB, NOW, dataset_of, record, tuned

LOW, HIGH = Amounts(2000, 8 * GIB), Amounts(4000, 16 * GIB)
IN_USE = (
    'cannot decrease memory limits: attempting to set container "main" memory limit (8589934592) '
    "below current usage (9589934592)"
)
CUT: dict[str, Any] = {"last": HIGH, "target": LOW, "floor": LOW, "peak_memory": HIGH.memory}


def pod_of(amounts: Amounts = HIGH, *, spec_limit: int | None = None, **fields: Any) -> TunedPod:
    """Return a pod with tuned memory; without ``last`` it was raised from LOW 10 s ago."""
    state = fields.pop("state", ResizeState(amounts, amounts))
    names = ("out_of_memory_at", "rejection", "measuring", "obstacle", "dataset")
    of_pod = {name: fields.pop(name) for name in names if name in fields}
    bare = tuned("a", *amounts, state=state, **{"dataset": dataset_of(GIB), **of_pod})
    if spec_limit is not None:
        bare = replace(bare, spec=bare.spec._replace(limit_milli_cpu=spec_limit))
    written = {"floor": LOW, "last": LOW, "target": HIGH, "seconds_ago": 10, **fields}
    return replace(bare, record=record(bare, written.pop("seconds_ago"), **written))


def update(pod: TunedPod) -> RecordUpdate:
    step = finding(pod, NOW)
    assert isinstance(step, RecordUpdate)
    return step


def reverted(pod: TunedPod) -> PodResize:
    step = finding(pod, NOW)
    assert isinstance(step, PodResize)
    assert step.record.rejected
    assert step.spec == resized_spec(pod.spec, step.record.target)
    return step


def not_applied(problem: Any, message: str = "", allocated: Amounts | None = LOW) -> ResizeState:
    return ResizeState(allocated, LOW, problem, message)


def test_pod_that_was_never_resized_has_no_end() -> None:
    assert finding(tuned("a"), NOW) is None


@pytest.mark.parametrize("field", [{"obstacle": "no limit"}, {"measuring": True}])
def test_pod_that_is_left_alone_is_not_judged(field: dict[str, Any]) -> None:
    assert finding(pod_of(Amounts(3000, GIB), **field), NOW) is None


def test_record_that_cannot_be_parsed_is_replaced_and_the_amounts_become_the_floor() -> None:
    pod = replace(tuned("a", *HIGH), unreadable="gputopo.io/resources: not JSON")
    step = update(pod)
    assert step.event is TuningEvent.RECORD_REPLACED
    assert step.message == (
        "gputopo.io/resources: not JSON, 4000m CPU and 16Gi memory; to give the pod its former "
        "floor back, create the pod again"
    )
    assert (step.record.floor, step.record.done, step.record.reason) == (HIGH, True, step.message)
    assert finding(replace(pod, record=step.record, unreadable=""), NOW) is None
    assert finding(replace(pod, obstacle="no limit"), NOW) is None


def test_applied_resize_is_done_and_reported_once() -> None:
    step = update(pod_of(reason="its share", deferrals=2))
    assert step.event is TuningEvent.RESIZED
    assert step.message == (
        "resized from 2000m CPU and 8Gi memory to 4000m CPU and 16Gi memory: its share"
    )
    assert (step.record.done, step.record.deferrals) == (True, 0)
    assert finding(pod_of(done=True), NOW) is None


def test_cut_does_not_end_the_wait_after_deferred_raises() -> None:
    assert update(pod_of(LOW, last=HIGH, target=LOW, deferrals=2)).record.deferrals == 2


@pytest.mark.parametrize(
    "state",
    [not_applied(None), not_applied("Deferred"), ResizeState(HIGH, LOW), not_applied("Error")],
)
def test_resize_that_is_not_in_effect_is_not_done(state: ResizeState) -> None:
    assert finding(pod_of(state=state), NOW) is None


@pytest.mark.parametrize("state", [ResizeState(), ResizeState(HIGH), ResizeState(HIGH, HIGH)])
def test_amounts_that_kubelet_does_not_report_count_as_applied(state: ResizeState) -> None:
    assert update(pod_of(state=state)).record.done


def test_rounded_amounts_count_as_applied_after_a_minute() -> None:
    state = ResizeState(HIGH, Amounts(3990, HIGH.memory))
    assert finding(pod_of(state=state, seconds_ago=59), NOW) is None
    assert update(pod_of(state=state, seconds_ago=60)).record.done


def test_resize_before_which_the_operator_was_killed_is_not_done() -> None:
    assert finding(pod_of(LOW), NOW) is None


@pytest.mark.parametrize(
    "pod",
    [
        pod_of(Amounts(3000, 8 * GIB)),
        pod_of(LOW, done=True),  # the user has set the amounts from before the resize
        pod_of(spec_limit=6000),
    ],
)
def test_resize_by_another_client_is_reported_and_pins_the_pod(pod: TunedPod) -> None:
    step = update(pod)
    assert step.event is TuningEvent.RESIZED_BY_OTHER
    assert step.record.pinned
    assert step.record.target == pod.spec.request
    assert "exclude the pod from the other client" in step.message
    assert finding(replace(pod, record=step.record), NOW) is None


def test_limit_of_the_user_is_no_resize_by_another_client() -> None:
    pod = pod_of(LOW, spec_limit=8000, target=LOW, done=True)
    assert finding(pod, NOW) is None


def test_infeasible_raise_is_reverted_and_bounds_later_raises() -> None:
    step = reverted(pod_of(state=not_applied("Infeasible", "too large")))
    assert step.event is TuningEvent.RESIZE_REJECTED
    assert step.message.startswith("the resize to 4000m CPU")
    assert step.message.endswith("is infeasible: too large")
    assert (step.record.last, step.record.target) == (HIGH, LOW)
    assert (step.record.most_milli_cpu, step.record.most_memory) == (2000, 8 * GIB)
    assert (step.record.pinned, step.record.peak_memory) == (False, 0)


def test_only_the_raised_resource_gets_a_bound() -> None:
    more_cpus = Amounts(4000, 8 * GIB)
    step = reverted(pod_of(more_cpus, target=more_cpus, state=not_applied("Infeasible")))
    assert (step.record.most_milli_cpu, step.record.most_memory) == (2000, None)
    more_memory = Amounts(2000, 16 * GIB)
    step = reverted(pod_of(more_memory, target=more_memory, state=not_applied("Infeasible")))
    assert (step.record.most_milli_cpu, step.record.most_memory) == (None, 16 * GIB // 2)


def test_static_cpu_manager_pins_the_pod_with_the_remedy() -> None:
    step = reverted(pod_of(state=not_applied("Infeasible", STATIC)))
    assert step.record.pinned
    assert "set the memory request below the memory limit" in step.message


def test_infeasible_cut_pins_the_pod() -> None:
    step = reverted(pod_of(LOW, **CUT, state=ResizeState(HIGH, HIGH, "Infeasible", "no")))
    assert step.record.pinned
    assert step.record.target == HIGH


@pytest.mark.parametrize(
    "state",
    [ResizeState(HIGH, HIGH, "Infeasible"), ResizeState(None, None, "Infeasible")],
)
def test_problem_of_an_earlier_resize_is_ignored(state: ResizeState) -> None:
    assert finding(pod_of(state=state), NOW) is None


def test_burstable_pod_gets_its_amount_back_and_not_its_request() -> None:
    state = ResizeState(Amounts(1999, 8 * GIB), None, "Infeasible")
    pod = pod_of(Amounts(3999, 16 * GIB), spec_limit=4000, state=state)
    step = reverted(pod)
    assert step.record.target == LOW
    assert step.spec.request.milli_cpu == 1999


def test_request_that_is_itself_a_known_amount_is_not_raised_by_1m() -> None:
    near = record(tuned("a"), last=Amounts(2000, GIB), target=Amounts(2001, GIB))
    assert known_amounts(near, Amounts(2000, GIB)) == Amounts(2000, GIB)
    assert known_amounts(near, Amounts(1999, GIB)) == Amounts(2000, GIB)
    assert known_amounts(near, Amounts(1500, GIB)) == Amounts(1500, GIB)


def test_revert_before_which_the_operator_was_killed_is_repeated() -> None:
    state = not_applied("Infeasible", "too large")
    first = reverted(pod_of(state=state)).record
    again = reverted(replace(pod_of(state=state), record=first)).record
    assert again == first


def test_revert_of_a_pinned_pod_is_repeated_until_it_has_ended() -> None:
    state = not_applied("Infeasible", STATIC)
    first = reverted(pod_of(state=state))
    pod = replace(pod_of(state=state), record=first.record)
    again = reverted(pod)
    assert (again.record, again.spec, again.event) == (first.record, first.spec, None)
    resized = replace(pod, spec=first.spec)
    assert finding(resized, NOW) is None
    ended = update(replace(resized, state=ResizeState(LOW, LOW)))
    assert (ended.record.done, ended.event) == (True, None)
    assert finding(replace(resized, record=ended.record), NOW) is None


def test_pinned_pod_whose_revert_is_rejected_keeps_its_amounts() -> None:
    pod = pod_of(HIGH, last=HIGH, target=LOW, pinned=True, rejection="forbidden")
    step = update(pod)
    assert (step.record.target, step.record.done, step.event) == (HIGH, True, None)
    assert finding(replace(pod, record=step.record), NOW) is None


def test_rejected_raise_bounds_later_raises() -> None:
    step = update(pod_of(LOW, rejection="more than the LimitRange allows"))
    assert step.event is TuningEvent.RESIZE_REJECTED
    assert step.message.endswith("more than the LimitRange allows")
    assert (step.record.target, step.record.done, step.record.pinned) == (LOW, True, False)
    assert (step.record.most_milli_cpu, step.record.most_memory) == LOW


def test_rejected_cut_pins_the_pod() -> None:
    step = update(pod_of(HIGH, last=HIGH, target=LOW, rejection="LimitRange"))
    assert step.record.pinned
    assert step.record.reason == step.message


def test_rejection_of_an_earlier_resize_is_ignored() -> None:
    assert update(pod_of(rejection="old")).event is TuningEvent.RESIZED


def test_raise_is_reverted_after_it_was_deferred_for_a_minute() -> None:
    state = not_applied("Deferred", "node is full")
    assert finding(pod_of(state=state, seconds_ago=DEFERRED_SECONDS - 1), NOW) is None
    step = reverted(pod_of(state=state, seconds_ago=DEFERRED_SECONDS))
    assert step.record.target == LOW
    assert step.record.deferrals == 1
    assert step.message.endswith("was deferred for 60 s: node is full")
    later = NOW + timedelta(seconds=20)
    assert (wait_left(step.record, NOW), wait_left(step.record, later)) == (300, 280)


def test_raise_that_is_always_deferred_is_tried_three_times() -> None:
    state = not_applied("Deferred")
    second = reverted(pod_of(state=state, seconds_ago=60, deferrals=1)).record
    assert (second.deferrals, wait_left(second, NOW), second.most_milli_cpu) == (2, 3600, None)
    third = reverted(pod_of(state=state, seconds_ago=60, deferrals=2)).record
    assert (third.deferrals, third.most_milli_cpu, third.most_memory) == (0, *LOW)


def test_deferred_raise_is_reverted_at_once_if_the_clock_was_set_back() -> None:
    state = not_applied("Deferred")
    assert reverted(pod_of(state=state, seconds_ago=-3600)).record.target == LOW
    assert finding(pod_of(state=state, seconds_ago=-60), NOW) is None


def test_floor_that_is_deferred_is_never_cut() -> None:
    floor = pod_of(state=not_applied("Deferred"), seconds_ago=99, floor=HIGH)
    assert finding(floor, NOW) is None


def test_cut_that_is_deferred_is_not_reverted() -> None:
    """Kubelet defers it while the pods would not fit on the node even after the cut."""
    cut = pod_of(LOW, **CUT, state=ResizeState(HIGH, HIGH, "Deferred"), seconds_ago=99)
    assert finding(cut, NOW) is None


def test_deferral_without_reported_amounts_is_awaited() -> None:
    state = not_applied("Deferred", allocated=None)
    assert finding(pod_of(state=state, seconds_ago=99), NOW) is None


def test_memory_that_the_container_uses_is_given_back() -> None:
    step = reverted(pod_of(LOW, **CUT, state=ResizeState(LOW, HIGH, "Error", IN_USE)))
    assert step.event is TuningEvent.RESIZE_REJECTED
    assert step.record.target == Amounts(2000, 16 * GIB)
    assert step.record.least_memory == 16 * GIB
    assert "the cut of memory to 8Gi was rejected: cannot" in step.message


@pytest.mark.parametrize(
    "pod",
    [
        pod_of(LOW, **CUT, state=ResizeState(LOW, None, "Error", IN_USE)),
        pod_of(LOW, **CUT, state=ResizeState(LOW, HIGH, "Error", IN_USE), deferrals=1),
        pod_of(LOW, **CUT, state=ResizeState(LOW, Amounts(4000, 8 * GIB), "Error", IN_USE)),
        pod_of(LOW, **CUT, state=ResizeState(LOW, HIGH, "Error", IN_USE), dataset=None),
    ],
    ids=["not reported", "waiting", "only CPUs", "memory is not tuned"],
)
def test_other_errors_of_kubelet_are_awaited(pod: TunedPod) -> None:
    assert finding(pod, NOW) is None


def test_cut_is_reverted_after_a_minute_if_kubelet_does_not_know_the_use_of_memory() -> None:
    state = ResizeState(
        LOW, HIGH, "Error", "cannot decrease memory limits: missing pod memory usage"
    )
    assert finding(pod_of(LOW, **CUT, state=state, seconds_ago=59), NOW) is None
    assert reverted(pod_of(LOW, **CUT, state=state, seconds_ago=60)).record.target == HIGH._replace(
        milli_cpu=2000
    )


def test_pod_that_ran_out_of_memory_after_a_cut_gets_the_memory_back() -> None:
    step = update(pod_of(LOW, **CUT, done=True, out_of_memory_at=LOW.memory))
    assert step.event is TuningEvent.MEMORY_GIVEN_BACK
    assert step.record.least_memory == HIGH.memory
    assert "ran out of memory at 8Gi; the pod gets 16Gi back" in step.message
    known = pod_of(LOW, **CUT, done=True, out_of_memory_at=LOW.memory)
    assert finding(replace(known, record=step.record), NOW) is None


@pytest.mark.parametrize(
    "field",
    [{"out_of_memory_at": HIGH.memory}, {"out_of_memory_at": LOW.memory, "dataset": None}],
)
def test_pod_that_ran_out_of_its_own_memory_gets_no_more(field: dict[str, Any]) -> None:
    assert finding(pod_of(LOW, **CUT, done=True, **field), NOW) is None


def test_memory_limit_above_the_request_is_no_reason_to_give_more() -> None:
    burst = 4 * GIB
    pod = pod_of(LOW, **CUT, done=True, out_of_memory_at=HIGH.memory + burst)
    spec = pod.spec._replace(limit_memory=LOW.memory + burst)
    assert finding(replace(pod, spec=spec), NOW) is None
    cut = replace(pod, spec=spec, out_of_memory_at=LOW.memory + burst)
    assert update(cut).record.least_memory == HIGH.memory


def test_pod_without_a_memory_limit_gets_no_more() -> None:
    pod = pod_of(LOW, **CUT, done=True, out_of_memory_at=LOW.memory)
    assert finding(replace(pod, spec=pod.spec._replace(limit_memory=None)), NOW) is None


def test_long_text_of_kubelet_is_cut_in_the_record() -> None:
    step = reverted(pod_of(state=not_applied("Infeasible", "x" * 9999)))
    assert len(step.record.reason) == 512
    assert len(update(pod_of(LOW, rejection="x" * 9999)).record.reason) == 512
