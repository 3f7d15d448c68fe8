"""Means over seeds and their confidence intervals."""

import pytest

from gputopo_simulate.intervals import confidence_interval, mean_change


def test_interval_is_students() -> None:
    found = confidence_interval([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.half_width == pytest.approx(4.3027 / 3**0.5, rel=1e-4)


def test_interval_of_many_values_is_nearly_normal() -> None:
    values = [0.0, 1.0] * 30
    assert confidence_interval(values).half_width == pytest.approx(
        2.001 * 0.5 * (60 / 59) ** 0.5 / 60**0.5, rel=1e-3
    )


def test_one_value_has_no_interval() -> None:
    assert confidence_interval([7.0]) == (7, None)


def test_changes_are_relative_to_the_other_value_of_each_pair() -> None:
    found = mean_change([(1.0, 2.0), (3.0, 2.0)])
    assert found.mean == 0
    assert found.half_width == pytest.approx(12.706 * 0.5, rel=1e-3)
