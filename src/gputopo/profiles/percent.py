"""Converts a slowdown and its interval to whole percentages, as the API shows them."""

from math import ceil, expm1, floor
from typing import Final, NamedTuple, Protocol

_LEAST: Final = -100
_MOST: Final = 100_000
_DIGITS: Final = 6  # an exact 12 must not become 11 or 13 by an error of rounding


class LogEstimate(Protocol):
    """The logarithm of a ratio of times, and its 95 % interval."""

    @property
    def value(self) -> float:
        """The most probable logarithm."""

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends of the interval; they may be infinite."""


class Slowdown(NamedTuple):
    """How much longer a step takes, in percent, and the 95 % confidence interval."""

    percent: int
    low: int
    high: int


def percent_of(log_slowdown: float) -> float:
    """Return the slowdown in percent from the logarithm of the ratio of two times."""
    return 100 * expm1(log_slowdown)


def to_slowdown(estimate: LogEstimate) -> Slowdown:
    """Return whole percentages; the interval is rounded outwards."""
    low, high = estimate.interval
    return Slowdown(
        round(_limited(percent_of(estimate.value))),
        floor(_limited(percent_of(low))),
        ceil(_limited(percent_of(high))),
    )


def _limited(percent: float) -> float:
    return round(min(_MOST, max(_LEAST, percent)), _DIGITS)
