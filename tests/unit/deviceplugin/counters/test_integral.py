"""Rates become counts of bytes, and a gap between intervals is known."""

import math

import pytest

from gputopo.counters.model import ByteCount
from gputopo_deviceplugin.counters.faults import CounterError
from gputopo_deviceplugin.counters.integral import ByteRates, RateIntegral

SECOND = 1_000_000


def test_rates_are_added_over_successive_intervals() -> None:
    integral = RateIntegral[int]()
    assert integral.add({0: ByteRates(10, 20)}, 0, SECOND) == {0: ByteCount(10, 20, SECOND)}
    found = integral.add({0: ByteRates(1.5, 0)}, SECOND, 3 * SECOND)
    assert found == {0: ByteCount(13, 20, 3 * SECOND)}
    assert integral.interruptions == 0


def test_the_same_interval_counts_once() -> None:
    integral = RateIntegral[int]()
    first = integral.add({0: ByteRates(10, 20)}, 0, SECOND)
    assert integral.add({0: ByteRates(10, 20)}, 0, SECOND) == first
    assert integral.interruptions == 0


@pytest.mark.parametrize(("from_us", "keys"), [(2 * SECOND, [0]), (SECOND, [0, 1])])
def test_a_gap_or_another_set_of_links_is_an_interruption(from_us: int, keys: list[int]) -> None:
    integral = RateIntegral[int]()
    integral.add({0: ByteRates(10, 20)}, 0, SECOND)
    found = integral.add(dict.fromkeys(keys, ByteRates(1, 1)), from_us, from_us + SECOND)
    assert found[0] == ByteCount(1, 1, from_us + SECOND)
    assert integral.interruptions == 1


def test_a_clock_that_goes_back_adds_nothing() -> None:
    integral = RateIntegral[int]()
    integral.add({0: ByteRates(10, 20)}, 0, SECOND)
    assert integral.add({0: ByteRates(9, 9)}, SECOND, 0)[0] == ByteCount(10, 20, 0)


@pytest.mark.parametrize("rate", [-1.0, math.nan, math.inf, 1e14])
def test_a_rate_that_is_not_plausible_is_a_gap(rate: float) -> None:
    integral = RateIntegral[int]()
    integral.add({0: ByteRates(10, 20)}, 0, SECOND)
    with pytest.raises(CounterError, match="not plausible"):
        integral.add({0: ByteRates(1, rate)}, SECOND, 2 * SECOND)
    integral.add({0: ByteRates(1, 1)}, 2 * SECOND, 3 * SECOND)
    assert integral.interruptions == 1
