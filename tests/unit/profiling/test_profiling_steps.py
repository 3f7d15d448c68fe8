"""The operator measures the CPUs of a pod step by step, and always restores the pod's own."""

from dataclasses import replace
from typing import Any

import pytest

from gputopo.api.names import PROFILING_STATE_ANNOTATION
from gputopo.api.profiling import CpuAmounts, ProfilingState, parse_profiling_state
from gputopo.profiling.decide import next_step
from gputopo.profiling.duration import MIN_POINT_SECONDS, POINT_SECONDS
from gputopo.profiling.finish import POLL_SECONDS, RETRY_SECONDS
from gputopo.profiling.model import Done, Resize, Restore, Wait
from support.profiling.pods import GUARANTEED, UID, ProfiledWorld, sample

BURSTABLE = CpuAmounts(request=1000, limit=4000)
INFEASIBLE = ("Infeasible", "static CPU manager")
DEFERRED = ("Deferred", "node is full")


def first_resize(world: ProfiledWorld) -> None:
    """Let the pod give its first sample, and resize it for the first time."""
    world.run(100)
    assert isinstance(world.step(), Resize)


def reason(world: ProfiledWorld) -> str:
    step = world.step()
    assert isinstance(step, Wait)
    return step.reason


def test_search_starts_from_the_most_cpus_and_ends_with_the_pods_own() -> None:
    world = ProfiledWorld()
    state = world.until_restored()
    # 100, then at most 10 % less with 4, then more than 10 % less with 2, then 3 CPUs; last 1.
    assert world.limits == [8000, 2000, 3000, 2500, 500, 4000]
    assert world.cpu == GUARANTEED
    assert state.result == "Done"
    assert "5 points (500m to 8000m CPU) in 500 s; cost 4000 training steps" in state.message


def test_points_of_earlier_runs_are_not_measured_again() -> None:
    known = tuple(sample(limit, limit / 100, pod_uid="earlier") for limit in (8000, 2000, 500))
    world = ProfiledWorld(profile=known)
    state = world.until_restored()
    assert 8000 not in world.limits
    assert state.result == "Done"


def test_points_of_other_images_gpus_and_neighbours_are_measured_again() -> None:
    others: list[dict[str, Any]] = [
        {"image_digest": "sha256:2"},
        {"gpu_model": "A100"},
        {"gpus": 2},
        {"socket_neighbours": ["default/other"]},
    ]
    known = tuple(sample(8000, 30.0, pod_uid="earlier", **other) for other in others)
    world = ProfiledWorld(profile=known)
    world.until_restored()
    assert world.limits[0] == 8000


def test_pod_is_not_resized_before_its_first_sample() -> None:
    world = ProfiledWorld()
    assert reason(world) == "waiting for the first sample of the pod"
    world.samples.append(sample(2000, at=1))  # taken before another client resized the pod
    assert reason(world) == "waiting for the first sample of the pod"
    assert world.limits == []


def test_known_curve_ends_the_measurement_without_a_resize() -> None:
    known = tuple(sample(limit, 30.0, pod_uid="earlier") for limit in range(500, 8500, 500))
    world = ProfiledWorld(profile=known)
    world.run(100)
    state = world.until_restored()
    assert world.limits == []
    assert state.message == "the curve is complete; the CPUs of the pod were not changed"


def test_node_without_free_cpus_limits_the_most() -> None:
    world = ProfiledWorld(available=5300)
    world.until_restored()
    assert world.limits[0] == 5000
    assert max(world.limits) == 5000
    full = ProfiledWorld(available=0)
    full.until_restored()
    assert max(full.limits) == 4000


def test_pod_with_a_low_floor_is_measured_up_to_its_bound() -> None:
    floor = CpuAmounts(request=500, limit=500)
    world = ProfiledWorld(
        cpu=floor, available=64_000, pod={"most_milli_cpu": 16_000, "sized": True}, waiting=None
    )
    state = world.until_restored()
    # Units of 500m. The search from 16 CPUs ends where a job that needs 3 CPUs hardly gains.
    assert world.limits == [16_000, 8000, 4000, 2000, 3000, 2500, 500]
    assert state.result == "Done"
    assert world.cpu == floor


