"""When the standby takes the Lease, decided from what kubelets report of the scheduler pods."""

from typing import Any

import pytest

from gputopo_extender.handover.leader import LeaderHistory, SchedulerPodState, Standby, pod_state

READY = SchedulerPodState(uid="leader", ready=True, extender_ready=True, crashes=0)
DOWN = SchedulerPodState(uid="leader", ready=False, extender_ready=False, crashes=1)
OWN = SchedulerPodState(uid="own", ready=True, extender_ready=True, crashes=0)
RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
ENDED: dict[str, Any] = {"terminated": {"exitCode": 137}}
BACK_OFF: dict[str, Any] = {"waiting": {"reason": "CrashLoopBackOff"}}


def crashed(times: int, *, ready: bool) -> SchedulerPodState:
    return SchedulerPodState(uid="leader", ready=ready, extender_ready=ready, crashes=times)


def pod(
    state: dict[str, Any], restarts: int, last: dict[str, Any], **metadata: str
) -> dict[str, Any]:
    ready = "running" in state
    extender = {
        "name": "extender",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": last,
    }
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {
        "metadata": {"name": "a", "uid": "leader", **metadata},
        "status": {"initContainerStatuses": [extender], "conditions": [condition]},
    }


@pytest.mark.parametrize(
    ("state", "restarts", "last", "crashes"),
    [
        ({"waiting": {"reason": "PodInitializing"}}, 0, {}, 0),
        (RUNNING, 0, {}, 0),
        (ENDED, 0, {}, 1),
        (BACK_OFF, 0, ENDED, 1),
        (RUNNING, 1, ENDED, 1),
        (BACK_OFF, 1, ENDED, 2),
    ],
)
def test_end_of_the_extender_is_counted_before_and_after_its_restart(
    state: dict[str, Any], restarts: int, last: dict[str, Any], crashes: int
) -> None:
    found = pod_state(pod(state, restarts, last))
    assert found is not None
    assert found.crashes == crashes
    assert found.ready == found.extender_ready == ("running" in state)


def test_pod_that_is_being_deleted_is_not_ready() -> None:
    found = pod_state(pod(RUNNING, 0, {}, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert found is not None
    assert not found.ready
    assert found.extender_ready


def test_scheduler_pod_without_a_started_extender_has_no_state() -> None:
    assert pod_state({"metadata": {"uid": "leader"}}) is None


def test_single_crash_with_a_restart_within_3_s_is_tolerated() -> None:
    history = LeaderHistory(tolerated_seconds=10.0)
    assert history.failure(READY, 0.0) is None
    assert history.failure(DOWN, 1.0) is None
    assert history.failure(DOWN, 3.0) is None
    assert history.failure(crashed(1, ready=True), 4.0) is None
    assert history.failure(crashed(1, ready=True), 50.0) is None


def test_second_crash_within_a_minute_is_a_failure() -> None:
    history = LeaderHistory(tolerated_seconds=10.0)
    history.failure(READY, 0.0)
    history.failure(DOWN, 1.0)
    history.failure(crashed(1, ready=True), 4.0)
    failure = history.failure(crashed(2, ready=False), 6.0)
    assert failure == "its extender ended 2 times within 60 s"


def test_second_crash_after_a_minute_is_tolerated() -> None:
    history = LeaderHistory(tolerated_seconds=10.0)
    history.failure(READY, 0.0)
    history.failure(crashed(1, ready=True), 1.0)
    assert history.failure(crashed(2, ready=False), 62.0) is None


def test_crashes_before_the_first_observation_do_not_count() -> None:
    history = LeaderHistory(tolerated_seconds=10.0)
    assert history.failure(crashed(40, ready=True), 0.0) is None


def test_extender_that_is_not_ready_for_long_is_a_failure() -> None:
    history = LeaderHistory(tolerated_seconds=10.0)
    history.failure(READY, 0.0)
    assert history.failure(DOWN, 1.0) is None
    assert history.failure(DOWN, 10.9) is None
    assert history.failure(DOWN, 11.0) == "its extender was not ready for 10 s"


def standby(ready_seconds: float = 100.0) -> Standby:
    """Return a standby that was ready for so long at time 0, beside a ready leader."""
    found = Standby(tolerated_seconds=10.0)
    assert found.failure(OWN, READY, -ready_seconds) is None
    return found


def test_ready_standby_takes_over_from_a_failing_leader() -> None:
    one = standby()
    assert one.failure(OWN, DOWN, 1.0) is None
    assert one.failure(OWN, crashed(2, ready=False), 6.0) is not None


@pytest.mark.parametrize(
    "own", [None, SchedulerPodState(uid="own", ready=False, extender_ready=True, crashes=0)]
)
def test_standby_that_is_not_ready_leaves_the_leader_alone(own: SchedulerPodState | None) -> None:
    one = standby()
    one.failure(own, DOWN, 1.0)
    assert one.failure(own, crashed(5, ready=False), 20.0) is None


def test_standby_that_was_not_ready_for_15_s_leaves_the_leader_alone() -> None:
    one = standby(ready_seconds=0.0)
    one.failure(OWN, DOWN, 1.0)
    assert one.failure(OWN, DOWN, 14.0) is None
    assert one.failure(OWN, DOWN, 15.0) == "its extender was not ready for 14 s"


def test_another_leader_starts_with_an_empty_history() -> None:
    one = standby()
    one.failure(OWN, DOWN, 1.0)
    other = SchedulerPodState(uid="other", ready=False, extender_ready=False, crashes=9)
    assert one.failure(OWN, other, 20.0) is None


def test_observations_before_an_outage_of_the_api_server_do_not_count() -> None:
    one = standby()
    one.failure(OWN, DOWN, 1.0)
    one.reset()
    assert one.failure(OWN, DOWN, 30.0) is None
    assert one.failure(OWN, DOWN, 39.0) is None


def test_lease_of_a_leader_without_a_pod_is_not_taken() -> None:
    one = standby()
    assert one.failure(OWN, None, 1.0) is None
