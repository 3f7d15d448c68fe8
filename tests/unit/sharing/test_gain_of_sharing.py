"""Delta of the thesis and the summed normalised speed."""

import pytest

from gputopo.sharing.model import SharingError
from gputopo.sharing.speedup import GainMeasure, delta, gain_of, slowdown_percent


def test_jobs_that_do_not_disturb_each_other_double_the_throughput() -> None:
    gain = gain_of([1.0, 1.0], [10.0, 10.0])
    assert gain.by(GainMeasure.DELTA) == gain.by(GainMeasure.SUMMED_SPEED) == 2


def test_delta_punishes_unequal_steps() -> None:
    """The example of the module: 100 ms become 110 ms, and 10 ms become 20 ms."""
    gain = gain_of([100 / 110, 10 / 20], [10.0, 100.0])
    assert gain.delta == pytest.approx(1.0)
    assert gain.summed_speed == pytest.approx(1.409, abs=1e-3)


def test_delta_of_the_worst_case_of_the_thesis() -> None:
    """Equal steps that take 1.96 times as long together have the thesis' 1.02 by both measures."""
    gain = gain_of([1 / 1.96, 1 / 1.96], [7.0, 7.0])
    assert gain.delta == pytest.approx(gain.summed_speed) == pytest.approx(1.02, abs=1e-3)


def test_delta_is_unknown_without_a_rate_alone() -> None:
    gain = gain_of([0.5, 0.9], [10.0, None])
    assert (gain.summed_speed, gain.delta) == (1.4, None)


@pytest.mark.parametrize(
    ("solo", "shared", "message"),
    [
        ([], [], "0 alone and 0 together"),
        ([1.0], [1.0, 2.0], "1 alone and 2 together"),
        ([1.0, 0.0], [1.0, 1.0], "step times: 0; must be above 0"),
    ],
)
def test_step_times_that_are_not_possible_are_rejected(
    solo: list[float], shared: list[float], message: str
) -> None:
    with pytest.raises(SharingError, match=message):
        delta(solo, shared)


def test_slowdown_in_percent() -> None:
    assert slowdown_percent(0.5) == 100
    assert slowdown_percent(1.0) == 0