def test_pod_with_a_low_floor_and_without_a_bound_is_measured_up_to_twice_its_share() -> None:
    floor = CpuAmounts(request=500, limit=500)
    world = ProfiledWorld(cpu=floor, available=64_000, share=4000)
    first_resize(world)
    assert world.limits == [8000]


def test_raise_that_is_deferred_because_cpus_were_taken_is_repeated_with_fewer() -> None:
    world = ProfiledWorld(cpu=CpuAmounts(request=500, limit=500), pod={"most_milli_cpu": 8000})
    first_resize(world)
    world.available, world.problem = 6000, DEFERRED
    state = world.until_restored()
    assert world.limits[:2] == [8000, 6000]
    assert state.most_milli_cpu == 6000
    assert state.result == "Done"


def test_neighbour_that_takes_cpus_meanwhile_lowers_the_most() -> None:
    world = ProfiledWorld()
    first_resize(world)
    world.available = 6000
    assert isinstance(world.step(), Resize)
    assert world.limits == [8000, 6000]


def test_neighbour_in_the_middle_makes_the_operator_measure_the_points_again() -> None:
    world = ProfiledWorld()
    first_resize(world)
    world.run(100)
    world.step()
    world.neighbours = ("default/noisy",)
    world.run(100)
    world.step()
    assert world.limits[:3] == [8000, 2000, 8000]
    state = world.until_restored()
    settings = {point.setting for point in state.points}
    assert state.result == "Done"
    assert len(settings) == 2


def test_burstable_pod_keeps_its_request_and_stays_above_it() -> None:
    world = ProfiledWorld(cpu=BURSTABLE, waiting=None)
    seen = []
    resize = world.resize

    def watched(cpu: CpuAmounts) -> None:
        seen.append(cpu)
        resize(cpu)

    world.resize = watched  # type: ignore[method-assign]
    state = world.until_restored()
    assert state.result == "Done"
    assert {cpu.request for cpu in seen} == {1000}
    assert min(cpu.limit for cpu in seen) == 1500


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [((3000,), "Done"), ((5000,), "CPUsNeeded"), ((9000,), "Done"), (None, "CPUsNeeded")],
)
def test_request_is_not_lowered_if_a_pending_pod_would_take_the_cpus(
    waiting: tuple[int, ...] | None, expected: str
) -> None:
    # 4 CPUs of the node are free, and up to 7.5 while the pod has 500m.
    world = ProfiledWorld(waiting=waiting)
    state = world.until_restored()
    assert state.result == expected
    assert (min(world.limits) < 4000) == (expected == "Done")


def test_time_limit_ends_the_measurement() -> None:
    world = ProfiledWorld(budget_seconds=250)
    state = world.until_restored()
    assert state.result == "TimeLimit"
    assert "no time for another CPU limit" in state.message
    assert world.cpu == GUARANTEED
    late = ProfiledWorld()
    first_resize(late)
    late.seconds += 4000
    assert late.until_restored().message.startswith("the limit of 3600 s is reached")
    short = ProfiledWorld(budget_seconds=MIN_POINT_SECONDS - 1)
    short.until_restored()
    assert short.limits == []


def test_limit_with_which_the_job_stops_has_no_rate_and_the_curve_is_not_complete() -> None:
    world = ProfiledWorld(rate=lambda limit: 0.0 if limit < 2500 else 30.0)
    state = world.until_restored()
    assert state.result == "TimeLimit"
    assert state.message == (
        "the curve is not complete; 5 points (500m to 8000m CPU) in 900 s; 2 points without a "
        "rate; cost 0 training steps with the other points"
    )
    stopped = [point for point in state.points if not point.micro_steps_per_second]
    assert {point.milli_cpu for point in stopped} == {500, 2000}
    assert all(point.seconds == POINT_SECONDS for point in stopped)


