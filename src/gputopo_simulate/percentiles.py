"""Compute percentiles of sorted values."""

import math
from collections.abc import Sequence


def interpolated(ordered: Sequence[float], fraction: float) -> float:
    """Return a percentile, interpolated linearly between two values, as numpy does by default.

    There must be at least one value, and the values must be ascending. ``fraction`` is 0..1; 0.5
    gives the median.
    """
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def nearest(ordered: Sequence[float], fraction: float) -> float:
    """Return the value at the position that is nearest to the percentile ``fraction`` (0..1)."""
    return ordered[round(fraction * (len(ordered) - 1))]
