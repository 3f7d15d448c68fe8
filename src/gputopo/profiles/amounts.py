"""Computes the mean of amounts per step, such as bytes, and its 95 % confidence interval."""

from collections.abc import Sequence
from math import ceil, floor
from statistics import median
from typing import Final, NamedTuple

from gputopo.profiles.estimate import Estimate, combined
from gputopo.profiles.runs import DEVIATION_PER_MAD

SCATTER: Final = 0.02
"""Assumed standard deviation of an amount, relative to its median. Each step does the same work, so
amounts differ little; rates differ more."""

_OUTLIER: Final = 3.5  # standard deviations
_MOST: Final = 2**53 - 1


class MeanAmount(NamedTuple):
    """A mean in whole units, and its 95 % confidence interval, rounded outwards."""

    value: int
    low: int
    high: int


def mean_amount(amounts: Sequence[int]) -> MeanAmount:
    """Return the mean of at least one amount that is not negative. Outliers are left out.

    Example: 100, 102 and 500. The median is 102, and the median of the differences from it is 2. So
    500 is an outlier, and the mean is 101.
    """
    middle = median(amounts)
    if not middle:
        return MeanAmount(0, 0, 0)
    spread = DEVIATION_PER_MAD * median(abs(amount - middle) for amount in amounts)
    limit = _OUTLIER * max(spread, SCATTER * middle)
    kept = [amount / middle for amount in amounts if abs(amount - middle) <= limit]
    found = combined(Estimate(relative, SCATTER**2) for relative in kept)
    low, high = found.interval
    return MeanAmount(
        min(_MOST, round(found.value * middle)),
        min(_MOST, floor(max(0.0, low) * middle)),
        min(_MOST, ceil(high * middle)),
    )