def test_slow_steps_get_the_time_that_a_sample_needs() -> None:
    # With steps of 25 s, the agent takes a sample 350 s after a resize, and publishes it later.
    world = ProfiledWorld(rate=lambda _: 0.04, sample_seconds=380, budget_seconds=7200)
    state = world.until_restored()
    assert state.result == "Done"
    assert all(point.micro_steps_per_second for point in state.points)
    assert "cost 0 training steps" in state.message


def test_job_without_a_rate_at_any_other_limit_is_never_done() -> None:
    world = ProfiledWorld(
        rate=lambda limit: 0.04 * (limit == 4000), sample_seconds=380, budget_seconds=7200
    )
    state = world.until_restored()
    assert world.limits == [8000, 2000, 3000, 3500, 500, 4000]
    assert state.result == "TimeLimit"
    assert state.message.endswith("points without a rate")
    assert {point.seconds for point in state.points if point.milli_cpu != 4000} == {730}


def test_steps_that_are_too_slow_for_the_time_limit_are_not_measured() -> None:
    world = ProfiledWorld(rate=lambda _: 0.025, sample_seconds=520, budget_seconds=599)
    state = world.until_restored()
    assert world.limits == []
    assert state.result == "NotPossible"
    assert state.message == (
        "a training step takes 40 s, so one CPU limit takes 600 s, but the time limit is 599 s; "
        "set spec.profiling.maxSeconds, or the annotation gputopo.io/profiling-seconds, to at "
        "least 600 for each CPU limit; the CPUs of the pod were not changed"
    )
    enough = replace(world, budget_seconds=600, state=None, limits=[], samples=[], seconds=0)
    assert enough.until_restored().result == "TimeLimit"
    assert enough.limits == [8000, 4000]


def test_time_of_a_point_that_the_time_limit_ends_is_reported() -> None:
    world = ProfiledWorld(rate=lambda limit: 0.04 * (limit == 4000), budget_seconds=600)
    state = world.until_restored()
    assert world.limits == [8000, 4000]
    assert state.message == (
        "the limit of 600 s is reached; 1 point (8000m to 8000m CPU) in 600 s; 1 point without a "
        "rate"
    )


def test_own_limit_keeps_its_rate_if_the_measurement_ends_beside_a_new_neighbour() -> None:
    world = ProfiledWorld(budget_seconds=1000)
    first_resize(world)
    world.neighbours = ("default/noisy",)
    while world.limits[-1] != 4000:
        world.run(100)
        world.step()
    world.seconds += 1000
    state = world.until_restored()
    assert state.result == "TimeLimit"
    assert all(point.micro_steps_per_second for point in state.points if point.milli_cpu == 4000)


def test_slow_steps_need_more_time_for_another_limit() -> None:
    world = ProfiledWorld(rate=lambda _: 0.025, sample_seconds=520, budget_seconds=1100)
    state = world.until_restored()
    assert world.limits == [8000, 4000]
    assert "leaves no time for another CPU limit" in state.message


def test_time_of_a_step_is_known_from_the_time_before_a_neighbour_started() -> None:
    world = ProfiledWorld(rate=lambda _: 0.04, sample_seconds=380, budget_seconds=7200)
    world.run(380)
    assert isinstance(world.step(), Resize)
    world.neighbours = ("default/noisy",)
    state = world.until_restored()
    assert state.result == "Done"
    assert len({point.setting for point in state.points}) == 2


@pytest.mark.parametrize("problem", [INFEASIBLE, DEFERRED])
def test_raise_that_the_node_rejects_limits_the_most_to_the_own_cpus(
    problem: tuple[str, str],
) -> None:
    world = ProfiledWorld()
    first_resize(world)
    world.problem = problem
    state = world.until_restored()
    assert world.limits[0] == 8000
    assert max(world.limits[1:]) == 4000
    assert state.result == "Done"


