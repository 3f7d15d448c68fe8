"""Compute the mean of a value over several seeds, with its confidence interval."""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Final, NamedTuple

from gputopo.profiles.estimate import student_t

_T_95: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""97.5 % quantiles of Student's t for 1 to 30 degrees of freedom, as tables print them.

``student_t`` differs by up to 0.1 %, which changes the last printed digit of some intervals.
"""


class ConfidenceInterval(NamedTuple):
    """A mean, and half of the width of its 95 % interval; None with one seed."""

    mean: float
    half_width: float | None


def confidence_interval(values: Sequence[float]) -> ConfidenceInterval:
    """Return the mean of at least one value and its 95 % interval by Student's t.

    >>> confidence_interval([3.0])
    ConfidenceInterval(mean=3.0, half_width=None)
    """
    if len(values) == 1:
        return ConfidenceInterval(values[0], None)
    freedom = len(values) - 1
    quantile = _T_95[freedom - 1] if freedom <= len(_T_95) else student_t(freedom)
    return ConfidenceInterval(fmean(values), quantile * stdev(values) / len(values) ** 0.5)


def mean_change(pairs: Sequence[tuple[float, float]]) -> ConfidenceInterval:
    """Return the mean relative change over pairs of a value and the value it is compared with.

    >>> mean_change([(1.0, 2.0)])
    ConfidenceInterval(mean=-0.5, half_width=None)
    """
    return confidence_interval([own / other - 1 for own, other in pairs])
