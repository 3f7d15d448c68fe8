"""Rates of the API from logarithms of times."""

from math import ceil, exp, expm1, log
from typing import Final, NamedTuple

from gputopo.profiles.estimate import Estimate

_MICRO: Final = log(1e6)
_MOST: Final = log(1e18)  # fits into 64 bits


class Rate(NamedTuple):
    """Micro-steps per second, and half the width of the 95 % interval in permille of them."""

    micro_steps_per_second: int
    ci_permille: int


def to_rate(log_time: Estimate) -> Rate:
    """Return the rate for the logarithm of the seconds per step.

    The interval of the logarithm is symmetric; ``ci_permille`` is its larger half, upwards.
    """
    return Rate(
        round(exp(min(_MOST, _MICRO - log_time.value))),
        ceil(1000 * expm1(log_time.half_width)),
    )