def test_cut_that_the_node_rejects_ends_the_measurement() -> None:
    world = ProfiledWorld(available=4000)
    first_resize(world)
    world.problem = INFEASIBLE
    state = world.until_restored()
    assert state.result == "NotPossible"
    assert "the resize to 2000m CPU was rejected: Infeasible: static CPU manager" in state.message
    assert world.cpu == GUARANTEED


def test_rejection_by_the_api_server_has_the_same_effect_as_by_the_node() -> None:
    world = ProfiledWorld()
    world.run(100)
    step = next_step(world.situation())
    assert isinstance(step, Resize)
    world.state = step.state  # the annotation was written, and the resize was rejected
    world.rejection = "exceeded quota"
    lower = world.step()
    assert isinstance(lower, Resize)
    assert lower.state.target.limit == 2000
    world.cpu = GUARANTEED
    ended = world.step()
    assert isinstance(ended, Done)
    assert "exceeded quota" in ended.state.message


def test_cut_that_the_api_server_rejects_after_a_raise_restores_the_own_cpus() -> None:
    world = ProfiledWorld()
    first_resize(world)
    world.run(100)
    cut = next_step(world.situation())
    assert isinstance(cut, Resize)
    assert cut.state.target.limit == 2000
    world.state = cut.state  # the annotation was written, and the resize was rejected
    world.rejection = "minimum cpu usage per Container is 3"
    restored = world.step()
    assert isinstance(restored, Restore)
    assert restored.state.result == "NotPossible"
    assert "minimum cpu usage per Container is 3" in restored.state.message
    assert world.cpu == GUARANTEED


def test_resize_in_progress_is_polled() -> None:
    world = ProfiledWorld(pod={"applied_milli_cpu": 4000})
    first_resize(world)
    wait = world.until_wait()
    assert wait.seconds == POLL_SECONDS
    world.problem = ("Error", "cgroup busy")
    assert world.until_wait().seconds == POLL_SECONDS


def test_resize_by_another_client_ends_the_measurement_without_a_restore() -> None:
    world = ProfiledWorld()
    first_resize(world)
    world.cpu = theirs = CpuAmounts(request=3333, limit=3333)
    step = world.step()
    assert isinstance(step, Done)
    assert step.state.result == "ResizedByOther"
    assert world.cpu == theirs
    assert world.until_wait().seconds is None


def test_resize_by_another_client_during_the_restore_keeps_the_result() -> None:
    world = ProfiledWorld()
    first_resize(world)
    world.profile = None
    assert isinstance(world.step(), Restore)
    world.cpu = CpuAmounts(request=3333, limit=3333)
    step = world.step()
    assert isinstance(step, Done)
    assert step.state.result == "Stopped"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"deleting": True}, "the pod is being deleted"),
        ({"requested": False}, "the request to measure CPUs was removed"),
    ],
)
def test_pod_that_ends_or_no_longer_requests_it_gets_its_cpus_back(
    change: dict[str, Any], expected: str
) -> None:
    world = ProfiledWorld()
    first_resize(world)
    world.pod |= change
    state = world.until_restored()
    assert state.result == "Stopped"
    assert expected in state.message
    assert world.limits == [8000, 4000]


def test_deleted_profile_ends_the_measurement() -> None:
    world = ProfiledWorld()
    first_resize(world)
    world.profile = None
    assert "the GPUProfile was deleted" in world.until_restored().message
    assert world.cpu == GUARANTEED


def test_clock_that_was_set_back_ends_the_measurement() -> None:
    world = ProfiledWorld()
    first_resize(world)
    world.seconds = 10
    assert "clock" in world.until_restored().message
    assert world.cpu == GUARANTEED


def test_clock_that_was_set_back_since_the_newest_resize_leaves_a_valid_state() -> None:
    world = ProfiledWorld()
    first_resize(world)
    world.run(100)
    assert isinstance(world.step(), Resize)
    world.run(100)
    assert world.state is not None
    world.seconds -= 150  # after the start, but before the newest resize
    world.profile = None
    world.step()
    assert world.state.result == "Stopped"
    state = parse_profiling_state({PROFILING_STATE_ANNOTATION: world.state.dump()}, UID)
    assert state == world.state


