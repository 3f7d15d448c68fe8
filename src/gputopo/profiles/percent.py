"""Converts a slowdown and its interval to whole percentages, as the API shows them."""

from collections.abc import Callable
from math import ceil, expm1, floor
from typing import Final, NamedTuple

from gputopo.profiles.estimate import Estimate

_LEAST: Final = -100
_MOST: Final = 100_000
_DIGITS: Final = 6  # an exact 12 must not become 11 or 13 by an error of rounding


class Slowdown(NamedTuple):
    """How much longer a step takes, in percent, and the 95 % confidence interval."""

    percent: int
    low: int
    high: int


def percent_of(log_slowdown: float) -> float:
    """Return the slowdown in percent from the logarithm of the ratio of two times."""
    return 100 * expm1(log_slowdown)


def to_slowdown(estimate: Estimate, percent: Callable[[float], float] = percent_of) -> Slowdown:
    """Return a slowdown and its interval in whole percent. The interval is rounded outwards.

    ``percent`` converts the estimated logarithm to percent. It must be a rising function.
    """
    low, high = estimate.interval
    return Slowdown(
        round(_limited(percent(estimate.value))),
        floor(_limited(percent(low))),
        ceil(_limited(percent(high))),
    )


def _limited(percent: float) -> float:
    return round(min(_MOST, max(_LEAST, percent)), _DIGITS)
