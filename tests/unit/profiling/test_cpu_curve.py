"""Points of a curve come from samples of one setting; the report states their cost."""

from typing import Any

import pytest

from gputopo.api.annotations import AnnotationError
from gputopo.api.names import PROFILING_STATE_ANNOTATION
from gputopo.api.profiling import (
    MAX_POINTS,
    CpuAmounts,
    ProfiledPoint,
    ProfilingState,
    parse_profiling_state,
)
from gputopo.profiling.curve import curve_of, merged, newest_setting, setting_of
from gputopo.profiling.report import summary
from support.profiling.pods import UID, sample


def state(*points: ProfiledPoint) -> ProfilingState:
    own = CpuAmounts(request=4000, limit=4000)
    now = "2026-01-01T00:00:00Z"
    return ProfilingState(
        uid=UID,
        container="main",
        original=own,
        most_milli_cpu=8000,
        started=now,
        last=own,
        target=own,
        since=now,
        points=points,
    )


def point(limit: int, rate: float, seconds: int = 0, setting: str = "a") -> ProfiledPoint:
    return ProfiledPoint(
        milli_cpu=limit, micro_steps_per_second=round(rate * 1e6), seconds=seconds, setting=setting
    )


@pytest.mark.parametrize(
    "change",
    [
        {"gpu_model": "A100"},
        {"gpus": 2},
        {"image_digest": "sha256:1"},
        {"effective_mb_per_s": 100},
        {"pattern": "Star"},
        {"memory_bytes": 100},
        {"socket_neighbours": ["default/other"]},
        {"gpu_neighbours": ["default/other"]},
    ],
)
def test_samples_of_another_setting_are_not_comparable(change: dict[str, Any]) -> None:
    assert setting_of(sample(1000, **change)) != setting_of(sample(1000))
    assert setting_of(sample(1000, **change)) == setting_of(sample(2000, 7.0, at=5, **change))


def test_neighbours_on_other_sockets_do_not_matter() -> None:
    assert setting_of(sample(1000, node_neighbours=["default/a"])) == setting_of(sample(1000))


def test_newest_sample_decides_the_setting() -> None:
    newest = sample(1000, at=9, gpus=2)
    assert newest_setting([newest, sample(1000)]) == setting_of(newest)
    assert newest_setting([]) is None


def test_newer_samples_replace_rates_and_keep_the_time_of_a_point() -> None:
    setting = setting_of(sample(1000))
    before = (point(1000, 1.0, seconds=90, setting=setting), point(2000, 2.0, setting=setting))
    after = merged(before, [sample(1000, 3.0, at=9), sample(1000, 9.0, at=1), sample(None)])
    assert after == (before[1], point(1000, 3.0, seconds=90, setting=setting))


def test_oldest_of_too_many_points_are_left_out() -> None:
    samples = [sample(limit, at=limit) for limit in range(1, MAX_POINTS + 3)]
    assert merged((), samples)[0].milli_cpu == 3


def test_points_of_the_pod_replace_those_of_earlier_pods() -> None:
    setting = setting_of(sample(1000))
    earlier = [sample(1000, 2.0, at=5), sample(1000, 1.0), sample(2000, 4.0), sample(None)]
    rates = curve_of(setting, [point(2000, 5.0, setting=setting), point(3000, 9.0)], earlier)
    assert rates == {1000: 2_000_000, 2000: 5_000_000}


def test_point_without_a_steady_rate_replaces_no_rate_of_earlier_pods() -> None:
    setting = setting_of(sample(1000))
    stopped = [point(limit, 0.0, setting=setting) for limit in (1000, 2000)]
    assert curve_of(setting, stopped, [sample(1000, 2.0)]) == {1000: 2_000_000, 2000: 0}


def test_points_without_a_steady_rate_are_named_and_have_no_cost() -> None:
    points = point(4000, 10.0), point(1000, 4.0, 100), point(500, 0.0, 300)
    assert summary(state(*points)) == (
        "2 points (500m to 1000m CPU) in 400 s; 1 point without a rate; "
        "cost 600 training steps with the other points"
    )
    assert summary(state(points[0], points[2])) == (
        "1 point (500m to 500m CPU) in 300 s; 1 point without a rate"
    )
    unknown = point(4000, 0.0, 300), points[1]
    assert "cost" not in summary(state(*unknown))


def test_report_states_time_and_lost_steps() -> None:
    points = point(4000, 10.0), point(8000, 11.0, 100), point(1000, 4.0, 100)
    assert summary(state(*points)) == (
        "2 points (1000m to 8000m CPU) in 200 s; cost 500 training steps"
    )
    assert summary(state(points[0], points[1])) == (
        "1 point (8000m to 8000m CPU) in 100 s; gain 100 training steps"
    )
    one = point(1000, 9.99, 100)
    assert summary(state(points[0], one)).endswith("cost 1 training step")


def test_cost_is_unknown_without_a_rate_with_the_own_cpus() -> None:
    assert summary(state(point(1000, 4.0, 100))) == "1 point (1000m to 1000m CPU) in 100 s"
    other = point(4000, 10.0, setting="b"), point(1000, 4.0, 100)
    assert "cost" not in summary(state(*other))


def test_annotation_of_another_pod_is_ignored_and_an_invalid_one_is_rejected() -> None:
    written = state(point(1000, 4.0, 100))
    annotations = {PROFILING_STATE_ANNOTATION: written.dump()}
    assert parse_profiling_state(annotations, UID) == written
    assert parse_profiling_state(annotations, "uid-copy") is None
    assert parse_profiling_state({}, UID) is None
    with pytest.raises(
        AnnotationError, match=r"gputopo.io/profiling-state: container: is required"
    ):
        parse_profiling_state({PROFILING_STATE_ANNOTATION: '{"uid": "a"}'}, UID)