def test_ended_pod_is_not_resized() -> None:
    world = ProfiledWorld()
    first_resize(world)
    world.pod = {"running": False, "deleting": True}
    step = world.step()
    assert isinstance(step, Done)
    assert step.state.message == "the pod has ended; the CPUs of the pod were not changed"
    assert world.limits == [8000]


@pytest.mark.parametrize("change", [{"requested": False}, {"deleting": True}, {"running": False}])
def test_nothing_is_written_for_a_pod_that_is_not_measured(change: dict[str, Any]) -> None:
    world = ProfiledWorld(pod=change)
    world.run(100)
    assert world.until_wait().seconds is None
    assert world.state is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"cpu": None}, "container main has no CPU request or no CPU limit"),
        ({"obstacle": "two containers with GPUs"}, "two containers with GPUs"),
    ],
)
def test_pod_that_can_never_be_measured_reports_it_once(
    change: dict[str, Any], expected: str
) -> None:
    world = ProfiledWorld(pod=change)
    step = world.step()
    assert isinstance(step, Done)
    assert step.state.result == "NotPossible"
    assert expected in step.state.message
    assert world.until_wait().seconds is None


def test_missing_profile_is_a_warning() -> None:
    world = ProfiledWorld(profile=None)
    world.run(100)
    wait = world.until_wait()
    assert wait.warning
    assert world.state is None


def test_restore_that_is_rejected_or_deferred_is_repeated() -> None:
    world = ProfiledWorld()
    first_resize(world)
    world.profile, world.rejection = None, "denied by policy"
    world.problem = None
    ended = next_step(replace(world.situation(), rejection=""))
    assert isinstance(ended, Restore)
    world.state = ended.state
    wait = world.until_wait()
    assert (wait.seconds, wait.warning) == (RETRY_SECONDS, True)
    assert "API server: denied by policy" in wait.reason
    world.rejection = ""
    assert isinstance(world.step(), Restore)
    world.problem = ("Deferred", "")
    wait = world.until_wait()
    assert (wait.seconds, wait.warning) == (RETRY_SECONDS, True)
    assert "kubelet: Deferred" in wait.reason
    world.problem = None
    world.pod = {"applied_milli_cpu": 2000}
    assert world.until_wait().seconds == POLL_SECONDS
    world.pod = {"applied_milli_cpu": None}
    assert isinstance(world.step(), Done)


def test_operator_that_is_killed_between_its_two_writes_repeats_the_resize() -> None:
    world = ProfiledWorld()
    world.run(100)
    planned = next_step(world.situation())
    assert isinstance(planned, Resize)
    world.state = planned.state
    world.seconds += 30
    repeated = world.step()
    assert isinstance(repeated, Resize)
    assert world.limits == [8000]
    assert sum(point.seconds for point in repeated.state.points) == 0


@pytest.mark.parametrize("kill", range(12))
def test_operator_that_is_killed_at_any_step_measures_the_same_curve(kill: int) -> None:
    """A new operator knows the annotation only; the agent has lost its older samples."""
    world = ProfiledWorld()
    for number in range(200):
        step = next_step(world.situation())
        if isinstance(step, Wait):
            world.run(int(step.seconds or 10))
            continue
        world.state = step.state
        if isinstance(step, Done):
            break
        if number != kill:
            world.resize(step.state.target)
            world.samples = world.samples[-1:]
    assert isinstance(world.state, ProfilingState)
    assert world.state.restored
    assert world.cpu == GUARANTEED
    assert {point.milli_cpu for point in world.state.points} == {
        *(500, 2000, 2500, 3000, 4000, 8000)
    }


def test_state_of_the_annotation_belongs_to_one_pod() -> None:
    world = ProfiledWorld()
    first_resize(world)
    assert world.state is not None
    assert world.state.uid == UID
