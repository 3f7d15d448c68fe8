"""Converts logarithms of the time per step to the rates of the API."""

from math import ceil, exp, expm1, log
from typing import Final, NamedTuple

from gputopo.profiles.percent import LogEstimate

_MICRO: Final = log(1e6)
_MOST: Final = log(1e18)  # fits into 64 bits


class Rate(NamedTuple):
    """A rate with its 95 % interval.

    Attributes:
        micro_steps_per_second: millionths of training steps per second.
        ci_permille: half of the width of the interval, in thousandths of the rate; 50 is +-5 %.
    """

    micro_steps_per_second: int
    ci_permille: int


def to_rate(log_time: LogEstimate) -> Rate:
    """Return the rate for the logarithm of the seconds per step.

    ``ci_permille`` is the upper half of the rate's interval, which is wider than the lower half.
    """
    half_width = log_time.interval[1] - log_time.value
    return Rate(
        round(exp(min(_MOST, _MICRO - log_time.value))),
        ceil(1000 * expm1(half_width)),
    )
