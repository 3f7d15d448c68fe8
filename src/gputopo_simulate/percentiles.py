"""Percentiles of sorted values."""

import math
from collections.abc import Sequence


def interpolated(ordered: Sequence[float], fraction: float) -> float:
    """Return a percentile, interpolated linearly between two values, as numpy does by default.

    ``statistics.quantiles`` with the inclusive method is the same formula, but rounds
    differently in the last bit and has no 0 % and 100 %. There is at least one value; they are
    ascending. ``fraction`` 0.5 is the median.
    """
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def nearest(ordered: Sequence[float], fraction: float) -> float:
    """Return a percentile without interpolation: the nearest of the values."""
    return ordered[round(fraction * (len(ordered) - 1))]
